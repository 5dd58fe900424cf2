"""Renders an attempt's RayJob and the objects that are created before it.

The manifests disable KubeRay's retries and restarts of the head, and limit the startup time. With
these settings, every recorded session of a real KubeRay controller ran a driver exactly once,
regardless of failures. The pipeline sets the maximum duration of a driver; by default, there is no
limit.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

from strandline_api.documents.stored import forward_document, render_document
from strandline_api.names import API_VERSION, ATTEMPT, name_code
from strandline_api.spec.pod_paths import (
    COMMAND_METADATA,
    CONFIG,
    HEAD_TEMPLATE,
    MANIFEST,
    OUTPUT,
    VOLUME,
)
from strandline_api.spec.predecessors import Reference, join_location, replace_references
from strandline_api.spec.ray_cluster import RayCluster, RayNode, WorkerGroup
from strandline_operator.integrations.schedulers import (
    annotate_rayjob,
    label_rayjob,
    names_queue,
)
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Manifest
from strandline_operator.render.code import render_code
from strandline_operator.render.disruptions import render_budget
from strandline_operator.render.network import render_metadata_beside, render_network
from strandline_operator.render.order import Order
from strandline_operator.render.pods.elastic import is_elastic, make_elastic, render_autoscaler
from strandline_operator.render.pods.templates import (
    EXTRA_GRACE_SECONDS,
    confine,
    render_head,
    render_submitter,
    render_worker,
)
from strandline_operator.render.pods.token_secret import render_secret

KEEP_SECONDS = 60
# Maximum characters, most of which take one byte. The API server rejects a ConfigMap over 1 MiB.
MOST_CONFIG = 500_000
# Seconds by which KubeRay's deadlines are later than the operator's, because they are only a
# fallback.
SLACK_SECONDS = 120
# Seconds until KubeRay ends a RayJob that has not started. Very long on purpose: KubeRay can't
# distinguish a wait for capacity, which is unlimited by default, from a start that hangs.
LONGEST_DROUGHT_SECONDS = 30 * 86_400
NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
# KubeRay's own options, which some KubeRay versions do not support.
OPTIONS = ("authOptions", "tlsOptions", "gcsFaultToleranceOptions")
# First Ray version in which clusters require tokens by default, according to the release notes.
WANTS_TOKEN = (2, 61)
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def render_config(order: Order) -> Manifest:
    """Render the ConfigMap with the pipeline for the driver, and with the head's pod.

    Commands that need the volumes after the head was deleted use the pod; see docs/kubectl.md.
    """
    template = render_head(order)
    data = {
        MANIFEST: render_document(localise(order)),
        COMMAND_METADATA: json.dumps(render_metadata_beside(order, template["metadata"])),
    }
    head = json.dumps(template["spec"])
    # Omit the pod if space is short, because the pipeline is more important than later commands.
    if sum(map(len, (*data.values(), head))) <= MOST_CONFIG:
        data[HEAD_TEMPLATE] = head
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(order, order.config_name),
        "data": data,
        "immutable": True,
    }


def render_code_map(order: Order) -> Manifest | None:
    """Render the ConfigMap with the attempt's copy of the code.

    Return None if the code comes from elsewhere.
    """
    return render_code(order, _metadata(order, name_code(order.pipeline, order.number)))


def render_token_secret(order: Order) -> Manifest | None:
    """Render the Secret with the workers' token, or return None if there is no token."""
    return render_secret(order, _metadata(order, order.name))


def render_network_policy(order: Order) -> Manifest | None:
    """Render the network policy for the attempt's pods, or return None if none is configured."""
    return render_network(order, _metadata(order, order.name))


def render_disruption_budget(order: Order) -> Manifest | None:
    """Render the budget that blocks evictions of the attempt's pods, or None if not requested."""
    return render_budget(order, _metadata(order, order.name))


def render_rayjob(order: Order) -> Manifest:
    """Render the RayJob."""
    metadata = _metadata(order, order.rayjob)
    own = Meta.read(order.manifest)
    labels = label_rayjob(order.rayjob, order.spec.ray, own.labels)
    annotations = annotate_rayjob(own.annotations)
    metadata["labels"] = metadata["labels"] | labels
    metadata["annotations"] = {NO_HEAD_RESTART: "true", **annotations}
    pre_running = order.spec.deadlines.pre_running_seconds or LONGEST_DROUGHT_SECONDS
    spec: dict[str, Any] = {
        "entrypoint": _render_entrypoint(order),
        "submissionMode": order.spec.ray.submission_mode,
        "backoffLimit": 0,
        "shutdownAfterJobFinishes": True,
        # Add the hold, because KubeRay would otherwise delete held pods before their inspection.
        "ttlSecondsAfterFinished": int(order.spec.hold_on_failure_seconds or 0) + KEEP_SECONDS,
        "preRunningDeadlineSeconds": int(pre_running) + SLACK_SECONDS,
        **_bound_activity(order, pre_running),
        "rayClusterSpec": _render_cluster(
            order, has_one_size=names_queue(labels) and not annotations
        ),
    }
    if order.spec.ray.submission_mode == "K8sJobMode":
        # A driver must run exactly once, so KubeRay must not retry a failed submitter.
        spec["submitterConfig"] = {"backoffLimit": 0}
        spec["submitterPodTemplate"] = render_submitter(order)
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}


