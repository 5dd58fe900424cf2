"""Specs as they were read last, since most passes meet one that has not changed.

Compared is all that a spec is read from, so that what is kept is what reading anew would give. This
room must not know what a spec means.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_api.documents import parse_pipeline
from strandline_api.pipeline import PipelineSpec
from strandline_api.problems import SpecError
from strandline_operator.cluster.api import Body

# A spec, or what is wrong with it, a sentence each.
Found = tuple[PipelineSpec | None, tuple[str, ...]]


@dataclass(slots=True)
class SpecMemory:
    """Specs by uid of their pipeline."""

    _kept: dict[str, tuple[Body, Found]] = field(default_factory=dict)

    def read(self, uid: str, manifest: Body) -> Found:
        """The spec in a manifest: apiVersion, kind, metadata, spec."""
        before, found = self._kept.get(uid, (None, None))
        if found is None or before != manifest:
            found = read_spec(manifest)
            self._kept[uid] = (manifest, found)
        return found

    def forget(self, uid: str) -> None:
        """A pipeline is gone."""
        self._kept.pop(uid, None)

    def __len__(self) -> int:
        return len(self._kept)


def read_spec(manifest: Body) -> Found:
    """The same, without any memory."""
    try:
        return parse_pipeline(manifest).spec, ()
    except SpecError as error:
        return None, tuple(map(str, error.problems))
