"""What Kueue reports about RayJobs that wait in a queue, as it was read last.

Kueue writes its reasons into Workloads, which no watch of the operator follows: the Workload of a
waiting RayJob is read at most every few seconds. Without Kueue, or without the right to read its
objects, the state says so and nothing fails. This room must not know what follows from a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden, NotFound
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache
from strandline_operator.render.rayjob import QUEUE_LABEL

KEEP_SECONDS = 8.0
UNSERVED_SECONDS = 60.0
# A missing right is usually missing on purpose, but may be granted while users watch the queue.
FORBIDDEN_SECONDS = 300.0
# Kueue labels a Workload with the uid of its job.
_JOB_LABEL = "kueue.x-k8s.io/job-uid"
_FORBIDDEN = "the operator may not read Kueue's Workloads"
_UNSERVED = "the cluster does not serve Kueue's Workloads"


class _KueueKinds(NamedTuple):
    """The kinds of one version of Kueue's API."""

    workload: Resource
    queue: Resource


# Kueue serves the former version for some releases beside the current one.
_VERSIONS = (
    _KueueKinds(Resource.WORKLOAD, Resource.LOCAL_QUEUE),
    _KueueKinds(Resource.FORMER_WORKLOAD, Resource.FORMER_LOCAL_QUEUE),
)


@dataclass(slots=True)
class QueueMemory:
    """States of waiting RayJobs by uid."""

    _entries: TtlCache[str, QueueState | None] = field(
        default_factory=lambda: TtlCache(KEEP_SECONDS)
    )

    async def read(self, api: Api, rayjob: RayJob | None, now: float) -> QueueState | None:
        """Return the state of a suspended RayJob, or None if it does not wait or is unknown."""
        # Kueue suspends the RayJobs that it holds; others wait for nothing of it.
        if rayjob is None or not rayjob.is_suspended or rayjob.meta.is_deleting:
            return None
        entry = self._entries.find(rayjob.meta.uid, now)
        if entry is not None:
            return entry.value
        return await self._entries.share(rayjob.meta.uid, partial(self._ask, api, rayjob, now))

    async def _ask(self, api: Api, rayjob: RayJob, now: float) -> QueueState | None:
        uid = rayjob.meta.uid
        try:
            state = await _find_state(api, rayjob)
            seconds = UNSERVED_SECONDS if state.problem else KEEP_SECONDS
        except Forbidden:
            state, seconds = QueueState(problem=_FORBIDDEN), FORBIDDEN_SECONDS
        except ApiError:
            # A server that fails has said nothing new.
            before = self._entries.find_any(uid)
            return None if before is None else before.value
        return self._entries.keep(uid, state, now, seconds)


async def _find_state(api: Api, rayjob: RayJob) -> QueueState:
    """Read the Workload of a RayJob, and the LocalQueue if there is no Workload."""
    namespace, selector = rayjob.meta.namespace, f"{_JOB_LABEL}={rayjob.meta.uid}"
    for version in _VERSIONS:
        try:
            workloads = await api.list_all(version.workload, namespace, selector)
        except NotFound:
            continue
        state = QueueState.read(workloads)
        name = rayjob.meta.labels.get(QUEUE_LABEL)
        # A Workload's own message reports a missing queue.
        if state.workload or not name:
            return state
        queue = await api.get(version.queue, namespace, name)
        return replace(state, exists=queue is not None)
    return QueueState(problem=_UNSERVED)
