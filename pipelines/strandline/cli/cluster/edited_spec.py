"""Renders the current spec as options for a command that runs with the latest attempt's file.

The pod has the file of the attempt, which does not have the user's later edits. This module does no
I/O.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from strandline.cli.cluster.objects import ClusterPipeline
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.spec.predecessors import Reference, join_location, replace_references

# Fields of a spec that determine which work a run repeats.
_EDITED = ("source", "stages", "sink", "onChange", "keep", "keepAtMost")


def render_edits(pipeline: ClusterPipeline) -> list[str]:
    """Render the fields of the current spec as `--set` options.

    Raises:
        SpecError: the spec refers to an artifact of another pipeline, or to an output of another
            pipeline that no attempt has read yet.
    """
    known = {each.pipeline: each.output for each in pipeline.status.inputs}

    def locate(reference: Reference) -> str:
        root = known.get(reference.pipeline)
        # The locations of artifacts depend on mounts that only the operator can create.
        if not root or reference.artifact:
            message = (
                f"uses information that only attempts have about pipeline {reference.pipeline!r}"
            )
            raise SpecError(
                (Problem("spec", message, "run `strandline plan` with both pipelines"),)
            )
        return join_location(root, reference)

    return [
        word for setting in _list_settings(pipeline.spec, locate) for word in ("--set", setting)
    ]


def _list_settings(spec: Mapping[str, Any], locate: Callable[[Reference], str]) -> Iterator[str]:
    for name in _EDITED:
        if name in spec:
            yield f"spec.{name}={json.dumps(replace_references(spec[name], locate))}"
