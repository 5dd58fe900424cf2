"""The port of schedulers, which decide when and where a RayJob may run.

KubeRay suspends a RayJob that waits for its turn. Everything else differs between schedulers:
labels, records of a wait, and the words that explain it. This room must not know what follows from
a wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import Meta, RayJob
from strandline_operator.model.plan import ObjectKind

Json = dict[str, Any]
Labels = Mapping[str, str]


class ClusterReader(Protocol):
    """Reads the scheduler's objects. Failures raise an `ApiError`."""

    async def list_all(self, kind: ObjectKind, namespace: str, selector: str) -> list[Json] | None:
        """Return objects with some labels. Return None if the cluster does not serve the kind."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Return an object, or None if it is missing."""


class Scheduler:
    """A scheduler that takes part in nothing; subclasses override what their product does.

    Attributes:
        name: the product, as it begins a sentence.
        records: the objects that explain a wait; empty if the product writes none.
        queue_label, priority_label: labels that name a queue and a priority; empty without one.
        resize_annotation: on a pipeline and its RayJobs, "true" makes the product resize them.
        stop_reasons: reasons of events whose message explains why a running RayJob was suspended.
    """

    name = ""
    records = ""
    queue_label = ""
    priority_label = ""
    resize_annotation = ""
    stop_reasons: frozenset[str] = frozenset()

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the labels of a RayJob, from the spec or from labels of the pipeline itself."""
        return {}

    def holds(self, rayjob: Meta) -> bool:
        """Return whether this product is the one that suspends a RayJob."""
        return False

    def name_holder(self, rayjob: Meta) -> str:
        """Return what a suspended RayJob waits in."""
        return self.name

    def explain_misfit(self, rayjob: RayJob, *, is_queued: bool) -> str:
        """Explain why the RayJob can never run here. Empty if it can."""
        return ""

    async def read_wait(self, reader: ClusterReader, rayjob: RayJob) -> QueueState | None:
        """Return why a suspended RayJob waits. Return None if the cluster serves no records."""
        return QueueState()
