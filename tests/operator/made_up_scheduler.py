"""A scheduler for tests, with everything that a new scheduler needs, in one module."""

from __future__ import annotations

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.integrations.scheduler import ClusterReader, Labels, Scheduler
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import Meta, RayJob
from strandline_operator.model.plan import ObjectKind

URN_LABEL = "lots.example/urn"


class LotsKind(ObjectKind):
    """Kinds of the made-up scheduler."""

    TICKET = "tickets.lots.example"

    @property
    def root(self) -> str:
        """The path of the kind's API version."""
        return "/apis/lots.example/v1"


class Lots(Scheduler):
    """Draw RayJobs by lot from an urn, possibly more than once."""

    name = "Lots"
    records = "tickets of Lots"
    queue_label = URN_LABEL
    stop_reasons = frozenset({"Redrawn"})

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the urn label of a pipeline."""
        return {name: value for name, value in pipeline.items() if name == URN_LABEL}

    def holds(self, rayjob: Meta) -> bool:
        """Return True if the RayJob is in an urn."""
        return URN_LABEL in rayjob.labels

    def name_holder(self, rayjob: Meta) -> str:
        """Return the urn of a RayJob."""
        return f"urn {rayjob.labels[URN_LABEL]}"

    def explain_misfit(self, rayjob: RayJob, *, is_queued: bool) -> str:
        """Explain that the scheduler supports a single worker group."""
        return "Lots draws for one worker group only" if len(rayjob.groups) > 1 else ""

    async def read_wait(self, reader: ClusterReader, rayjob: RayJob) -> QueueState | None:
        """Return the text of the RayJob's ticket."""
        tickets = await reader.list_all(LotsKind.TICKET, rayjob.meta.namespace, "")
        return None if tickets is None else QueueState(5.0, tickets[0]["text"])
