"""Renders the objects that KubeRay and kubelets write for an attempt, as large as in production.

Pods come from the RayJob's own templates. This module must not depend on the time of events.
"""

from __future__ import annotations

import copy
from enum import StrEnum

from kuberay_standin.kubelet import render_end
from kuberay_standin.objects import Json, get_name, refer
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line

NODE = "bench-node"
WORKERS = 2
DRIVER_ADDRESS = "127.0.0.1"


class Ending(StrEnum):
    """How an attempt ends."""

    WELL = "well"
    MEMORY = "a worker is killed for memory"
    PREEMPTED = "the head is preempted"


def render_pipeline(name: str) -> Json:
    """Render a pipeline with two workers and a delay of five seconds before a retry."""
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {
            "source": {"use": "files", "with": {"path": "/data/in", "pattern": "**/*.jsonl"}},
            "stages": [{"name": "kept", "use": "text-quality", "resources": {"cpu": 1}}],
            "sink": {"use": "jsonl"},
            "retry": {"jitter": "none", "backoff": "fixed", "delay": "5s"},
            "ray": {
                "workerGroups": [
                    {"name": "cpu", "minReplicas": WORKERS, "resources": {"memory": "8Gi"}}
                ]
            },
        },
    }


def render_cluster(rayjob: Json) -> Json:
    """Render the RayCluster of a RayJob. Both have the same name."""
    metadata = {"labels": rayjob["metadata"]["labels"]}
    return _own("RayCluster", "ray.io/v1", rayjob, get_name(rayjob), metadata) | {
        "spec": copy.deepcopy(rayjob["spec"]["rayClusterSpec"])
    }


def render_pods(rayjob: Json, cluster: Json) -> list[Json]:
    """Render the head and the workers."""
    spec, name = rayjob["spec"]["rayClusterSpec"], get_name(rayjob)
    group = spec["workerGroupSpecs"][0]["template"]
    head = _render_pod(f"{name}-head", cluster, spec["headGroupSpec"]["template"])
    return [head, *(_render_pod(f"{name}-w{at}", cluster, group) for at in range(WORKERS))]


def render_submitter(rayjob: Json) -> Json:
    """Render the pod that submits the driver."""
    template = rayjob["spec"]["submitterPodTemplate"]
    return _render_pod(f"{get_name(rayjob)}-submit", rayjob, template)


def render_memory_kill(pod: Json, time: str) -> Json:
    """Render the status of a pod whose container exceeded its memory limit."""
    return render_end(pod, time, 137, "OOMKilled")


def render_disruption(time: str) -> Json:
    """Render the pod status that the scheduler writes for a preempted pod."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastTransitionTime": time,
    }
    return {"conditions": [condition]}


def render_job_status(rayjob: Json, time: str, deployment: str, job: str = "") -> Json:
    """Render the status of a running RayJob."""
    status = {
        "jobDeploymentStatus": deployment,
        "jobId": get_name(rayjob),
        "rayClusterName": get_name(rayjob),
        "startTime": time,
        "failed": 0,
        "succeeded": 0,
    }
    return status | ({"jobStatus": job, "rayJobInfo": {"startTime": time}} if job else {})


def render_job_end(time: str, ending: Ending) -> Json:
    """Render the status changes of a RayJob at its end."""
    if ending is Ending.WELL:
        failure = format_outcome_line(
            DriverOutcome(exit_code=0, message="all sources are finished")
        )
        words = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "succeeded": 1}
        return {**words, "endTime": time, "message": f"Job finished successfully. {failure}"}
    failed = {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "failed": 1}
    if ending is Ending.MEMORY:
        failure = format_outcome_line(DriverOutcome(exit_code=1, message="a worker was lost"))
        message = f"Job entrypoint command failed with exit code 1, last logs: {failure}"
    else:
        message = "Job supervisor actor died: the node of the head was lost"
    return {**failed, "endTime": time, "reason": "AppFailed", "message": message}


def _render_pod(name: str, owner: Json, template: Json) -> Json:
    template = copy.deepcopy(template)
    body = _own("Pod", "v1", owner, name, template.get("metadata", {}))
    return body | {"spec": template["spec"] | {"nodeName": NODE, "restartPolicy": "Never"}}


def _own(kind: str, version: str, owner: Json, name: str, metadata: Json) -> Json:
    kept = {key: value for key, value in metadata.items() if key in {"labels", "annotations"}}
    metadata = {"name": name, **kept, "ownerReferences": [refer(owner)]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
