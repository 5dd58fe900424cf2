"""Volumes for one node that are still attached to another, mostly one that is lost.

Kubernetes lets go of such an attachment some minutes after the pod is gone, or when a person marks
that the node is out of service. Until then nothing is wrong with the attempt that waits for it.
This room must not know how long is too long.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.scene import Scene, role_of
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

# The controller that attaches tries again every two minutes at the latest, and warns each time.
FRESH = 180.0
_WARNINGS = frozenset({"FailedAttachVolume", "FailedMount"})
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
    """A pod that waits, and the warning that says for what."""

    pod: Pod
    notice: Notice


def find_attachment(scene: Scene) -> Block | None:
    """Return the volume that a pod of the attempt waits for, and which node has it."""
    attachment = _find_held(scene)
    if attachment is None:
        return None
    pod, words = attachment.pod, attachment.notice.message
    volume, node = _VOLUME.search(words), _NODE.search(words)
    name = f"volume {volume[1]}" if volume else "its volume"
    former = node[1] if node else scene.former_node
    holder = f"node {former}" if former and former != pod.node else "another node"
    role = role_of(pod)
    waiting = f"{role} pod {pod.meta.name}" if role else f"pod {pod.meta.name}"
    detail = f"{waiting} on node {pod.node} waits for {name}, which {holder} has: {words}"
    return Block(Reason.VOLUME_STILL_ATTACHED, detail)


def is_kept_by_volume(scene: Scene) -> bool:
    """Return whether an attempt may wait, since a volume keeps it and nobody has set a limit."""
    # A user's limit ends every wait, this one too.
    if scene.spec.deadlines.pre_running_seconds is not None:
        return False
    return _find_held(scene) is not None


def is_let_go(scene: Scene) -> bool:
    """Return whether an attempt that might wait has its volume since it was last looked at."""
    summary = scene.status.find_condition("Succeeded")
    has_waited = summary is not None and summary.reason == Reason.VOLUME_STILL_ATTACHED
    is_bounded = scene.spec.deadlines.pre_running_seconds is not None
    return has_waited and not is_bounded and _find_held(scene) is None


def _find_held(scene: Scene) -> Attachment | None:
    for pod in scene.pods:
        # A pod that waits for a volume has its node and none of its containers.
        is_waiting = pod.phase == "Pending" and bool(pod.node) and not pod.meta.is_deleting
        if not is_waiting or any(each.is_running or each.ends for each in pod.containers):
            continue
        warnings = [
            notice
            for notice in scene.notices
            if notice.uid == pod.meta.uid
            and notice.reason in _WARNINGS
            and _HELD.search(notice.message)
        ]
        newest = max(warnings, key=lambda each: each.time, default=None)
        if newest is not None and scene.now - newest.time < FRESH:
            return Attachment(pod, newest)
    return None
