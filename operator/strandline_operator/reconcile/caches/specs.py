"""Specs as they were read last, since most passes meet one that has not changed.

Compared is all that a spec is read from, so that what is kept is what reading anew would give. This
room must not know what a spec means.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline_api.documents.problems import SpecError
from strandline_api.documents.stored import describe_unknown, parse_stored_pipeline
from strandline_api.objects.pipeline import PipelineSpec
from strandline_operator.cluster.api import Body

_LOGGER = logging.getLogger(__name__)


class Found(NamedTuple):
    """A spec, or what is wrong with it, a sentence each; and paths of fields that are ignored."""

    spec: PipelineSpec | None
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class SpecMemory:
    """Specs by uid of their pipeline."""

    _kept: dict[str, tuple[Body, Found]] = field(default_factory=dict)

    def read(self, uid: str, manifest: Body) -> Found:
        """Return the spec in a manifest: apiVersion, kind, metadata, spec."""
        before, found = self._kept.get(uid, (None, None))
        if found is None or before != manifest:
            found = read_spec(manifest)
            _log_unknown(manifest, found.unknown)
            self._kept[uid] = (manifest, found)
        return found

    def forget(self, uid: str) -> None:
        """Forget a pipeline that is gone."""
        self._kept.pop(uid, None)

    def __len__(self) -> int:
        return len(self._kept)


def read_spec(manifest: Body) -> Found:
    """Return the same, without any memory."""
    try:
        pipeline, unknown = parse_stored_pipeline(manifest)
    except SpecError as error:
        return Found(None, tuple(map(str, error.problems)))
    return Found(pipeline.spec, (), unknown)


def _log_unknown(manifest: Body, unknown: tuple[str, ...]) -> None:
    """Describe it once for each spec that is read, since a condition may be overlooked."""
    if unknown:
        metadata = manifest["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        text = describe_unknown("this operator", unknown)
        _LOGGER.warning("%s", text, extra={"pipeline": key})
