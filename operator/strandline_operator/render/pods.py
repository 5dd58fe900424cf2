"""Pod templates of an attempt's Ray cluster, and of the pod that submits its driver.

What the user wrote is laid over what is generated here, but for the labels by which the operator
finds its pods again, and for what keeps a pod from coming back on its own.
"""

from __future__ import annotations

from typing import Any

from strandline_api.spec_cluster import RayNode, WorkerGroup
from strandline_operator.render.order import Order, Role
from strandline_operator.render.overlay import lay_over

VOLUME = "/var/lib/strandline"
OUTPUT = "/var/lib/strandline-output"
CONFIG = "/etc/strandline"
MANIFEST = "pipeline.yaml"
# The head outlives its driver by so much that KubeRay, which looks every 3 s, sees how it ended.
LINGER_SECONDS = 8
EXTRA_GRACE_SECONDS = 15
# Ray kills a job's driver so long after it has asked it to stop: more than a drain's last steps.
STOP_WAIT_SECONDS = 8
USER = 1000
# KubeRay names these of itself only where the head names no port at all.
RAY_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}

Template = dict[str, Any]


def render_head(order: Order) -> Template:
    """The head pod: it holds the ledger and runs the driver."""
    node = order.spec.ray.head
    container = _container("ray-head", order, node, Role.HEAD)
    ports = RAY_PORTS | {"strandline": order.limits.driver_port}
    container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
    drain = f"strandline drain {CONFIG}/{MANIFEST} --volume {VOLUME} --wait"
    stop = ["/bin/sh", "-c", f"{drain}; sleep {LINGER_SECONDS}"]
    container["lifecycle"] = {"preStop": {"exec": {"command": stop}}}
    container["volumeMounts"] += [
        {"name": "ledger", "mountPath": VOLUME},
        {"name": "pipeline", "mountPath": CONFIG, "readOnly": True},
    ]
    volumes = [
        *_scratch(container),
        *_output_volume(order),
        {"name": "ledger", "persistentVolumeClaim": {"claimName": order.claim}},
        {"name": "pipeline", "configMap": {"name": order.name}},
    ]
    grace = order.spec.checkpoint.grace_period_seconds
    extra = {"terminationGracePeriodSeconds": int(grace) + EXTRA_GRACE_SECONDS}
    return _finish(order, node, container, volumes, order.label_pod(Role.HEAD), extra)


def render_worker(order: Order, group: WorkerGroup) -> Template:
    """A worker pod of a group."""
    container = _container("ray-worker", order, group, group.name)
    volumes = [*_scratch(container), *_output_volume(order)]
    return _finish(order, group, container, volumes, order.label_pod(Role.WORKER, group.name), {})


def render_submitter(order: Order) -> Template:
    """The pod that hands the driver to Ray and follows its log."""
    container = {
        "name": "ray-job-submitter",
        "image": _image(order),
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": _confine(),
        "volumeMounts": [{"name": "temporary", "mountPath": "/tmp"}],  # noqa: S108 - its own
    }
    node = RayNode()
    volumes = [{"name": "temporary", "emptyDir": {}}]
    return _finish(order, node, container, volumes, order.label_pod(Role.SUBMITTER), {})


def _container(name: str, order: Order, node: RayNode, group: str) -> dict[str, Any]:
    memory = str(order.find_memory(group, node.resources.memory_bytes))
    resources: dict[str, Any] = {"cpu": f"{node.resources.cpu:g}", "memory": memory}
    if node.resources.gpu:
        resources["nvidia.com/gpu"] = str(node.resources.gpu)
    return {
        "name": name,
        "image": _image(order),
        "env": [
            # A task that runs out of memory must fail, or Ray tries it again without end.
            {"name": "RAY_task_oom_retries", "value": "0"},
            {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": str(STOP_WAIT_SECONDS)},
            {"name": "STRANDLINE_ATTEMPT", "value": str(order.number)},
        ],
        "resources": {"requests": resources, "limits": dict(resources)},
        "securityContext": _confine(),
        "volumeMounts": [
            {"name": "temporary", "mountPath": "/tmp"},  # noqa: S108 - Ray's own place
            {"name": "memory", "mountPath": "/dev/shm"},  # noqa: S108 - Ray's object store
            *_mount_output(order),
        ],
    }


def _mount_output(order: Order) -> list[dict[str, Any]]:
    claim = order.spec.storage.output.claim_name
    return [] if claim is None else [{"name": "output", "mountPath": OUTPUT}]


def _finish(
    order: Order,
    node: RayNode,
    container: dict[str, Any],
    volumes: list[dict[str, Any]],
    labels: dict[str, str],
    extra: dict[str, Any],
) -> Template:
    ray = order.spec.ray
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        **extra,
    }
    spec["volumes"] = volumes
    if ray.priority_class_name:
        spec["priorityClassName"] = ray.priority_class_name
    if ray.service_account_name:
        spec["serviceAccountName"] = ray.service_account_name
    if ray.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in ray.image_pull_secrets]
    template: Template = {"metadata": {"labels": {}}, "spec": spec}
    for given in (ray.pod_template, node.pod_template):
        template = lay_over(template, given)
    fixed = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never"},
    }
    return dict(lay_over(template, fixed))


def _scratch(container: dict[str, Any]) -> list[dict[str, Any]]:
    limit = container["resources"]["limits"]["memory"]
    return [
        {"name": "temporary", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": limit}},
    ]


def _output_volume(order: Order) -> list[dict[str, Any]]:
    claim = order.spec.storage.output.claim_name
    if claim is None:
        return []
    return [{"name": "output", "persistentVolumeClaim": {"claimName": claim}}]


def _image(order: Order) -> str:
    return order.spec.ray.image or order.limits.runtime_image


def _confine() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
