"""Renders the Job that checks stages and parameters before a cluster is created.

The Job runs in the run's image. Its pod matches the head in everything that affects imports: image,
code, variables, users, nodes, and the user's mounts. It does not mount the operator's claims:
binding a volume for the check would determine the run's node, and a mounted volume would delay the
run. The pod lacks the labels that identify an attempt's pods. If egress is restricted, the pod has
the label by which a NetworkPolicy selects it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from strandline_api.documents.stored import render_document
from strandline_api.names import (
    PREFLIGHT_LABEL,
    name_preflight,
)
from strandline_api.outcome.reader_token import DRIVERS_OWN
from strandline_api.spec.pod_paths import CODE_FILES_VOLUME, INPUT_VOLUME_PREFIX
from strandline_operator.model.plan import Manifest
from strandline_operator.model.view import PipelineView
from strandline_operator.render.attempt import render_owner
from strandline_operator.render.network import render_metadata_beside, render_network_beside
from strandline_operator.render.order import Order, label_pipeline
from strandline_operator.render.pods.overlay import lay_over
from strandline_operator.render.pods.templates import render_head
from strandline_operator.render.rayjob import localise

CONTAINER = "strandline-preflight"
# Maximum characters of the pipeline in an argument. An argument may have 128 KiB, and escaping
# doubles some characters.
MOST_DOCUMENT = 60_000
KEEP_SECONDS = 300
_OURS = frozenset({"ledger", "pipeline", "output", "memory"})
_KEPT = ("image", "imagePullPolicy", "env", "envFrom", "securityContext")
_RESOURCES = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}

Part = dict[str, Any]


class PreflightOrder(NamedTuple):
    """A preflight check to be created.

    Attributes:
        pod: spec of the pod.
        key: digest of the checked contents.
        is_short: whether the pipeline fits into an argument.
        metadata: labels and annotations of the pod.
        network: the policy that selects the pod, or None if there is no policy.
    """

    pod: Part
    key: str
    is_short: bool
    metadata: Part
    network: Manifest | None


def order_preflight(order: Order) -> PreflightOrder:
    """Return the check for a planned attempt. It does not depend on the attempt's number or run."""
    document = localise(order)
    document["spec"].pop("runId", None)
    text = render_document(document)
    template = render_head(order)
    head = template["spec"]
    ray, *_ = head["containers"]
    checking = {
        "name": CONTAINER,
        **{name: value for name, value in _strip(ray).items() if name in _KEPT},
        # Escape `$(`, because Kubernetes would replace `$(…)` with the value of a variable.
        "command": ["strandline", "preflight", text.replace("$(", "$$(")],
        "resources": order.cpu_rules.fit(_RESOURCES),
        "volumeMounts": _strip(ray)["volumeMounts"],
    }
    pod = {
        **{name: value for name, value in head.items() if name != "terminationGracePeriodSeconds"},
        "initContainers": [_strip(each) for each in head.get("initContainers") or ()],
        "containers": [checking],
        "volumes": [
            _mount_code(order, each) for each in head["volumes"] if not _is_ours(each["name"])
        ],
    }
    pod = {name: value for name, value in pod.items() if value != []}
    return PreflightOrder(
        pod,
        _digest(order, pod),
        len(text.encode()) <= MOST_DOCUMENT,
        render_metadata_beside(order, template["metadata"]),
        render_network_beside(order),
    )


def render_preflight(
    pipeline: PipelineView, check: PreflightOrder, token: str, longest: float
) -> Manifest:
    """Render the Job.

    Args:
        pipeline: owner of the Job.
        check: contents of the check.
        token: value that distinguishes the Job from an earlier Job of the same name.
        longest: seconds after which attempts no longer wait for the check.
    """
    meta, labels = pipeline.meta, {PREFLIGHT_LABEL: token}
    template = {"metadata": lay_over(check.metadata, {"labels": labels}), "spec": check.pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_preflight(meta.name),
            "namespace": meta.namespace,
            "labels": label_pipeline(meta.name, meta.uid) | labels,
            "ownerReferences": [render_owner(pipeline)],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(longest) + 1,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": template,
        },
    }


def _strip(container: Mapping[str, Any]) -> Part:
    """Return a container without the variables and mounts that the check does not have."""
    env = [each for each in container.get("env") or () if each["name"] not in DRIVERS_OWN]
    mounts = container.get("volumeMounts") or ()
    remaining = [mount for mount in mounts if not _is_ours(mount["name"])]
    return {**container, "env": env, "volumeMounts": remaining}


def _is_ours(volume: str) -> bool:
    return volume in _OURS or volume.startswith(INPUT_VOLUME_PREFIX)


def _mount_code(order: Order, volume: Mapping[str, Any]) -> Part:
    """Return a volume. For code, use the user's ConfigMap, because no attempt has a copy yet."""
    if volume["name"] != CODE_FILES_VOLUME:
        return dict(volume)
    return {**volume, "configMap": {"name": order.spec.code.config_map}}


def _digest(order: Order, pod: Part) -> str:
    code = None if order.code is None else [dict(order.code.texts), dict(order.code.binaries)]
    text = json.dumps([pod, code], sort_keys=True)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
