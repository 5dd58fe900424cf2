"""Interface of schedulers, which decide when and where a RayJob may run.

A RayJob that waits for a scheduler is suspended. Labels, records of the wait, and messages differ
between schedulers. This module must not depend on what follows from a wait.
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
    """Reads a scheduler's objects. Failures raise an `ApiError`."""

    async def list_all(self, kind: ObjectKind, namespace: str, selector: str) -> list[Json] | None:
        """Return objects by labels, or None if the cluster does not serve the kind."""

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Json | None:
        """Return an object, or None if it does not exist."""


class Scheduler:
    """Base class of schedulers. Methods do nothing; subclasses override supported features.

    Attributes:
        name: name of the product, capitalized as at the start of a sentence.
        records: kinds of objects that explain a wait; empty if there are none.
        queue_label, priority_label: labels for queue and priority; empty if unsupported.
        resize_annotation: annotation on pipelines and RayJobs whose value "true" enables resizing.
        stop_reasons: event reasons whose message explains why a running RayJob was suspended.
    """

    name = ""
    records = ""
    queue_label = ""
    priority_label = ""
    resize_annotation = ""
    stop_reasons: frozenset[str] = frozenset()

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the labels for a RayJob, from the spec or from the pipeline's labels."""
        return {}

    def holds(self, rayjob: Meta) -> bool:
        """Return True if this product can suspend a RayJob."""
        return False

    def name_holder(self, rayjob: Meta) -> str:
        """Return the name of the queue in which a suspended RayJob is waiting."""
        return self.name

    def explain_misfit(self, rayjob: RayJob, *, is_queued: bool) -> str:
        """Explain why a RayJob can never run on this cluster. Return an empty string if it can."""
        return ""

    async def read_wait(self, reader: ClusterReader, rayjob: RayJob) -> QueueState | None:
        """Return the state of a suspended RayJob's wait, or None if the wait has no record."""
        return QueueState()
