"""Restricts network access to pods: an attempt's NetworkPolicy, and settings to avoid meshes.

Ray runs arbitrary code on request, so a peer with access to Ray's ports or dashboard gains all
permissions of the attempt. If egress is restricted, a second policy covers preflight and command
pods, which also run a pipeline's code. See docs/design/attempts.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from strandline_api.names import (
    ATTEMPT_LABEL,
    NETWORK_LABEL,
    PIPELINE_UID_LABEL,
    ROLE_LABEL,
    name_network,
)
from strandline_api.spec.pod_paths import (
    ISTIO_KEYS,
    LINKERD_KEYS,
    MESH_KEYS,
    OUT_OF_ISTIO,
    OUT_OF_LINKERD,
)
from strandline_operator.model.network import AttemptNetwork, Peer, Rule
from strandline_operator.model.plan import Manifest
from strandline_operator.render.attempt import render_pipeline_owner
from strandline_operator.render.order import Order, Role, label_pipeline

# Ports that KubeRay adds by default, but only if the head declares no ports.
RAY_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
_MESHES = ((ISTIO_KEYS, OUT_OF_ISTIO), (LINKERD_KEYS, OUT_OF_LINKERD))
_LAST_PORT = 65535
_LONGEST_CHOICE = 63  # maximum characters of a label value; an annotation may be longer


def render_network(order: Order, metadata: dict[str, Any]) -> Manifest | None:
    """Render the policy for all pods of an attempt, or None if no policy is configured.

    All other traffic is denied, except probes from the node, which no policy blocks.
    """
    network = order.limits.attempt_network
    if network is None:
        return None
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": _label_own(order)},
        "policyTypes": ["Ingress"],
        "ingress": _render_ingress(order, network),
    }
    if network.egress is not None:
        spec["policyTypes"] = ["Ingress", "Egress"]
        own = {"to": [{"podSelector": {"matchLabels": _label_own(order)}}]}
        spec["egress"] = [own, *network.dns, *network.egress]
    return _render(metadata, spec)


def render_network_beside(order: Order) -> Manifest | None:
    """Render the policy for a pipeline's preflight and command pods, or None if egress is open.

    The policy belongs to the pipeline, because commands also run after all attempts are deleted. If
    several policies select a pod, their rules add up, and the operator may not change existing
    policies. Therefore, a policy with other rules has another name, and selects pods by another
    label value.
    """
    labels, network = label_beside(order), order.limits.attempt_network
    if not labels or network is None:
        return None
    metadata = {
        "name": name_network(order.pipeline, labels[NETWORK_LABEL]),
        "namespace": order.namespace,
        "labels": label_pipeline(order.pipeline, order.pipeline_uid),
        "ownerReferences": [render_pipeline_owner(order.pipeline, order.pipeline_uid)],
    }
    spec = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [*network.dns, *(network.egress or ())],
    }
    return _render(metadata, spec)


def render_metadata_beside(order: Order, head: Mapping[str, Any]) -> dict[str, Any]:
    """Render labels and annotations of preflight and command pods.

    Args:
        order: the attempt to which the pods belong.
        head: metadata of the attempt's head pod, whose mesh settings are copied.
    """
    metadata: dict[str, Any] = {"labels": label_beside(order), "annotations": {}}
    for part, values in metadata.items():
        for key, value in _read_map(head, part).items():
            # Skip a value that is too long for a label, because it would make the whole Job
            # invalid.
            if key in MESH_KEYS and len(str(value)) <= _LONGEST_CHOICE:
                values[key] = value
    return {part: values for part, values in metadata.items() if values}


def keep_out_of_meshes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's metadata with an opt-out from each mesh that the pod does not configure."""
    names = {*_read_map(metadata, "labels"), *_read_map(metadata, "annotations")}
    result = dict(metadata)
    for keys, out in _MESHES:
        if names.isdisjoint(keys):
            for part, more in out.items():
                result[part] = {**_read_map(metadata, part), **more}
    return result


def _read_map(metadata: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    values = metadata.get(part)
    return values if isinstance(values, Mapping) else {}


def label_beside(order: Order) -> dict[str, str]:
    """Return the label by which the policy selects preflight and command pods, or an empty dict."""
    network = order.limits.attempt_network
    if network is None or network.egress is None:
        return {}
    text = json.dumps([order.pipeline_uid, network.dns, network.egress], sort_keys=True)
    encoded = text.encode("utf-8", "surrogatepass")
    return {NETWORK_LABEL: hashlib.blake2b(encoded, digest_size=8).hexdigest()}


def _render(metadata: dict[str, Any], spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _render_ingress(order: Order, network: AttemptNetwork) -> list[Rule]:
    dashboard = RAY_PORTS["dashboard"]
    own = _label_own(order)
    roles = {"key": ROLE_LABEL, "operator": "In", "values": [Role.HEAD.value, Role.WORKER.value]}
    # Ray chooses most of its ports at startup, so open all ports between the nodes of an attempt.
    nodes = {"podSelector": {"matchLabels": own, "matchExpressions": [roles]}}
    submitter = {"podSelector": {"matchLabels": own | {ROLE_LABEL: Role.SUBMITTER.value}}}
    driver = order.limits.driver_port
    # If only the driver's port is closed, open all other ports to all peers: a rule without `from`
    # allows all peers.
    others = (
        {"ports": _list_ports_but(driver)}
        if network.closes == "driver"
        else _open([submitter, *network.kuberay], dashboard)
    )
    operator = [_open([*network.operator], driver)] if network.operator else []
    return [{"from": [nodes]}, others, *operator, *network.ingress]


def _list_ports_but(port: int) -> list[dict[str, Any]]:
    """Return all ports of all protocols, except one TCP port."""
    ranges = [("TCP", 1, port - 1), ("TCP", port + 1, _LAST_PORT)]
    ranges += [(protocol, 1, _LAST_PORT) for protocol in ("UDP", "SCTP")]
    return [
        {"protocol": protocol, "port": first, "endPort": last}
        for protocol, first, last in ranges
        if first <= last
    ]


def _open(peers: list[Peer], port: int) -> Rule:
    return {"from": peers, "ports": [{"protocol": "TCP", "port": port}]}


def _label_own(order: Order) -> dict[str, str]:
    """Return labels that only this attempt's pods have. Users' templates can't change them."""
    return {name: order.labels[name] for name in (PIPELINE_UID_LABEL, ATTEMPT_LABEL)}
