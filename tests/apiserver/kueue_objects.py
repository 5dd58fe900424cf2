"""Renders the manifests of Kueue's administrators and of queued pipelines."""

from __future__ import annotations

from typing import Any

from operator_stories import spell_pipeline

Json = dict[str, Any]
VERSION = "kueue.x-k8s.io/v1beta2"
SMALL = {"cpu": 1, "memory": "1Gi"}
# CPU quota for one run: a core each for head and worker, and a little for the submitter.
ONE_RUN = "3"


def render_flavor(name: str = "default", **spec: Any) -> Json:
    """Render a flavor."""
    return {"apiVersion": VERSION, "kind": "ResourceFlavor", "metadata": {"name": name}} | (
        {"spec": spec} if spec else {}
    )


def render_cluster_queue(
    name: str = "all", cpu: str = ONE_RUN, flavor: str = "default", **spec: Any
) -> Json:
    """Render a ClusterQueue with this CPU quota and plenty of memory."""
    quotas = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "100Gi"}]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": flavor, "resources": quotas}],
    }
    return {
        "apiVersion": VERSION,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def render_local_queue(name: str = "team-a", cluster_queue: str = "all") -> Json:
    """Render a LocalQueue."""
    return {
        "apiVersion": VERSION,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": cluster_queue},
    }


def render_multikueue(name: str) -> tuple[Json, Json, Json]:
    """Render another cluster and the admission check that sends runs there, without the Secret."""
    metadata = {"metadata": {"name": name}}
    config = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
    specs: dict[str, Json] = {
        "MultiKueueCluster": {"clusterSource": source},
        "MultiKueueConfig": {"clusters": [name]},
        "AdmissionCheck": {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config},
    }
    cluster, clusters, check = (
        {"apiVersion": VERSION, "kind": kind, **metadata, "spec": spec}
        for kind, spec in specs.items()
    )
    return cluster, clusters, check


def render_priority(name: str, value: int) -> Json:
    """Render a WorkloadPriorityClass."""
    kind = "WorkloadPriorityClass"
    return {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "value": value}


def render_pipeline(name: str, queue: str = "team-a", priority: str = "", **ray: Any) -> Json:
    """Render a queued pipeline with a head and a worker."""
    named = {"queueName": queue} if queue else {}
    named |= {"queuePriorityClass": priority} if priority else {}
    groups = [{"name": "cpu", "minReplicas": 1, "resources": SMALL}]
    fields = {"head": {"resources": SMALL}, "workerGroups": groups, **named, **ray}
    return spell_pipeline(name, ray=fields)