def _metadata(order: Order, name: str) -> dict[str, Any]:
    owner = {
        "apiVersion": API_VERSION,
        "kind": ATTEMPT.name,
        "name": order.name,
        "uid": order.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": order.namespace,
        "labels": order.labels,
        "ownerReferences": [owner],
    }


def _render_entrypoint(order: Order) -> str:
    words = [
        "strandline run",
        f"{CONFIG}/{MANIFEST}",
        f"--volume {VOLUME}",
        "--address auto",
        "--no-supervise",
        f"--serve {order.limits.driver_port}",
    ]
    if order.repairs:
        words.append("--missing")
    if order.after:
        words.append(f"--after {order.after}")
    return " ".join(words)


def _bound_activity(order: Order, pre_running: float) -> dict[str, int]:
    """Return KubeRay's deadline for the RayJob, which includes the time before the driver runs.

    Without a deadline, the field is omitted, so KubeRay applies no limit.
    """
    longest = order.spec.deadlines.attempt_seconds
    if longest is None:
        return {}
    grace = order.spec.checkpoint.grace_period_seconds
    seconds = int(pre_running + longest + grace) + EXTRA_GRACE_SECONDS + SLACK_SECONDS
    return {"activeDeadlineSeconds": seconds}


def _render_cluster(order: Order, *, has_one_size: bool) -> dict[str, Any]:
    ray = order.spec.ray
    head, growth = render_head(order), {}
    if is_elastic(order, has_one_size=has_one_size):
        head, growth = make_elastic(order, head), render_autoscaler(order, confine())
    # Only the user knows the Ray version in a custom image, so leave an unset version unset.
    version = ray.version or ("" if ray.image else order.limits.ray_version)
    cluster: dict[str, Any] = {
        **growth,
        **_ask_for_token(version, head),
        **_list_options(ray),
        "headGroupSpec": {
            "rayStartParams": {"dashboard-host": order.limits.dashboard_host}
            | _start_params(ray.head),
            "template": head,
        },
        "workerGroupSpecs": [_render_group(order, group) for group in ray.worker_groups],
    }
    return {"rayVersion": version, **cluster} if version else cluster


def _ask_for_token(version: str, head: dict[str, Any]) -> dict[str, Any]:
    """Return the option with which KubeRay provides a token, if this Ray version requires one.

    Return an empty result if the pipeline's own variables configure authentication.
    """
    match = _VERSION.match(version)
    wants = match is not None and tuple(map(int, match.groups())) >= WANTS_TOKEN
    variables = head["spec"]["containers"][0].get("env") or ()
    is_settled = any(variable["name"].startswith("RAY_AUTH_") for variable in variables)
    return {"authOptions": {"mode": "token"}} if wants and not is_settled else {}


def _list_options(ray: RayCluster) -> dict[str, Any]:
    """Return the KubeRay options that the spec sets."""
    facts = (ray.auth_options, ray.tls_options, ray.gcs_fault_tolerance_options)
    return {name: option for name, option in zip(OPTIONS, facts, strict=True) if option}


def has_options(rayjob: Manifest) -> bool:
    """Return True if a RayJob has a field that some KubeRay versions lack."""
    return any(name in rayjob["spec"]["rayClusterSpec"] for name in OPTIONS)


def _render_group(order: Order, group: WorkerGroup) -> dict[str, Any]:
    most = group.min_replicas if group.max_replicas is None else group.max_replicas
    return {
        "groupName": group.name,
        "replicas": group.min_replicas,
        "minReplicas": group.min_replicas,
        "maxReplicas": most,
        "rayStartParams": _start_params(group),
        "template": render_worker(order, group),
    }


def _start_params(node: RayNode) -> dict[str, str]:
    return dict(node.ray_start_params)


def _locate(order: Order, reference: Reference) -> str:
    return join_location(order.inputs[reference].root, reference)


def localise(order: Order) -> dict[str, Any]:
    """Return the pipeline for its driver, with the paths at which its pods mount claims.

    References to other pipelines become plain folders and URLs, which drivers of all versions
    support.
    """
    document = forward_document(order.manifest, order.spec)
    spec = document["spec"]
    # Insert the name of a scheduled run, which is not in the spec.
    if order.run not in {"", order.spec.run_id}:
        spec["runId"] = order.run
    for item in (spec["source"], *spec.get("stages", ()), spec["sink"]):
        if "with" in item:
            item["with"] = replace_references(item["with"], partial(_locate, order))
    output = order.spec.storage.output
    path = output.url
    if output.claim_name is not None:
        path = f"{OUTPUT}/{order.namespace}/{order.pipeline}"
    if path is not None:
        spec.setdefault("storage", {})["output"] = {"url": path}
    return document
