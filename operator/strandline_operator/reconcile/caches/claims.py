"""Caches claims, because a claim with a volume hardly ever changes.

Passes that may change something read the claim again. For reports, a read every few minutes is
sufficient, or every minute during a resize. This module must not depend on how claims are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.access import Access
from strandline_operator.cluster.api import Body
from strandline_operator.model.objects import VolumeClaim
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 300.0
RESIZE_SECONDS = 60.0
# Seconds for which a claim without a volume is cached. Users watch for the volume, which can appear
# at any moment.
UNBOUND_SECONDS = 5.0


@dataclass(slots=True)
class ClaimMemory:
    """Cached claims by pipeline uid and claim name."""

    _entries: TtlCache[tuple[str, str], VolumeClaim] = field(
        default_factory=lambda: TtlCache(KEEP_SECONDS, most=None)
    )
    # Claim names by pipeline, so that forgetting a pipeline does not scan all remaining claims.
    _names: dict[str, set[str]] = field(default_factory=dict)

    async def read(
        self, access: Access, pipeline: str, name: str, now: float, *, may_be_old: bool
    ) -> VolumeClaim | None:
        """Return a claim, or None if it does not exist or may not be read.

        Args:
            pipeline: uid of the pipeline.
            may_be_old: whether a cached claim is acceptable, because this pass creates no object
                that uses the claim.

        Raises:
            ApiError: if reading failed for a reason other than a missing permission.
        """
        key = (pipeline, name)
        entry = self._entries.find(key, now) if may_be_old else None
        if entry is not None:
            return entry.value
        self._entries.drop(key)
        body = await access.get(Resource.CLAIM, name)
        return None if body is None else self.put(pipeline, body, now)

    def put(self, pipeline: str, body: Body, now: float) -> VolumeClaim:
        """Store a claim that was read or created."""
        claim = VolumeClaim.read(body)
        # Do not cache a claim that is being deleted or has lost its volume.
        if claim.phase != "Lost" and not claim.meta.is_deleting:
            self._entries.keep((pipeline, claim.meta.name), claim, now, _choose_seconds(claim))
            self._names.setdefault(pipeline, set()).add(claim.meta.name)
        return claim

    def forget(self, pipeline: str) -> None:
        """Forget a deleted pipeline."""
        for name in self._names.pop(pipeline, ()):
            self._entries.drop((pipeline, name))


def _choose_seconds(claim: VolumeClaim) -> float:
    """Return for how many seconds a claim is cached."""
    if claim.phase != "Bound":
        return UNBOUND_SECONDS
    is_resized = claim.resizing or claim.capacity not in {"", claim.requested}
    return RESIZE_SECONDS if is_resized else KEEP_SECONDS
