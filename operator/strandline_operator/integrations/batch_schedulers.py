"""Support for Volcano and YuniKorn.

KubeRay copies their labels from a RayJob to its cluster and pods. Their RayJobs are not suspended;
instead, KubeRay's pods wait for a node.
"""

from __future__ import annotations

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.integrations.scheduler import Labels, Scheduler

KUBERAY_LABELS = frozenset(
    {"ray.io/scheduler-name", "ray.io/priority-class-name", "ray.io/gang-scheduling-enabled"}
)
YUNIKORN_PREFIX = "yunikorn.apache.org/"
YUNIKORN_APPLICATION = f"{YUNIKORN_PREFIX}app-id"
PREFIXES = ("volcano.sh/", YUNIKORN_PREFIX)


class BatchSchedulers(Scheduler):
    """Scheduler that copies a pipeline's labels for KubeRay's batch schedulers."""

    def label_rayjob(self, rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
        """Return the labels of the pipeline that batch schedulers use."""
        labels = {
            name: value
            for name, value in pipeline.items()
            if name in KUBERAY_LABELS or name.startswith(PREFIXES)
        }
        # Make each attempt a separate application for YuniKorn. Otherwise, the attempt would wait
        # for the previous attempt.
        is_yunikorn = any(name.startswith(YUNIKORN_PREFIX) for name in labels)
        return labels | ({YUNIKORN_APPLICATION: rayjob} if is_yunikorn else {})
