"""Determines whether a pod without a node can expect a node: later, soon, or never.

The sources are the scheduler's message in the pod, and events of the cluster autoscaler and
Karpenter. Only known messages are interpreted. If an autoscaler recently tried to create a node for
the pod, that overrides other reports that no node is large enough. This module must not depend on
how long to wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from strandline_operator.model.nodes.capacity import NodeSize, can_hold, is_passing
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

# Seconds after which an announced node no longer counts as expected. Autoscalers give up after
# fifteen minutes.
ON_ITS_WAY_SECONDS = 900.0
# Seconds for which an autoscaler's attempt to create a node proves that a suitable node can exist.
TRIED_SECONDS = 1800.0
# Share of a node's cores and memory that is available to pods. Uncounted daemon pods use the rest.
_SHARE_FOR_PODS = 0.9
SCHEDULER = "the scheduler"


class RoomKind(StrEnum):
    """Whether a pod can expect a node: not now, soon, or never."""

    NO_ROOM = "NoRoom"
    ON_ITS_WAY = "OnItsWay"
    NEVER_FITS = "NeverFits"


class RoomFinding(NamedTuple):
    """Prospects of a pod without a node, as reported by a scheduler or autoscaler.

    Attributes:
        kind: whether the pod can expect a node.
        speaker: the reporting program.
        words: the message of that program.
        is_certain: for `NEVER_FITS`, whether the program considers all possible nodes.
        is_guess: for `NO_ROOM`, whether the sizes of existing nodes are unknown.
    """

    kind: RoomKind
    speaker: str
    words: str
    is_certain: bool = False
    is_guess: bool = False


_TRIGGERED = frozenset({"TriggeredScaleUp"})
_NOMINATED = frozenset({"Nominated", "Nominate", "NominatePod"})
_FAILED = frozenset({"FailedScaleUp", "FailedToScaleUpGroup", "ScaleUpTimedOut"})
_NOT_TRIGGERED = frozenset({"NotTriggerScaleUp"})
# Reasons in Karpenter's events about a NodeClaim that no cloud can provide: current and former.
_NO_CAPACITY = frozenset({"InsufficientCapacity", "InsufficientCapacityError"})
_NOT_PROVISIONED = frozenset({"FailedScheduling", "FailedProvisioning"})
_KARPENTER_WORDS = re.compile(r"^(failed to schedule pod|failed to provision)", re.IGNORECASE)
_NODE_CLAIM = re.compile(r"\bnodeclaim/([\w.-]+)")
# Messages of clouds about exhausted capacity, or an exhausted quota of the customer.
_STOCK_OUT = re.compile(
    r"out of resources|RESOURCE_POOL_EXHAUSTED|stock-?out|insufficient ?(instance)? ?capacity"
    r"|InsufficientCapacity|not enough capacity|MaxSpotInstanceCountExceeded|UnfulfillableCapacity"
    r"|quota|(Vcpu|Instance)LimitExceeded|AllocationFailed|SkuNotAvailable"
    r"|Overconstrained(Zonal)?AllocationRequest|SpotMaxPriceTooLow|IP space exhausted",
    re.IGNORECASE,
)
# The cluster autoscaler's reasons why a suitable node group can't grow at the moment.
_GROUP_IS_FULL = re.compile(
    r"max [\w ,./-]*?(is )?reached|limits? reached"
    r"|in backoff after failed scale-up|not ready for scale-up|can be vertically scaled",
    re.IGNORECASE,
)
# Karpenter's messages about a suitable type that no zone offers, or a pool at its limit.
_POOL_IS_FULL = re.compile(
    r"exceeds? limits|limits? (have been |has been )?(exhausted|exceeded)|offering", re.IGNORECASE
)
_POOL_IS_ABOUT_TO = re.compile(r"uninitialized|in-?flight", re.IGNORECASE)
_TOO_SMALL = re.compile(
    r"no instance type (has|had|met the scheduling requirements or had) enough resources",
    re.IGNORECASE,
)
_POOL_NEVER = re.compile(
    rf"{_TOO_SMALL.pattern}|no instance type met all requirements|did not tolerate|incompatible"
    r"|no instance type met the scheduling requirements(?! or had a required offering)",
    re.IGNORECASE,
)
# Messages of the scheduler: `_PASSES` matches reasons that end when other pods end, `_LASTS`
# matches reasons that only another node resolves, and `CLAIMS` matches problems with volumes.
_PASSES = re.compile(
    r"\bInsufficient [\w./-]+|Too many pods|free ports|were unschedulable|max volume count"
    r"|anti-affinity|topology spread|^no nodes available|\b0/0 nodes"
)
_LASTS = re.compile(
    r"didn't match Pod's node affinity|didn't match node selector|had untolerated taint"
    r"|that the pod didn't tolerate|volume node affinity conflict|requested node name"
    r"|didn't match pod affinity rules"
)
CLAIMS = re.compile(
    r"PersistentVolumeClaim|\bPVC|persistent ?volumes? to bind|binding volumes"
    r"|enough free storage|ReadWriteOncePod|\bstorageclass",
    re.IGNORECASE,
)
_TAINT = re.compile(r"\{([^:}]+)(?::[^}]*)?\}")
# Removed from scheduler messages, because the part about preemption contains no reason.
_ASIDE = re.compile(r"\s*(no new claims to deallocate,? ?)?preemption:.*$", re.DOTALL)


def find_room(
    pod: Pod, notices: Iterable[Notice], sizes: Sequence[NodeSize] | None, now: float
) -> RoomFinding | None:
    """Return what a pod without a node can expect.

    Return None if the pod has a node, or if no report explains the wait.

    Args:
        notices: events about any object; only events about the pod are used.
        sizes: sizes of all existing nodes; None or empty if unknown.
        now: seconds since the epoch.
    """
    if not is_unplaced(pod):
        return None
    own = _list_own(notices, pod)
    growth = _read_growth(own, now)
    # Prefer the autoscaler's report: it considers nodes that could be created, but the scheduler
    # considers only existing nodes.
    if growth is not None and growth.kind is not RoomKind.NEVER_FITS:
        return growth
    words = _ASIDE.sub("", pod.unschedulable).strip()
    by_scheduler = _read_scheduler(words, pod, sizes)
    finding = by_scheduler if growth is None else _weigh(growth, words, pod, sizes)
    if finding is None or finding.kind is not RoomKind.NEVER_FITS:
        return finding
    # An autoscaler recently requested a node for the pod, so a suitable node can exist.
    if _was_tried(own, now):
        return RoomFinding(RoomKind.NO_ROOM, finding.speaker, finding.words)
    return finding


def is_unplaced(pod: Pod) -> bool:
    """Return True if the scheduler has processed a pod without finding a node."""
    return bool(pod.unschedulable) and not pod.node and not pod.meta.is_deleting


def list_claims(notices: Iterable[Notice]) -> tuple[str, ...]:
    """Return the names of the NodeClaims to which Karpenter assigned pods, newest first."""
    nominated = [
        (notice.time, match[1])
        for notice in notices
        if notice.reason in _NOMINATED and (match := _NODE_CLAIM.search(notice.message))
    ]
    return tuple(dict.fromkeys(name for _, name in sorted(nominated, reverse=True)))


def _list_own(notices: Iterable[Notice], pod: Pod) -> list[Notice]:
    """Return the events about a pod, and about the NodeClaims for the pod."""
    all_notices = list(notices)
    own = [notice for notice in all_notices if _is_about(notice, pod)]
    claims = set(list_claims(own))
    return own + [each for each in all_notices if each.kind == "NodeClaim" and each.name in claims]


def _is_about(notice: Notice, pod: Pod) -> bool:
    # The name is sufficient if the event lacks the uid: pods of earlier attempts have other names.
    return notice.uid in {"", pod.meta.uid} and notice.name == pod.meta.name


def _read_growth(own: Sequence[Notice], now: float) -> RoomFinding | None:
    """Return what the autoscalers report, from the newest relevant event of each.

    A single autoscaler that can help is enough. Negative reports count only if no autoscaler can
    help.
    """
    newest: dict[str, RoomFinding] = {}
    for notice in sorted(own, key=lambda item: item.time, reverse=True):
        if notice.source not in newest and (finding := _read_notice(notice, now)) is not None:
            newest[notice.source] = finding
    hopeful = (each for each in newest.values() if each.kind is not RoomKind.NEVER_FITS)
    return next(hopeful, None) or next(iter(newest.values()), None)


def _read_notice(notice: Notice, now: float) -> RoomFinding | None:
    reason, words = notice.reason, notice.message
    speaker = notice.source or "the autoscaler"
    if reason in _TRIGGERED | _NOMINATED:
        # A node that has not appeared by now will probably never appear.
        is_late = now - notice.time > ON_ITS_WAY_SECONDS
        kind = RoomKind.NO_ROOM if is_late else RoomKind.ON_ITS_WAY
        return RoomFinding(kind, speaker, words)
    # A cloud without capacity may have some later, so the pod can wait.
    if reason in _FAILED | _NO_CAPACITY:
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    if reason in _NOT_TRIGGERED:
        return _read_refusal(speaker, words)
    is_karpenter = reason in _NOT_PROVISIONED and _KARPENTER_WORDS.match(words)
    return _read_karpenter(speaker, words) if is_karpenter else None


def _read_refusal(speaker: str, words: str) -> RoomFinding | None:
    """Interpret why the cluster autoscaler adds no node. Return None if the reason is unknown."""
    if _GROUP_IS_FULL.search(words) or _STOCK_OUT.search(words):
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    has_reason = "wouldn't fit" in words or _PASSES.search(words) or _LASTS.search(words)
    return RoomFinding(RoomKind.NEVER_FITS, speaker, words, is_certain=True) if has_reason else None


def _read_karpenter(speaker: str, words: str) -> RoomFinding | None:
    """Interpret why Karpenter adds no node.

    The pool with the best prospects determines the result.
    """
    pools = words.split("; ")
    # If a node of any pool is starting, the state of the other pools does not matter.
    if any(_POOL_IS_ABOUT_TO.search(pool) for pool in pools):
        return RoomFinding(RoomKind.ON_ITS_WAY, speaker, words)
    # A pool at its limit can create a node again after another node was removed.
    if any(_is_full(pool) for pool in pools):
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    # Do not guess the meaning of an unknown message.
    if not any(_POOL_NEVER.search(pool) for pool in pools):
        return None
    # A pool near its limit offers only smaller types, and reports that with the same message, so
    # the report is not certain.
    is_certain = not any(_TOO_SMALL.search(pool) for pool in pools)
    return RoomFinding(RoomKind.NEVER_FITS, speaker, words, is_certain=is_certain)


def _is_full(pool: str) -> bool:
    # Ignore the requirements after the reason, because they may contain any word.
    reason = pool.partition(", requirements=")[0]
    if _STOCK_OUT.search(reason):
        return True
    # If no type is large enough, missing offerings do not mean that the pool is full.
    return _TOO_SMALL.search(reason) is None and _POOL_IS_FULL.search(reason) is not None


def _read_scheduler(words: str, pod: Pod, sizes: Sequence[NodeSize] | None) -> RoomFinding | None:
    """Interpret the scheduler's message, if no autoscaler reports anything."""
    # A pod with an unbound claim waits for a volume, so no node helps.
    if CLAIMS.search(words):
        return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words)
    if _can_pass(words, pod, sizes):
        # If the pod is larger than all nodes, it would wait forever without an autoscaler.
        is_small = bool(sizes) and not _has_fitting(sizes, pod, share=1.0)
        kind = RoomKind.NEVER_FITS if is_small else RoomKind.NO_ROOM
        return RoomFinding(kind, SCHEDULER, words, is_guess=not sizes)
    return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words) if _LASTS.search(words) else None


