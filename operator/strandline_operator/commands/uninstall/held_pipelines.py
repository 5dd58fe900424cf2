"""Finds pipelines with the operator's finalizer, and describes them.

Without an operator, a pipeline with the finalizer, and its namespace, can never be deleted. This
module must not depend on how pipelines are read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_api.names import FINALIZER

# Maximum number of pipelines in a message. The command in docs/install.md lists all of them.
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
        """Namespace and name, such as `corpora/web`."""
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
    """Describe what remains of a pipeline whose finalizer was removed."""
    names = ", ".join(rayjobs)
    if pipeline.is_deleting:
        # Garbage collection deletes the attempts, which deletes their RayJobs.
        return f"released {pipeline.key}, which was being deleted"
    if names:
        return (
            f"released {pipeline.key}: RayJob {names} continues until its driver ends, and no "
            "attempt follows it"
        )
    return f"released {pipeline.key}: no attempt is running"


def describe_held(pipelines: Iterable[HeldPipeline]) -> str:
    """Describe the pipelines with the finalizer, and name some of them."""
    keys = [pipeline.key for pipeline in pipelines]
    more = len(keys) - MOST_NAMED
    names = ", ".join(keys[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    noun, verb = ("pipeline", "has") if len(keys) == 1 else ("pipelines", "have")
    return f"{len(keys)} {noun} {verb} an attempt under way or due: {names}"
