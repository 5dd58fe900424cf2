"""Caches schedulers' reports about RayJobs that wait in a queue.

Schedulers write their reasons into objects that the operator does not watch. The objects of a
waiting RayJob are therefore read, at most every few seconds. A missing scheduler, or a missing
permission to read these objects, is a state and not an error. This module must not depend on what
follows from a wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import ApiError, Forbidden, NotFound
from strandline_operator.integrations.schedulers import find_holder
from strandline_operator.model.notices import QueueState
from strandline_operator.model.objects import RayJob
from strandline_operator.model.plan import ObjectKind
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 8.0
UNSERVED_SECONDS = 60.0
# Seconds between tries without permission, which is probably denied on purpose but may be granted
# while users watch the queue.
FORBIDDEN_SECONDS = 300.0


@dataclass(slots=True)
class QueueMemory:
    """Cached queue states of waiting RayJobs, by uid."""

    _entries: TtlCache[str, QueueState | None] = field(
        default_factory=lambda: TtlCache(KEEP_SECONDS)
    )

    async def read(self, api: Api, rayjob: RayJob | None, now: float) -> QueueState | None:
        """Return the queue state of a suspended RayJob, or None if unknown or not suspended."""
        # Schedulers suspend RayJobs that have to wait, so a RayJob that is not suspended does not
        # wait.
        if rayjob is None or not rayjob.is_suspended or rayjob.meta.is_deleting:
            return None
        entry = self._entries.find(rayjob.meta.uid, now)
        if entry is not None:
            return entry.value
        return await self._entries.share(rayjob.meta.uid, partial(self._ask, api, rayjob, now))

    async def _ask(self, api: Api, rayjob: RayJob, now: float) -> QueueState | None:
        uid, holder, seconds = rayjob.meta.uid, find_holder(rayjob.meta), KEEP_SECONDS
        try:
            state = await holder.read_wait(_ServedObjects(api), rayjob)
        except Forbidden:
            state = QueueState(message=f"the operator may not read {holder.records}")
            seconds = FORBIDDEN_SECONDS
        except ApiError:
            # The server failed, so return the last known state.
            before = self._entries.find_any(uid)
            return None if before is None else before.value
        if state is None:
            state = QueueState(message=f"the cluster does not serve {holder.records}")
            seconds = UNSERVED_SECONDS
        return self._entries.keep(uid, state, now, seconds)


@dataclass(frozen=True, slots=True)
class _ServedObjects:
    """Read access to the API server, in the form that schedulers use."""

    api: Api

    async def list_all(self, kind: ObjectKind, namespace: str, selector: str) -> list[Body] | None:
        try:
            return await self.api.list_all(kind, namespace, selector)
        except NotFound:
            return None

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> Body | None:
        return await self.api.get(kind, namespace, name)
