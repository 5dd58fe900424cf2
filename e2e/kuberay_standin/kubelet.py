"""Renders pod statuses as a kubelet writes them, for clusters without a kubelet.

This module does no I/O.
"""

from __future__ import annotations

from kuberay_standin.objects import Json

CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)


def render_running(pod: Json, time: str, address: str) -> Json:
    """Render the status of a pod whose containers are all running and ready.

    Args:
        address: IP address of the pod.
    """
    condition = {"status": "True", "lastTransitionTime": time}
    state = {"running": {"startedAt": time}}
    containers = pod["spec"]["containers"]
    return {
        "phase": "Running",
        "startTime": time,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": kind, **condition} for kind in CONDITIONS],
        "containerStatuses": [_render_state(each, state, is_ready=True) for each in containers],
    }


def render_end(pod: Json, time: str, code: int, reason: str = "") -> Json:
    """Render the status of a pod whose containers have ended."""
    reason = reason or ("Error" if code else "Completed")
    end = {"exitCode": code, "reason": reason, "startedAt": time, "finishedAt": time}
    containers = pod["spec"]["containers"]
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [
            _render_state(each, {"terminated": end}, is_ready=False) for each in containers
        ],
    }


def _render_state(container: Json, state: Json, *, is_ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"sha256:{'0' * 64}",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }
