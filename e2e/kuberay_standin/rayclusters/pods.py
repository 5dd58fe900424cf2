"""Builds pods of a Ray cluster: the RayJob's templates plus the command that starts Ray.

Names, labels, commands, and arguments are as recorded; probes are chosen as KubeRay v1.7 chooses
them. The recordings omit the variables and the wait for the head, so these are the stand-in's own.
This module does no I/O.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping

from kuberay_standin.objects import (
    CLUSTER_LABEL,
    GROUP_LABEL,
    INDEX_LABEL,
    MADE_BY,
    NODE_LABEL,
    Json,
    get_name,
    refer,
)
from kuberay_standin.rayclusters.quantities import read_quantity
from kuberay_standin.rayclusters.tokens import give_token

GCS_PORT = 6379
DASHBOARD_PORT = 8265
AGENT_PORT = 52365
METRICS_PORT = 8080
HEAD_GROUP = "headgroup"
SHELL = ["/bin/bash", "-c", "--"]
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - Ray's object store
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "
VERSION = re.compile(r"v?(\d+)\.(\d+)")
FIRST_WITH_ONE_ANSWER = (2, 53)
SMALL = {"cpu": "200m", "memory": "256Mi"}


def name_service(cluster: str) -> str:
    """Return the name of the head's Service."""
    return f"{cluster}-head-svc"


def format_host(cluster: Json) -> str:
    """Return the head's DNS name."""
    namespace = cluster["metadata"]["namespace"]
    return f"{name_service(get_name(cluster))}.{namespace}.svc.cluster.local"


def make_service(cluster: Json) -> Json:
    """Return the headless Service of a RayCluster's head."""
    labels = {**_label(cluster, "head", HEAD_GROUP), CLUSTER_LABEL: get_name(cluster)}
    return _lead_to_head(cluster, name_service(get_name(cluster)), labels, cluster)


def make_job_service(rayjob: Json, cluster: Json) -> Json:
    """Return the Service of a RayJob, which points to the head of its current RayCluster."""
    labels = {**MADE_BY, "ray.io/originated-from-cr-name": get_name(rayjob)}
    return _lead_to_head(cluster, name_service(get_name(rayjob)), labels, rayjob)


def _lead_to_head(cluster: Json, name: str, labels: Mapping[str, str], owner: Json) -> Json:
    ports = find_ports(cluster)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": cluster["metadata"]["namespace"],
            "labels": dict(labels),
            "ownerReferences": [refer(owner)],
        },
        "spec": {
            "clusterIP": "None",
            # Workers resolve the head's name before the head is ready.
            "publishNotReadyAddresses": True,
            "selector": {CLUSTER_LABEL: get_name(cluster), NODE_LABEL: "head"},
            "ports": [{"name": name, "port": port} for name, port in sorted(ports.items())],
        },
    }


def find_ports(cluster: Json) -> dict[str, int]:
    """Return the head's ports by name. Use Ray's defaults if its container declares no ports."""
    container = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    named = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    usual = {"client": 10001, "dashboard": DASHBOARD_PORT, "gcs-server": GCS_PORT, "serve": 8000}
    return {"metrics": METRICS_PORT, **(named or usual)}


def make_head(cluster: Json) -> Json:
    """Return the head pod of a RayCluster. The server generates its name's suffix."""
    group = cluster["spec"]["headGroupSpec"]
    pod = _make_pod(cluster, group, "head", HEAD_GROUP)
    container = pod["spec"]["containers"][0]
    params = {
        "dashboard-host": "0.0.0.0",  # noqa: S104 - inside a pod
        **_list_params(group, container),
    }
    _add_ray(container, "ray start --head ", params, f"127.0.0.1:{GCS_PORT}")
    give_token(container, cluster)
    _add_probes(container, cluster, group, is_head=True)
    return pod


def make_worker(cluster: Json, group: Json, index: int) -> Json:
    """Return the worker pod of a group with this index."""
    pod = _make_pod(cluster, group, "worker", group["groupName"])
    pod["metadata"]["labels"][INDEX_LABEL] = str(index)
    container = pod["spec"]["containers"][0]
    address = f"{format_host(cluster)}:{GCS_PORT}"
    params = {"address": address, **_list_params(group, container)}
    _add_wait(pod, address)
    _add_ray(container, "ray start ", params, address)
    for each in (container, pod["spec"]["initContainers"][-1]):
        give_token(each, cluster)
    _add_probes(container, cluster, group, is_head=False)
    return pod


def _make_pod(cluster: Json, group: Json, node: str, group_name: str) -> Json:
    template = copy.deepcopy(group["template"])
    own = template.get("metadata") or {}
    name = get_name(cluster)
    middle = "head" if node == "head" else f"{group_name}-worker"
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-{middle}-",
            "namespace": cluster["metadata"]["namespace"],
            "labels": {**own.get("labels", {}), **_label(cluster, node, group_name)},
            "annotations": own.get("annotations", {}),
            "ownerReferences": [refer(cluster)],
        },
        "spec": template["spec"],
    }
    _add_shared_memory(pod["spec"])
    return pod


def _label(cluster: Json, node: str, group: str) -> dict[str, str]:
    name = get_name(cluster)
    return {
        **MADE_BY,
        "app.kubernetes.io/name": "kuberay",
        CLUSTER_LABEL: name,
        GROUP_LABEL: group,
        "ray.io/identifier": f"{name}-{node}",
        "ray.io/is-ray-node": "yes",
        NODE_LABEL: node,
    }


