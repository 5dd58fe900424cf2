"""Claims as they were read last: those that have their volume change next to never.

What is made on a claim is decided from a fresh look; else one a minute does to tell how it stands.
This room must not know what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.access import Access
from strandline_operator.cluster.api import Body
from strandline_operator.model.objects import VolumeClaim
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEEP_SECONDS = 60.0
# A claim without a volume may get it at any moment, and its user waits to see that.
UNBOUND_SECONDS = 5.0


@dataclass(slots=True)
class ClaimMemory:
    """Claims by uid of their pipeline and name."""

    _entries: TtlCache[tuple[str, str], VolumeClaim] = field(
        default_factory=lambda: TtlCache(KEEP_SECONDS, most=None)
    )
    # So that thousands of pipelines that go are not thousands of looks at all that stay.
    _names: dict[str, set[str]] = field(default_factory=dict)

    async def read(
        self, access: Access, pipeline: str, name: str, now: float, *, may_be_old: bool
    ) -> VolumeClaim | None:
        """Return a claim; None where there is none, or where it may not be read.

        Args:
            may_be_old: nothing is about to be made on it.

        Raises:
            ApiError: it could not be read, for another reason than a missing right.
        """
        key = (pipeline, name)
        entry = self._entries.find(key, now) if may_be_old else None
        if entry is not None:
            return entry.value
        self._entries.drop(key)
        body = await access.get(Resource.CLAIM, name)
        return None if body is None else self.put(pipeline, body, now)

    def put(self, pipeline: str, body: Body, now: float) -> VolumeClaim:
        """Take a claim as it was read, or made."""
        claim = VolumeClaim.read(body)
        # A claim that is being deleted, or has lost its volume, is read each time.
        if claim.phase != "Lost" and not claim.meta.is_deleting:
            seconds = KEEP_SECONDS if claim.phase == "Bound" else UNBOUND_SECONDS
            self._entries.keep((pipeline, claim.meta.name), claim, now, seconds)
            self._names.setdefault(pipeline, set()).add(claim.meta.name)
        return claim

    def forget(self, pipeline: str) -> None:
        """Forget a pipeline that is gone."""
        for name in self._names.pop(pipeline, ()):
            self._entries.drop((pipeline, name))
