"""Disturbs pods of a real cluster, through the scheduler or an API.

This module must not depend on the purpose of the pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proving_ground.cluster.kube import Json, Kube
from proving_ground.commands import CONFINED
from proving_ground.ground import Ground
from proving_ground.waiting import wait_for

SLOT = "example.com/slot"
LOW, HIGH = "tide-low", "tide-high"
PREEMPTOR = "rival"


@contextmanager
def offer_slots(kube: Kube) -> Iterator[Callable[[int], None]]:
    """Yield a function that sets how many slots the first node offers."""
    node = kube.list_all("nodes")[0]["metadata"]["name"]

    def offer(number: int) -> None:
        _set_slots(kube, node, str(number))
        wait_for(f"the node offers {number} slots", lambda: _has_slots(kube, node, number), 30)

    try:
        yield offer
    finally:
        _set_slots(kube, node, None)


@contextmanager
def offer_slot(kube: Kube) -> Iterator[None]:
    """Make the first node offer a single slot, and create two priority classes."""
    kube.apply(*(_render_class(name, value) for name, value in ((LOW, 10), (HIGH, 1000))))
    try:
        with offer_slots(kube) as offer:
            offer(1)
            yield
    finally:
        for name in (LOW, HIGH):
            kube.delete("priorityclass", name)


def ask_for_slot(container: str) -> Json:
    """Return a fragment of a pod template that requests the slot."""
    resources = {"requests": {SLOT: "1"}, "limits": {SLOT: "1"}}
    return {"spec": {"containers": [{"name": container, "resources": resources}]}}


def preempt(ground: Ground) -> None:
    """Evict the pod that holds the slot: start a pod of higher priority that needs the slot."""
    ground.kube.apply(_render_rival(ground.runtime_image))

    def is_running() -> bool:
        pod = ground.kube.find("pod", PREEMPTOR)
        return pod is not None and pod.get("status", {}).get("phase") == "Running"

    wait_for(
        f"pod {PREEMPTOR} has the slot", is_running, 120, lambda: ground.kube.call("get", "pods")
    )


def yield_slot(ground: Ground) -> None:
    """Delete the pod that took the slot."""
    ground.kube.delete("pod", PREEMPTOR, "--grace-period=1")


def evict(kube: Kube, pod: str) -> None:
    """Evict a pod through the API, as a node drain does."""
    body: Json = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": kube.namespace},
    }
    path = f"/api/v1/namespaces/{kube.namespace}/pods/{pod}/eviction"
    kube.create_raw(path, body)


def _set_slots(kube: Kube, node: str, number: str | None) -> None:
    capacity = {"status": {"capacity": {SLOT: number}}}
    kube.patch("node", node, capacity, "--subresource=status")


def _has_slots(kube: Kube, node: str, number: int) -> bool:
    found = kube.find("node", node)
    return found is not None and found["status"]["allocatable"].get(SLOT) == str(number)


def _render_class(name: str, value: int) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def _render_rival(image: str) -> Json:
    limits = {SLOT: "1", "cpu": "10m", "memory": "16Mi"}
    container = {
        "name": "sleep",
        "image": image,
        "command": ["sleep", "3600"],
        "resources": {"requests": limits, "limits": limits},
        "securityContext": CONFINED,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": PREEMPTOR},
        "spec": {
            "priorityClassName": HIGH,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        },
    }
