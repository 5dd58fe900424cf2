"""Detects single-node volumes that are still attached to another node, usually a lost node.

Kubernetes detaches a volume some minutes after the pod is gone, or when a person marks the node as
out of service. Until then, the attempt waits without having failed. This module must not depend on
how long to wait.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, role_of
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

# Seconds for which a warning counts. The attach controller retries at least every two minutes, and
# warns each time.
FRESH = 180.0
# The controller reports this error only once per volume and node.
_ONCE = re.compile(r"multi-attach error", re.IGNORECASE)
_WARNINGS = frozenset({"FailedAttachVolume", "FailedMount"})
_ATTACHED = "SuccessfulAttachVolume"
# A kubelet mounts a volume only after the volume was attached.
_MOUNTS = re.compile(r"\bMountVolume\.")
_HELD = re.compile(
    r"multi-attach error|already (?:exclusively )?attached|still attached|attached to (?:an)?other"
    r"|attached to (?:the )?(?:node|instance|vm)|already used by|VolumeInUse|RESOURCE_IN_USE"
    r"|(?:is|currently|already) (?:being )?(?:in use|used)|being detached|not yet detached",
    re.IGNORECASE,
)
_VOLUME = re.compile(r'volume "([^"]+)"')
_NODE = re.compile(
    r"""(?:attached to|used by) (?:the )?(?:node|instance|vm)s?:? ["']?([\w.-]+)""", re.IGNORECASE
)


class Attachment(NamedTuple):
    """A waiting pod, and a clause about the attachment for which it waits."""

    pod: Pod
    detail: str


def find_attachment(scene: Scene) -> Block | None:
    """Report a volume for which a pod is waiting, and the node to which it is still attached."""
    attachment = _find_held(scene)
    return None if attachment is None else Block(Reason.VOLUME_STILL_ATTACHED, attachment.detail)


def is_kept_by_volume(scene: Scene) -> bool:
    """Return True if an attached volume blocks the attempt, and no start deadline is set."""
    # A user's deadline limits every wait, including the wait for a volume.
    if scene.spec.deadlines.pre_running_seconds is not None:
        return False
    return _find_held(scene) is not None


def is_let_go(scene: Scene) -> bool:
    """Return True if an attempt was waiting for an attached volume and has obtained it."""
    summary = scene.status.find_condition("Succeeded")
    has_waited = summary is not None and summary.reason == Reason.VOLUME_STILL_ATTACHED
    is_bounded = scene.spec.deadlines.pre_running_seconds is not None
    return has_waited and not is_bounded and _find_held(scene) is None


def _find_held(scene: Scene) -> Attachment | None:
    for pod in scene.pods:
        # A pod that waits for a volume has a node, but none of its containers has been created.
        is_waiting = pod.phase == "Pending" and bool(pod.node) and not pod.meta.is_deleting
        if not is_waiting or any(each.ends or not each.waiting for each in pod.containers):
            continue
        detail = _read_events(scene, pod)
        if detail:
            return Attachment(pod, detail)
    return None


def _read_events(scene: Scene, pod: Pod) -> str:
    """Return a clause about the other node from a pod's newest volume event, or an empty string."""
    own = (notice for notice in scene.notices if notice.uid == pod.meta.uid)
    telling = [notice for notice in own if _is_held(notice) or _is_past(notice)]
    # The API server deletes events after an hour, so fall back to the attempt's status.
    if not telling:
        return _recall(scene, pod)
    newest = max(telling, key=lambda notice: (notice.time, _is_held(notice)))
    # A warning that is normally repeated is outdated if it was not repeated.
    is_standing = bool(_ONCE.search(newest.message)) or scene.now - newest.time < FRESH
    return _describe(scene, pod, newest.message) if _is_held(newest) and is_standing else ""


def _is_held(notice: Notice) -> bool:
    return notice.reason in _WARNINGS and bool(_HELD.search(notice.message))


def _is_past(notice: Notice) -> bool:
    """Return True if an event shows that no other node has the volume anymore."""
    if notice.reason in _WARNINGS and _MOUNTS.search(notice.message):
        return True
    return notice.reason in {_ATTACHED, "FailedAttachVolume"}


def _recall(scene: Scene, pod: Pod) -> str:
    """Return the clause about a waiting pod from the attempt's status, or an empty string."""
    summary = scene.status.find_condition("Succeeded")
    if summary is None or summary.reason != Reason.VOLUME_STILL_ATTACHED:
        return ""
    begin, _, end = Reason.VOLUME_STILL_ATTACHED.explain("{}").partition("{}")
    detail = summary.message.removeprefix(begin).removesuffix(end)
    is_of_pod = f"pod {pod.meta.name} " in detail
    # Without an event, only a warning that is never repeated can still be valid.
    return detail if is_of_pod and _ONCE.search(detail) else ""


def _describe(scene: Scene, pod: Pod, words: str) -> str:
    volume, node = _VOLUME.search(words), _NODE.search(words)
    name = f"volume {volume[1]}" if volume else "its volume"
    former = node[1] if node else scene.former_node
    holder = f"node {former}" if former and former != pod.node else "another node"
    role = role_of(pod)
    waiting = f"{role} pod {pod.meta.name}" if role else f"pod {pod.meta.name}"
    return f"{waiting} on node {pod.node} waits for {name}, which is attached to {holder}: {words}"
