"""Warnings about what does not get to start, and about nothing else.

A mount that fails, a policy that refuses and the words of a probe stand in events alone, and nobody
tells us of those: so the events of a few objects are asked for while an attempt starts, at most
every few seconds. This room must not know what a warning means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from strandline_api.names import ATTEMPT_LABEL, ROLE_LABEL
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError
from strandline_operator.decide.obstacles.delays import is_unmade
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Meta, Pod, RayCluster, RayJob
from strandline_operator.render.order import Role

KEEP_SECONDS = 4.0
MOST_OBJECTS = 3
# What is well has come further by then; a pod that runs gets more, since Ray takes its time.
STUCK_SECONDS = 3.0
UNREADY_SECONDS = 45.0
_MOST = 1000


def list_stuck(
    rayjob: RayJob | None,
    clusters: Iterable[RayCluster],
    pods: Iterable[Pod],
    now: float,
) -> tuple[str, ...]:
    """Names of what ought to have brought about something by now and has not, a head first."""
    if rayjob is None or rayjob.is_suspended or rayjob.meta.is_deleting:
        return ()
    is_early = now - rayjob.meta.created < STUCK_SECONDS
    if is_early or rayjob.deployment not in {"", "Initializing"}:
        return ()
    mine = [pod for pod in pods if _number(pod.meta) == _number(rayjob.meta)]
    cluster = next((one for one in clusters if _number(one.meta) == _number(rayjob.meta)), None)
    return tuple(_list_names(rayjob, cluster, mine, now))[:MOST_OBJECTS]


def _list_names(
    rayjob: RayJob, cluster: RayCluster | None, pods: list[Pod], now: float
) -> Iterator[str]:
    if cluster is None:
        yield rayjob.meta.name  # its own events say why the cluster is not made
    elif not pods:
        yield cluster.meta.name
    elif all(pod.is_ready for pod in pods):
        yield rayjob.meta.name  # a Job of the same name is to make the submitter
    stuck = [pod for pod in pods if _is_stuck(pod, now)]
    stuck.sort(key=lambda pod: (pod.meta.labels.get(ROLE_LABEL) != Role.HEAD, pod.meta.created))
    yield from (pod.meta.name for pod in stuck)


def _is_stuck(pod: Pod, now: float) -> bool:
    if is_unmade(pod):
        return now - pod.meta.created >= STUCK_SECONDS
    is_unready = pod.phase == "Running" and bool(pod.unready) and not pod.meta.is_deleting
    return is_unready and now - pod.meta.created >= UNREADY_SECONDS


def _number(meta: Meta) -> str:
    return meta.labels.get(ATTEMPT_LABEL, "")


@dataclass(slots=True)
class NoticeMemory:
    """Warnings as they were read last, by namespace and name of what they are about."""

    _kept: dict[tuple[str, str], tuple[float, tuple[Notice, ...]]] = field(default_factory=dict)

    async def look(
        self, api: Api, namespace: str, names: Iterable[str], now: float
    ) -> tuple[Notice, ...]:
        """All warnings about objects of those names; none where events never could be read.

        What is not read is only not told: nothing is decided by the absence of a warning.
        """
        found = [await self._look(api, namespace, name, now) for name in names]
        return tuple(notice for notices in found for notice in notices)

    async def _look(self, api: Api, namespace: str, name: str, now: float) -> tuple[Notice, ...]:
        read_at, notices = self._kept.get((namespace, name), (float("-inf"), ()))
        if not 0 <= now - read_at < KEEP_SECONDS:
            # What was read before stands while nobody answers: it says itself how old it is.
            with suppress(ApiError):
                notices = tuple(map(Notice.read, await api.list_warnings(namespace, name)))
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[namespace, name] = (now, notices)
        return notices
