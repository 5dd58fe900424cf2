"""Pipelines with the operator's finalizer, and messages about them.

Without an operator the finalizer stays forever, and its namespace can't be deleted. This module
must not depend on the way pipelines are read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_api.names import FINALIZER

# A list of hundreds is not helpful. The command in docs/install.md lists all held pipelines.
MOST_NAMED = 10

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HeldPipeline:
    """A pipeline with the operator's finalizer.

    Attributes:
        finalizers: other finalizers, in order.
        version: resource version that was read.
    """

    namespace: str
    name: str
    uid: str
    version: str
    finalizers: tuple[str, ...]
    is_deleting: bool

    @property
    def key(self) -> str:
        """Namespace and name: `corpora/web`."""
        return f"{self.namespace}/{self.name}"

    def render_release(self) -> dict[str, Any]:
        """Render the patch that removes only the operator's finalizer."""
        return {
            "metadata": {"resourceVersion": self.version, "finalizers": list(self.finalizers)},
        }


def read_held(body: Json | None) -> HeldPipeline | None:
    """Return a pipeline from its object, or None if it lacks the finalizer."""
    metadata = body.get("metadata") if body is not None else None
    if not isinstance(metadata, Mapping):
        return None
    names = metadata.get("finalizers")
    finalizers = names if isinstance(names, list) else []
    if FINALIZER not in finalizers:
        return None
    return HeldPipeline(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        finalizers=tuple(entry for entry in finalizers if entry != FINALIZER),
        is_deleting="deletionTimestamp" in metadata,
    )


def describe_release(pipeline: HeldPipeline, rayjobs: Iterable[str]) -> str:
    """Describe the remaining objects of a released pipeline."""
    names = ", ".join(rayjobs)
    if pipeline.is_deleting:
        # Garbage collection deletes the attempts, and with them their RayJobs.
        return f"released {pipeline.key}, which was being deleted"
    if names:
        return (
            f"released {pipeline.key}: RayJob {names} continues until its driver ends, and no "
            "attempt follows it"
        )
    return f"released {pipeline.key}: no attempt is running"


def describe_held(pipelines: Iterable[HeldPipeline]) -> str:
    """Describe the held pipelines, naming at most some of them."""
    keys = [pipeline.key for pipeline in pipelines]
    more = len(keys) - MOST_NAMED
    names = ", ".join(keys[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    noun, verb = ("pipeline", "has") if len(keys) == 1 else ("pipelines", "have")
    return f"{len(keys)} {noun} {verb} an attempt under way or due: {names}"
