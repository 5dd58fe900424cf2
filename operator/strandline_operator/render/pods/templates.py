"""Renders pod templates of an attempt's Ray cluster, and of the pod that submits its driver.

The user's settings override the generated settings, except for the labels by which the operator
finds its pods, and the settings that prevent restarts of pods.
"""

from __future__ import annotations

from typing import Any

from strandline_api.names import ATTEMPT_VARIABLE, GROUP_LABEL, LINEAGE_VARIABLE, ROLE_LABEL
from strandline_api.outcome.reader_token import (
    NOTICE_TOKEN_VARIABLE,
    NOTICE_VARIABLE,
    READER_VARIABLE,
    VARIABLE,
    derive_notice_token,
    derive_release_token,
    derive_token,
    digest_token,
)
from strandline_api.spec.pod_paths import (
    CONFIG,
    HEAD_CONTAINER,
    MANIFEST,
    SUBMITTER_CONTAINER,
    VOLUME,
    WORKER_CONTAINER,
)
from strandline_api.spec.ray_cluster import RayNode, WorkerGroup
from strandline_operator.model.objects import DRIVER_PORT
from strandline_operator.render.code import bring_code
from strandline_operator.render.disruptions import annotate
from strandline_operator.render.network import RAY_PORTS, keep_out_of_meshes
from strandline_operator.render.order import Order, Role
from strandline_operator.render.pods.claims import (
    join_claims,
    mount_inputs,
    mount_output,
    render_input_volumes,
    render_output_volume,
)
from strandline_operator.render.pods.overlay import (
    add_to_container,
    fit_template,
    lay_over,
    render_volumes,
)
from strandline_operator.render.pods.spot import apply_choice, choose_nodes
from strandline_operator.render.pods.token_secret import NOTICE_KEY

# Seconds for which the head outlives its driver, so that KubeRay, which polls every 3 s, sees the
# end.
LINGER_SECONDS = 8
EXTRA_GRACE_SECONDS = 15
POD_GRACE_SECONDS = 30  # grace period of pods without a setting
# Seconds that Ray waits after a job's grace period before it uses force and records the end.
EXTRA_STOP_SECONDS = 8
# Set a user name: if the cluster chooses the user ID, the image has no entry for it, but libraries
# look up the name.
USER_NAME = "strandline"
RAY_CONTAINERS = (HEAD_CONTAINER, WORKER_CONTAINER)
# Default health port of a Ray node's agent. A parameter of `ray start` may change the port.
AGENT_PORT = 52365
AGENT_PORT_PARAM = "dashboard-agent-listen-port"

_SUBMITTERS_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}

Template = dict[str, Any]


def render_head(order: Order) -> Template:
    """Render the head pod, which mounts the ledger and runs the driver."""
    node = order.spec.ray.head
    container = _container(HEAD_CONTAINER, order, node, Role.HEAD)
    # The variables contain only digests of the tokens, because every account that may read pods can
    # see them.
    container["env"] += [
        {"name": name, "value": digest_token(token)} for name, token in _list_tokens(order)
    ]
    if order.limits.reports_lineage:
        container["env"].append({"name": LINEAGE_VARIABLE, "value": order.pipeline_uid})
    ports = RAY_PORTS | {DRIVER_PORT: order.limits.driver_port}
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
        *render_output_volume(order),
        *render_input_volumes(order),
        {"name": "ledger", "persistentVolumeClaim": {"claimName": order.claim}},
        {"name": "pipeline", "configMap": {"name": order.config_name}},
        *render_volumes(order.spec.ray),
    ]
    container = add_to_container(container, order.spec.ray)
    grace = order.spec.checkpoint.grace_period_seconds
    extra = {"terminationGracePeriodSeconds": int(grace) + EXTRA_GRACE_SECONDS}
    head = _finish(order, node, container, volumes, order.label_pod(Role.HEAD), extra)
    return bring_code(order, head)


def _list_tokens(order: Order) -> list[tuple[str, str]]:
    """Return the tokens of an attempt, by the variable that contains the token's digest."""
    found, key = [(READER_VARIABLE, derive_token(order.uid))], order.limits.token_key
    if key:  # without a key, any user could derive these tokens
        found.append((VARIABLE, derive_release_token(key, order.uid)))
        found.append((NOTICE_VARIABLE, derive_notice_token(key, order.uid)))
    return found


def render_worker(order: Order, group: WorkerGroup) -> Template:
    """Render a worker pod of a group."""
    container = _container(WORKER_CONTAINER, order, group, group.name)
    # The Secret is optional. Without it, a terminating worker can't notify the driver, and the data
    # on its node is lost.
    secret = {"name": order.name, "key": NOTICE_KEY, "optional": True}
    value = {"valueFrom": {"secretKeyRef": secret}}
    container["env"].append({"name": NOTICE_TOKEN_VARIABLE, **value})
    volumes = [
        *_scratch(container),
        *render_output_volume(order),
        *render_input_volumes(order),
        *render_volumes(order.spec.ray),
    ]
    container = add_to_container(container, order.spec.ray)
    labels = order.label_pod(Role.WORKER, group.name)
    worker = _finish(order, group, container, volumes, labels, {})
    _leave_in_time(worker, order.limits.driver_port)
    return bring_code(order, worker)


