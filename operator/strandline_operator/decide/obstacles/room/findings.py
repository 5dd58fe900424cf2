"""Whether a pod that has no node finds none now, will have one soon, or can never have one.

Three kinds of programs speak of it: the scheduler, whose words stand in the pod, the cluster
autoscaler and Karpenter, whose words stand in events. Each is read by the sentences that it is
known to write; what none of them says is not guessed at. An autoscaler that was about to make a
node a moment ago is believed before any program that reports none large enough. This room must
not know how long is too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from strandline_operator.model.nodes.capacity import NodeSize, can_hold, is_passing
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

# An autoscaler gives up a node that does not come within a quarter of an hour.
ON_ITS_WAY_SECONDS = 900.0
# As long as one that has tried, or failed, shows that a node would hold the pod.
TRIED_SECONDS = 1800.0
# The share of a node's cores and memory that daemons, which are not counted, leave to pods.
_SHARE_FOR_PODS = 0.9
SCHEDULER = "the scheduler"


class RoomKind(StrEnum):
    """How a pod without a node stands."""

    NO_ROOM = "NoRoom"
    ON_ITS_WAY = "OnItsWay"
    NEVER_FITS = "NeverFits"


class RoomFinding(NamedTuple):
    """How a pod without a node stands, and by which program's words.

    Attributes:
        is_certain: of what never fits: by the word of a program that knows all possible nodes.
        is_guess: of no room: no node is known that could hold the pod.
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
# Karpenter's reasons for a NodeClaim that no cloud has room for, and for its own older events.
_NO_CAPACITY = frozenset({"InsufficientCapacity", "InsufficientCapacityError"})
_NOT_PROVISIONED = frozenset({"FailedScheduling", "FailedProvisioning"})
_KARPENTER_WORDS = re.compile(r"^(failed to schedule pod|failed to provision)", re.IGNORECASE)
_NODE_CLAIM = re.compile(r"\bnodeclaim/([\w.-]+)")
# Clouds' own words for having nothing left, or not for this customer.
_STOCK_OUT = re.compile(
    r"out of resources|RESOURCE_POOL_EXHAUSTED|stock-?out|insufficient ?(instance)? ?capacity"
    r"|InsufficientCapacity|not enough capacity|MaxSpotInstanceCountExceeded|UnfulfillableCapacity"
    r"|quota|(Vcpu|Instance)LimitExceeded|AllocationFailed|SkuNotAvailable"
    r"|Overconstrained(Zonal)?AllocationRequest|SpotMaxPriceTooLow|IP space exhausted",
    re.IGNORECASE,
)
# The cluster autoscaler's reasons why a group that would hold the pod does not grow now.
_GROUP_IS_FULL = re.compile(
    r"max [\w ,./-]*?(is )?reached|limits? reached"
    r"|in backoff after failed scale-up|not ready for scale-up|can be vertically scaled",
    re.IGNORECASE,
)
# Karpenter's: a type would do, but no zone offers it now, or a pool may not grow further.
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
# The scheduler's: what passes when others leave, what only another node mends, and claims.
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
# The scheduler's words about preemption, which name no reason of their own.
_ASIDE = re.compile(r"\s*(no new claims to deallocate,? ?)?preemption:.*$", re.DOTALL)


def find_room(
    pod: Pod, notices: Iterable[Notice], sizes: Sequence[NodeSize] | None, now: float
) -> RoomFinding | None:
    """Find how a pod without a node stands; None where it has one, or no known words explain it.

    Args:
        notices: of any object; those of the pod are picked.
        sizes: of all nodes that there are; None or empty: not known.
        now: seconds since the epoch.
    """
    if not is_unplaced(pod):
        return None
    own = _list_own(notices, pod)
    growth = _read_growth(own, now)
    # An autoscaler knows the nodes that could be made, the scheduler only those that are there.
    if growth is not None and growth.kind is not RoomKind.NEVER_FITS:
        return growth
    words = _ASIDE.sub("", pod.unschedulable).strip()
    by_scheduler = _read_scheduler(words, pod, sizes)
    finding = by_scheduler if growth is None else _weigh(growth, words, pod, sizes)
    if finding is None or finding.kind is not RoomKind.NEVER_FITS:
        return finding
    # A node was asked for a moment ago, so one that holds the pod can be made.
    if _was_tried(own, now):
        return RoomFinding(RoomKind.NO_ROOM, finding.speaker, finding.words)
    return finding


def is_unplaced(pod: Pod) -> bool:
    """Return whether a pod waits for a node, and has been looked at."""
    return bool(pod.unschedulable) and not pod.node and not pod.meta.is_deleting


def list_claims(notices: Iterable[Notice]) -> tuple[str, ...]:
    """Return names of Karpenter's NodeClaims that pods were nominated for, the newest first."""
    nominated = [
        (notice.time, match[1])
        for notice in notices
        if notice.reason in _NOMINATED and (match := _NODE_CLAIM.search(notice.message))
    ]
    return tuple(dict.fromkeys(name for _, name in sorted(nominated, reverse=True)))


def _list_own(notices: Iterable[Notice], pod: Pod) -> list[Notice]:
    """Return what is said of a pod, and of the NodeClaims that were to be its node."""
    all_notices = list(notices)
    own = [notice for notice in all_notices if _is_about(notice, pod)]
    claims = set(list_claims(own))
    return own + [each for each in all_notices if each.kind == "NodeClaim" and each.name in claims]