def _weigh(
    growth: RoomFinding, words: str, pod: Pod, sizes: Sequence[NodeSize] | None
) -> RoomFinding:
    """Combine an autoscaler's report that no new node would fit with the scheduler's message."""
    # A missing volume explains the wait, regardless of the autoscaler.
    if CLAIMS.search(words):
        return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words)
    # No existing node would fit either, even if it were empty.
    if not _can_pass(words, pod, sizes):
        return growth
    # Nodes that the autoscaler does not manage may be larger than nodes that it can create.
    if sizes and _has_fitting(sizes, pod, share=_SHARE_FOR_PODS):
        return RoomFinding(RoomKind.NO_ROOM, SCHEDULER, words)
    # If node sizes are unknown, an existing node may still be large enough, so the report is not
    # certain.
    return growth if sizes else growth._replace(is_certain=False)


def _can_pass(words: str, pod: Pod, sizes: Sequence[NodeSize] | None) -> bool:
    """Return True if the scheduler's reasons are temporary, such as a full or unhealthy node."""
    is_unwell = any(is_passing(match[1].strip()) for match in _TAINT.finditer(words))
    # Since Kubernetes 1.34, the scheduler's message does not name taints, so check whether the pod
    # fits a node. `NodeSize` contains only permanent taints.
    is_unnamed = "had untolerated taint(s)" in words and _has_fitting(sizes, pod, share=1.0)
    return is_unwell or is_unnamed or _PASSES.search(words) is not None


def _has_fitting(sizes: Sequence[NodeSize] | None, pod: Pod, *, share: float) -> bool:
    return any(can_hold(node, pod.request, share) for node in sizes or ())


def _was_tried(own: Iterable[Notice], now: float) -> bool:
    tried = _TRIGGERED | _NOMINATED | _FAILED | _NO_CAPACITY
    return any(notice.reason in tried and now - notice.time <= TRIED_SECONDS for notice in own)