def _leave_in_time(template: Template, port: int) -> None:
    """Add a hook in which a terminating worker notifies the driver and waits for data to move.

    The wait ends with the worker's grace period. A hook set by the user is not replaced.
    """
    grace = template["spec"].get("terminationGracePeriodSeconds")
    seconds = grace if isinstance(grace, int) else POD_GRACE_SECONDS
    # Ignore failures: an older image lacks the command, and a failing hook would cause an event.
    leave = f"strandline leave --wait --port {port} --seconds {seconds} || true"
    for container in template["spec"]["containers"]:
        if container["name"] == WORKER_CONTAINER:
            hooks = dict(container.get("lifecycle") or {})
            hooks.setdefault("preStop", {"exec": {"command": ["/bin/sh", "-c", leave]}})
            container["lifecycle"] = hooks


def render_submitter(order: Order) -> Template:
    """Render the pod that submits the driver to Ray and follows its log."""
    container = {
        "name": SUBMITTER_CONTAINER,
        "image": _image(order),
        **({"env": variables} if (variables := _free_of_tokens(order)) else {}),
        "resources": order.cpu_rules.fit(_SUBMITTERS_RESOURCES),
        "securityContext": confine(),
        "volumeMounts": [{"name": "temporary", "mountPath": "/tmp"}],  # noqa: S108 - the container's own volume
    }
    node = RayNode()
    volumes = [{"name": "temporary", "emptyDir": {}}]
    return _finish(order, node, container, volumes, order.label_pod(Role.SUBMITTER), {})


def _container(name: str, order: Order, node: RayNode, group: str) -> dict[str, Any]:
    memory = str(order.find_memory(group, node.resources.memory_bytes))
    resources: dict[str, Any] = {"cpu": f"{node.resources.cpu:g}", "memory": memory}
    if node.resources.gpu:
        resources["nvidia.com/gpu"] = str(node.resources.gpu)
    stop_wait = int(order.spec.checkpoint.grace_period_seconds) + EXTRA_STOP_SECONDS
    return {
        "name": name,
        "image": _image(order),
        "env": [
            # A task that runs out of memory must fail. By default, Ray would retry the task
            # forever.
            {"name": "RAY_task_oom_retries", "value": "0"},
            {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": str(stop_wait)},
            {"name": ATTEMPT_VARIABLE, "value": str(order.number)},
            {"name": "USER", "value": USER_NAME},
            {"name": "LOGNAME", "value": USER_NAME},
            *_free_of_tokens(order),
        ],
        "resources": {"requests": resources, "limits": dict(resources)},
        "securityContext": confine(),
        # Ray writes the reason of a failed start only to its log, which is deleted with the pod.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "temporary", "mountPath": "/tmp"},  # noqa: S108 - Ray's default folder
            {"name": "memory", "mountPath": "/dev/shm"},  # noqa: S108 - Ray's object store
            *mount_output(order),
            *mount_inputs(order),
        ],
    }


def _free_of_tokens(order: Order) -> list[dict[str, str]]:
    """Return a variable that disables Ray's token, if the pipeline does. KubeRay sets none."""
    is_disabled = order.spec.ray.auth_options.get("mode") == "disabled"
    return [{"name": "RAY_AUTH_MODE", "value": "disabled"}] if is_disabled else []


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
        "securityContext": _choose_ids(order),
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
    metadata: dict[str, Any] = {"labels": {}}
    if waits := annotate(ray, labels[ROLE_LABEL]):
        metadata["annotations"] = waits
    template: Template = {"metadata": metadata, "spec": spec}
    for facts in (ray.pod_template, node.pod_template):
        template = lay_over(template, fit_template(facts, container["name"]))
    apply_choice(template["spec"], choose_nodes(ray, order.on_demand, labels.get(GROUP_LABEL)))
    # Call this after merging the templates, because a user's template may mount the same claim.
    join_claims(template["spec"])
    _probe(template, node)
    fixed = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never"},
    }
    laid = dict(lay_over(template, fixed))
    return {**laid, "metadata": keep_out_of_meshes(laid["metadata"])}


def _probe(template: Template, node: RayNode) -> None:
    """Set the health probes of Ray's container, unless the user has set them.

    If KubeRay can't parse Ray's version, its own probes need `wget` in the image.
    """
    facts = node.ray_start_params.get(AGENT_PORT_PARAM, "")
    port = int(facts) if facts.isdecimal() else AGENT_PORT
    # Only this path exists in all supported versions of Ray.
    probe = {"path": "/api/local_raylet_healthz", "port": port}
    often = {"timeoutSeconds": 5, "periodSeconds": 5}
    for container in template["spec"]["containers"]:
        if container["name"] in RAY_CONTAINERS:
            ready = {"initialDelaySeconds": 5, "failureThreshold": 10}
            # A node that is slow for minutes is still alive. After ten minutes, it counts as lost.
            alive = {"initialDelaySeconds": 30, "failureThreshold": 120}
            for name, bounds in {"readinessProbe": ready, "livenessProbe": alive}.items():
                container.setdefault(name, {"httpGet": dict(probe)} | often | bounds)


def _choose_ids(order: Order) -> dict[str, Any]:
    own = order.spec.ray.security_context
    ids = order.limits.pod_security if own is None else own
    return {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **ids.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _scratch(container: dict[str, Any]) -> list[dict[str, Any]]:
    limit = container["resources"]["limits"]["memory"]
    return [
        {"name": "temporary", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": limit}},
    ]


def _image(order: Order) -> str:
    return order.spec.ray.image or order.limits.runtime_image


def confine() -> dict[str, Any]:
    """Return the security context that restricts all containers of an attempt."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
