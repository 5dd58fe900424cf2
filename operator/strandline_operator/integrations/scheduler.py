"""Interface of schedulers, which decide when and where a RayJob may run.

KubeRay suspends a RayJob that waits for its turn. Everything else differs between schedulers:
labels, records of a wait, and messages. The module must not depend on the effects of a wait.
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
    """Reader of a scheduler's objects. Failures raise an `ApiError`."""

    async def list_all(self, kind: ObjectKind, namespace: str, selector: str) -> list[Json] | None:
        """Return objects by labels. Return None if the cluster does not serve the kind."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Return an object, or None if it is missing."""


class Scheduler:
    """A scheduler without effects; subclasses override the features of their product.

    Attributes:
        name: name of the product, capitalized as at the start of a sentence.
        records: kinds of objects that explain a wait; empty if no objects do.
        queue_label, priority_label: labels for queue and priority; empty if unsupported.
        resize_annotation: annotation of a pipeline and its RayJobs; "true" enables resizing.
        stop_reasons: reasons of events whose message explains the suspension of a running RayJob.
    """

    name = ""
    records = ""
    queue_label = ""
    priority_label = ""
    resize_annotation = ""
    stop_reasons: frozenset[str] = frozenset()

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the labels of a RayJob, from the spec or from the pipeline's own labels."""
        return {}

    def holds(self, rayjob: Meta) -> bool:
        """Return whether this product suspends a RayJob."""
        return False

    def name_holder(self, rayjob: Meta) -> str:
        """Return the name of the queue in which a suspended RayJob waits."""
        return self.name

    def explain_misfit(self, rayjob: RayJob, *, is_queued: bool) -> str:
        """Explain why the RayJob can never run here. Return an empty string if it can."""
        return ""

    async def read_wait(self, reader: ClusterReader, rayjob: RayJob) -> QueueState | None:
        """Return the state of a suspended RayJob's wait; None if the cluster has no record."""
        return QueueState()
