"""Caches events about objects that do not start, and about disrupted pods.

Some facts are only in events, which the operator does not watch: failed mounts, rejections by
policies, probe failures, messages of autoscalers, and reasons from Karpenter and schedulers. The
operator therefore requests the events of a few objects, at most every few seconds, while an attempt
starts, is suspended, or loses a pod. This module must not depend on the meaning of an event.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.decide.attempts.queueing import (
    is_suspension_unexplained,
)
from strandline_operator.decide.evidence.disruptions import is_unexplained
from strandline_operator.decide.obstacles.delays import is_unmade
from strandline_operator.decide.obstacles.room.findings import list_claims
from strandline_operator.decide.obstacles.room.shortages import list_unplaced
from strandline_operator.decide.scene import SUSPENDED
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob
from strandline_operator.model.view import AttemptObject
from strandline_operator.reconcile.caches.ttl_cache import TtlCache
from strandline_operator.render.order import Role

KEEP_SECONDS = 4.0
# Shorter cache period for a suspension: its reason may be written just afterwards, and the RayJob
# is deleted soon.
BRIEF_SECONDS = 0.5
MOST_OBJECTS = 3
MOST_CLAIMS = 2
MOST_REASONS = 1_000  # maximum number of pods whose disruption events are kept
# Seconds between tries without permission, which is probably denied on purpose.
FORBIDDEN_SECONDS = 86_400.0
# Namespace in which events about cluster-scoped objects are stored.
OF_NO_NAMESPACE = "default"
# Seconds after which a pod without progress counts as stuck. Running pods get more time, because
# Ray starts slowly.
STUCK_SECONDS = 3.0
UNREADY_SECONDS = 45.0


def list_stuck(
    rayjob: RayJob | None,
    clusters: Iterable[RayClusterState],
    pods: Iterable[Pod],
    now: float,
) -> tuple[str, ...]:
    """Return the names of objects that have not had the expected effect yet, heads first."""
    if rayjob is None or rayjob.is_suspended or rayjob.meta.is_deleting:
        return ()
    mine = [pod for pod in pods if _number(pod.meta) == _number(rayjob.meta)]
    is_early = now - rayjob.meta.created < STUCK_SECONDS
    # A running driver may lack workers because no node has capacity.
    if rayjob.deployment == "Running" and rayjob.job:
        return tuple(pod.meta.name for pod in list_unplaced(mine))
    if is_early or rayjob.deployment not in {"", "Initializing", "Running"}:
        return ()
    cluster = next(
        (candidate for candidate in clusters if _number(candidate.meta) == _number(rayjob.meta)),
        None,
    )
    stuck = tuple(_list_names(rayjob, cluster, mine, now))[:MOST_OBJECTS]
    return (*stuck, *(pod.meta.name for pod in list_unplaced(mine)))


def _is_about(event: Notice, pod: Pod) -> bool:
    return event.uid == pod.meta.uid or (event.kind == "Node" and event.name == pod.node)


def list_unexplained(pods: Iterable[Pod], marks: Mapping[str, NodeMarks]) -> list[Pod]:
    """Return the disrupted pods whose disruption only events explain, terminating pods first."""
    due = [pod for pod in pods if _is_taken(pod, marks.get(pod.meta.uid))]
    return sorted(due, key=lambda pod: not _is_going(pod))


def _is_taken(pod: Pod, marks: NodeMarks | None) -> bool:
    # A node that is being deleted confirms the disruption, even if the pod still runs.
    is_announced = marks is not None and marks.is_deleting
    return is_unexplained(marks) and (is_announced or _is_going(pod))


def _is_going(pod: Pod) -> bool:
    return bool(pod.is_gone or pod.meta.is_deleting or pod.disruption)


def _list_names(
    rayjob: RayJob, cluster: RayClusterState | None, pods: list[Pod], now: float
) -> Iterator[str]:
    if cluster is None:
        yield rayjob.meta.name  # events about the RayJob explain why the cluster is missing
    elif not pods:
        yield cluster.meta.name
    elif _lacks_submitter(rayjob, pods):
        yield rayjob.meta.name  # the submitter's Job has the same name as the RayJob
    stuck = [pod for pod in pods if _is_stuck(pod, now)]
    stuck.sort(key=lambda pod: (pod.meta.labels.get(ROLE_LABEL) != Role.HEAD, pod.meta.created))
    yield from (pod.meta.name for pod in stuck)


def _lacks_submitter(rayjob: RayJob, pods: list[Pod]) -> bool:
    """Return True if the submitter's Job exists or is expected, but has no pod."""
    is_due = rayjob.deployment == "Running" or all(pod.is_ready for pod in pods)
    return is_due and all(pod.meta.labels.get(ROLE_LABEL) != Role.SUBMITTER for pod in pods)


