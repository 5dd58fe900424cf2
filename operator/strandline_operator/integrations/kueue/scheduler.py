"""Supports Kueue, which suspends RayJobs until a queue admits them, and may suspend them again."""

from __future__ import annotations

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.integrations.kueue.workloads import (
    VERSIONS,
    ApiVersion,
    describe_absence,
    read_workloads,
)
from strandline_operator.integrations.scheduler import ClusterReader, Labels, Scheduler
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import Meta, RayJob

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
# Label of a Workload with the uid of its RayJob.
JOB_LABEL = "kueue.x-k8s.io/job-uid"
# Kueue's names for the controller of RayJobs on other clusters, and for the submitter's pod set.
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
SUBMITTER_SET = "submitter"
# Maximum number of pod sets. The API server rejects a Workload with more, and only Kueue's own log
# shows the reason.
MOST_POD_SETS = 8


class Kueue(Scheduler):
    """Scheduler that assigns RayJobs to a LocalQueue, and reads their Workloads."""

    name = "Kueue"
    records = "Kueue's Workloads"
    queue_label = QUEUE_LABEL
    priority_label = PRIORITY_LABEL
    # KubeRay copies this annotation to the cluster.
    resize_annotation = "kueue.x-k8s.io/elastic-job"
    stop_reasons = frozenset({"Stopped"})

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the queue and priority labels, from the spec or the pipeline's labels."""
        labels = {
            QUEUE_LABEL: ray.queue_name or pipeline.get(QUEUE_LABEL),
            PRIORITY_LABEL: ray.queue_priority_class or pipeline.get(PRIORITY_LABEL),
        }
        return {name: value for name, value in labels.items() if value}

    def name_holder(self, rayjob: Meta) -> str:
        """Return the name of a RayJob's LocalQueue."""
        name = rayjob.labels.get(QUEUE_LABEL)
        return f"LocalQueue {name}" if name else self.name

    def explain_misfit(self, rayjob: RayJob, *, is_queued: bool) -> str:
        """Explain why Kueue can never run a RayJob, which otherwise only Kueue's log shows."""
        # The other cluster has neither the ConfigMap nor the claims, so the driver could not start.
        if rayjob.managed_by == MULTIKUEUE:
            where = "which has neither its ConfigMap nor its claims"
            return f"MultiKueue sends RayJob {rayjob.meta.name} to another cluster, {where}"
        # Skip a RayJob that a queue has admitted, because it evidently fits.
        is_held = is_queued and QUEUE_LABEL in rayjob.meta.labels
        return _explain_shape(_list_pod_sets(rayjob)) if is_held else ""

    async def read_wait(self, reader: ClusterReader, rayjob: RayJob) -> QueueState | None:
        """Return the state of a RayJob's Workload, or of its LocalQueue if there is no Workload."""
        namespace, queue = rayjob.meta.namespace, rayjob.meta.labels.get(QUEUE_LABEL, "")
        for version in VERSIONS:
            selector = f"{JOB_LABEL}={rayjob.meta.uid}"
            workloads = await reader.list_all(version.workload, namespace, selector)
            # Use the first version that the cluster serves, because all versions have the same
            # objects.
            if workloads is not None:
                state = read_workloads(workloads, queue)
                return state or await _read_queue(reader, version, rayjob.meta, queue)
        return None


async def _read_queue(
    reader: ClusterReader, version: ApiVersion, rayjob: Meta, queue: str
) -> QueueState:
    # Without a Workload, check whether the queue exists. A Workload reports a missing queue itself.
    found = queue and await reader.get(version.queue, rayjob.namespace, queue)
    return QueueState(message=describe_absence(rayjob.name, queue, is_missing=found is None))


def _list_pod_sets(rayjob: RayJob) -> list[str]:
    """Return Kueue's names for a RayJob's pod sets."""
    return ["head", *rayjob.groups, *([SUBMITTER_SET] if rayjob.has_submitter else ())]


def _explain_shape(pod_sets: list[str]) -> str:
    # Kueue can't distinguish two pod sets with the same name.
    if pod_sets.count(SUBMITTER_SET) > 1:
        return f"a worker group must not be named {SUBMITTER_SET!r}, as Kueue names the submitter"
    if len(pod_sets) <= MOST_POD_SETS:
        return ""
    kinds = ", ".join(pod_sets)
    return (
        f"Kueue supports at most {MOST_POD_SETS} kinds of pods, but the attempt has "
        f"{len(pod_sets)}: {kinds}"
    )