def _list_params(group: Json, container: Json) -> dict[str, str]:
    """Return Ray's start parameters, derived from the container's resources.

    Parameters of the group take precedence.
    """
    resources = container.get("resources", {})
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    params = {
        "block": "true",
        "dashboard-agent-listen-port": str(AGENT_PORT),
        "metrics-export-port": str(METRICS_PORT),
    }
    cpu = limits.get("cpu", requests.get("cpu"))
    if cpu is not None:
        params["num-cpus"] = str(math.ceil(read_quantity(cpu)))
    if "memory" in limits:
        params["memory"] = str(math.ceil(read_quantity(limits["memory"])))
    devices = [amount for name, amount in limits.items() if name.endswith("gpu")]
    if devices:
        params["num-gpus"] = str(math.ceil(read_quantity(devices[0])))
    return {**params, **(group.get("rayStartParams") or {})}


def _add_ray(container: Json, start: str, params: Mapping[str, str], address: str) -> None:
    rendered = [
        f" --{name} " if value == "true" else f" --{name}={value} "
        for name, value in sorted(params.items())
    ]
    command = start + "".join(rendered)
    container["command"] = SHELL
    container["args"] = [ULIMIT + command]
    known = {variable["name"] for variable in container.get("env", ())}
    container["env"] = [
        *container.get("env", ()),
        *(
            variable
            for variable in _list_variables(command, address)
            if variable["name"] not in known
        ),
    ]


def _list_variables(command: str, address: str) -> list[Json]:
    fields = {
        "RAY_CLUSTER_NAME": f"metadata.labels['{CLUSTER_LABEL}']",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": f"metadata.labels['{GROUP_LABEL}']",
    }
    texts = {
        "KUBERAY_GEN_RAY_START_CMD": command,
        "RAY_ADDRESS": address,
        "RAY_IP": address.rpartition(":")[0],
        "RAY_PORT": str(GCS_PORT),
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    }
    return [
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
        *({"name": name, "value": text} for name, text in texts.items()),
    ]


def _add_probes(container: Json, cluster: Json, group: Json, *, is_head: bool) -> None:
    """Add health probes, unless the template has its own.

    The probes use HTTP if the RayCluster's Ray version has a single health endpoint; otherwise they
    run `wget` inside the container, which must have that program.
    """
    params = group.get("rayStartParams") or {}
    agent = _read_port(params, "dashboard-agent-listen-port", AGENT_PORT)
    if has_one_answer(cluster["spec"].get("rayVersion", "")):
        look: Json = {"httpGet": {"path": "/api/healthz", "port": agent}}
    else:
        paths = [(agent, "api/local_raylet_healthz")]
        if is_head:
            board = _read_port(params, "dashboard-port", DASHBOARD_PORT)
            paths.append((board, "api/gcs_healthz"))
        probes = [f"wget -q -T 2 -O- http://localhost:{port}/{path}" for port, path in paths]
        script = " && ".join(f"{check} | grep success" for check in probes)
        look = {"exec": {"command": ["bash", "-c", script]}}
    often = {"periodSeconds": 5, "timeoutSeconds": 5 if is_head else 2}
    alive = {"initialDelaySeconds": 30, "failureThreshold": 120, **often}
    ready = {"initialDelaySeconds": 10, "failureThreshold": 10, **often}
    container.setdefault("livenessProbe", {**copy.deepcopy(look), **alive})
    container.setdefault("readinessProbe", {**copy.deepcopy(look), **ready})


def has_one_answer(version: str) -> bool:
    """Return whether a Ray version reports a node's health at a single endpoint.

    Return False if the version is unknown.
    """
    found = VERSION.match(version)
    return found is not None and tuple(map(int, found.groups())) >= FIRST_WITH_ONE_ANSWER


def _read_port(params: Mapping[str, str], name: str, usual: int) -> int:
    given = str(params.get(name, ""))
    return int(given) if given.isdecimal() else usual


def _add_wait(pod: Json, address: str) -> None:
    ray = pod["spec"]["containers"][0]
    kept = ("image", "imagePullPolicy", "securityContext", "env", "envFrom", "volumeMounts")
    look = f"until ray health-check --address {address} > /dev/null 2>&1; do"
    wait: Json = {
        "name": "wait-gcs-ready",
        "command": SHELL,
        "args": [f"{look} echo 'The head is not ready.'; sleep 5; done"],
        "resources": {"requests": dict(SMALL), "limits": dict(SMALL)},
        **{name: copy.deepcopy(ray[name]) for name in kept if name in ray},
    }
    pod["spec"].setdefault("initContainers", []).append(wait)


def _add_shared_memory(spec: Json) -> None:
    container = spec["containers"][0]
    mounts = container.setdefault("volumeMounts", [])
    if any(mount["mountPath"] == SHARED_MEMORY for mount in mounts):
        return
    mounts.append({"name": "shared-mem", "mountPath": SHARED_MEMORY})
    volume: Json = {"medium": "Memory"}
    resources = container.get("resources", {})
    size = resources.get("limits", resources.get("requests", {})).get("memory")
    if size is not None:
        volume["sizeLimit"] = size
    spec.setdefault("volumes", []).append({"name": "shared-mem", "emptyDir": volume})