def _is_stuck(pod: Pod, now: float) -> bool:
    if is_unmade(pod):
        return now - pod.meta.created >= STUCK_SECONDS
    is_unready = pod.phase == "Running" and bool(pod.unready) and not pod.meta.is_deleting
    return is_unready and now - pod.meta.created >= UNREADY_SECONDS


def _number(meta: Meta) -> str:
    return meta.labels.get(ATTEMPT_LABEL, "")


class _Key(NamedTuple):
    """Namespace and name of the object that events are about."""

    namespace: str
    name: str


@dataclass(slots=True)
class NoticeMemory:
    """Cached events, by namespace and name of the object that they are about."""

    _entries: TtlCache[_Key, tuple[Notice, ...]] = field(
        default_factory=lambda: TtlCache(KEEP_SECONDS)
    )
    _brief: TtlCache[_Key, tuple[Notice, ...]] = field(
        default_factory=lambda: TtlCache(BRIEF_SECONDS)
    )
    _reasons: OrderedDict[str, tuple[Notice, ...]] = field(default_factory=OrderedDict)
    _forbidden: TtlCache[None, bool] = field(default_factory=lambda: TtlCache(FORBIDDEN_SECONDS))

    async def look(
        self, api: Api, namespace: str, names: Iterable[str], now: float
    ) -> tuple[Notice, ...]:
        """Return all events about the named objects, or an empty list if they were never readable.

        Missing events only make messages less detailed. No decision depends on the absence of an
        event.
        """
        notices = await self._look(api, [_Key(namespace, name) for name in names], now)
        return (*notices, *await self._look_at_claims(api, list_claims(notices), now))

    async def read_suspension(
        self, api: Api, rayjob: RayJob | None, attempt: AttemptObject | None, now: float
    ) -> tuple[Notice, ...]:
        """Return events about a RayJob that was suspended while its driver was running."""
        if attempt is None or attempt.status.is_frozen or attempt.status.ray_job is None:
            return ()
        is_new = rayjob is not None and rayjob.deployment in SUSPENDED
        is_taken = is_new and attempt.status.end_time is None
        # Read the events if the suspension is new, or later until its reason is known.
        if not is_taken and not is_suspension_unexplained(attempt.status):
            return ()
        # A queue may suspend an attempt that has not started, which needs no explanation.
        if attempt.status.running_time is None:
            return ()
        key = _Key(attempt.meta.namespace, attempt.status.ray_job.name)
        return await self._brief.read(key, now, partial(self._ask, api, key))

    async def read_reasons(
        self, api: Api, pods: Iterable[Pod], marks: Mapping[str, NodeMarks], now: float
    ) -> tuple[Notice, ...]:
        """Return events about disrupted pods, including events that are not warnings.

        Events about a deleted pod are read once and then kept.
        """
        unexplained = list_unexplained(pods, marks)
        due = [pod for pod in unexplained if not (pod.is_gone and pod.meta.uid in self._reasons)]
        for pod in due[:MOST_OBJECTS]:
            keys = [_Key(pod.meta.namespace, pod.meta.name), _Key(OF_NO_NAMESPACE, pod.node)]
            events = await self._look(api, keys, now)
            about = tuple(event for event in events if _is_about(event, pod))
            if about or pod.is_gone:
                self._reasons[pod.meta.uid] = about
            while len(self._reasons) > MOST_REASONS:
                self._reasons.popitem(last=False)
        reasons = (self._reasons.get(pod.meta.uid, ()) for pod in unexplained)
        return tuple(event for events in reasons for event in events)

    async def _look(self, api: Api, keys: list[_Key], now: float) -> tuple[Notice, ...]:
        lists = [await self._entries.read(key, now, partial(self._ask, api, key)) for key in keys]
        return tuple(notice for notices in lists for notice in notices)

    async def _look_at_claims(
        self, api: Api, names: Iterable[str], now: float
    ) -> tuple[Notice, ...]:
        """Return events about NodeClaims, which have no namespace, if they may be read."""
        notices: list[Notice] = []
        for name in tuple(names)[:MOST_CLAIMS]:
            if self._forbidden.find(None, now) is not None:
                break
            key = _Key(OF_NO_NAMESPACE, name)
            try:
                notices += await self._entries.read(key, now, partial(_read, api, key))
            except Forbidden:
                self._forbidden.keep(None, value=True, now=now)
            except ApiError:
                break
        return tuple(notices)

    async def _ask(self, api: Api, key: _Key) -> tuple[Notice, ...]:
        try:
            return await _read(api, key)
        except ApiError:
            # While the server fails, return earlier events. Each event has a time, so its age is
            # visible.
            entry = self._entries.find_any(key)
            return () if entry is None else entry.value


async def _read(api: Api, key: tuple[str, str]) -> tuple[Notice, ...]:
    return tuple(map(Notice.read, await api.list_events(*key)))