def _is_about(notice: Notice, pod: Pod) -> bool:
    # Pods of former attempts have other names; an event need not have the uid.
    return notice.uid in {"", pod.meta.uid} and notice.name == pod.meta.name


def _read_growth(own: Sequence[Notice], now: float) -> RoomFinding | None:
    """Return what those say that make nodes, each by its newest word that says something.

    One that can help is enough, so what another one can't do is only told where none can.
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
        # A node that has not come by now will hardly come.
        is_late = now - notice.time > ON_ITS_WAY_SECONDS
        kind = RoomKind.NO_ROOM if is_late else RoomKind.ON_ITS_WAY
        return RoomFinding(kind, speaker, words)
    # A cloud without capacity today may have some later, so the pod may wait.
    if reason in _FAILED | _NO_CAPACITY:
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    if reason in _NOT_TRIGGERED:
        return _read_refusal(speaker, words)
    is_karpenter = reason in _NOT_PROVISIONED and _KARPENTER_WORDS.match(words)
    return _read_karpenter(speaker, words) if is_karpenter else None


def _read_refusal(speaker: str, words: str) -> RoomFinding | None:
    """Read why the cluster autoscaler makes no node; None where it gives no reason."""
    if _GROUP_IS_FULL.search(words) or _STOCK_OUT.search(words):
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    has_reason = "wouldn't fit" in words or _PASSES.search(words) or _LASTS.search(words)
    return RoomFinding(RoomKind.NEVER_FITS, speaker, words, is_certain=True) if has_reason else None


def _read_karpenter(speaker: str, words: str) -> RoomFinding | None:
    """Read why Karpenter makes no node, pool by pool: one that could is enough."""
    pools = words.split("; ")
    # A pool with a node on its way is enough, whatever the others lack.
    if any(_POOL_IS_ABOUT_TO.search(pool) for pool in pools):
        return RoomFinding(RoomKind.ON_ITS_WAY, speaker, words)
    # A pool at its limit has room again once a node of it goes.
    if any(_is_full(pool) for pool in pools):
        return RoomFinding(RoomKind.NO_ROOM, speaker, words)
    if not any(_POOL_NEVER.search(pool) for pool in pools):
        return None
    # A pool near its limits is offered smaller types alone, and told in the same words.
    is_certain = not any(_TOO_SMALL.search(pool) for pool in pools)
    return RoomFinding(RoomKind.NEVER_FITS, speaker, words, is_certain=is_certain)


def _is_full(pool: str) -> bool:
    # A pool's requirements come after the reason, and may have any word in them.
    reason = pool.partition(", requirements=")[0]
    if _STOCK_OUT.search(reason):
        return True
    # Where no type is large enough, that none is offered either says nothing more.
    return _TOO_SMALL.search(reason) is None and _POOL_IS_FULL.search(reason) is not None


def _read_scheduler(words: str, pod: Pod, sizes: Sequence[NodeSize] | None) -> RoomFinding | None:
    """Read the scheduler's words where no autoscaler reports anything."""
    # A pod with an unbound claim waits for its volume, and no node helps.
    if CLAIMS.search(words):
        return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words)
    if _can_pass(words, pod, sizes):
        # A pod larger than all nodes waits without end where no autoscaler makes others.
        is_small = bool(sizes) and not _has_fitting(sizes, pod, share=1.0)
        kind = RoomKind.NEVER_FITS if is_small else RoomKind.NO_ROOM
        return RoomFinding(kind, SCHEDULER, words, is_guess=not sizes)
    return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words) if _LASTS.search(words) else None


def _weigh(
    growth: RoomFinding, words: str, pod: Pod, sizes: Sequence[NodeSize] | None
) -> RoomFinding:
    """Weigh that no new node would hold a pod against the nodes that there are."""
    if CLAIMS.search(words):
        return RoomFinding(RoomKind.NEVER_FITS, SCHEDULER, words)
    # No node that is there would hold the pod either.
    if not _can_pass(words, pod, sizes):
        return growth
    # Nodes that no autoscaler looks after may be larger than those that it makes.
    if sizes and _has_fitting(sizes, pod, share=_SHARE_FOR_PODS):
        return RoomFinding(RoomKind.NO_ROOM, SCHEDULER, words)
    return growth if sizes else growth._replace(is_certain=False)


def _can_pass(words: str, pod: Pod, sizes: Sequence[NodeSize] | None) -> bool:
    """Return whether a node that is there is only full, or not well."""
    is_unwell = any(is_passing(match[1].strip()) for match in _TAINT.finditer(words))
    # Since Kubernetes 1.34 the scheduler names no taints, so they are read from the nodes. What
    # a size keeps of them does not come and go.
    is_unnamed = "had untolerated taint(s)" in words and _has_fitting(sizes, pod, share=1.0)
    return is_unwell or is_unnamed or _PASSES.search(words) is not None


def _has_fitting(sizes: Sequence[NodeSize] | None, pod: Pod, *, share: float) -> bool:
    return any(can_hold(node, pod.request, share) for node in sizes or ())


def _was_tried(own: Iterable[Notice], now: float) -> bool:
    tried = _TRIGGERED | _NOMINATED | _FAILED | _NO_CAPACITY
    return any(notice.reason in tried and now - notice.time <= TRIED_SECONDS for notice in own)
