"""Claims that have their volume, as they were read last: they change next to never.

What is made on a claim is decided from a fresh look; while an attempt runs on it, one a minute does
to tell how it stands. This room must not know what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.model.objects import Claim
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.reader import Reader

KEEP_SECONDS = 60.0


@dataclass(slots=True)
class ClaimMemory:
    """Claims by uid of their pipeline and name, with the time at which they were read."""

    _kept: dict[str, dict[str, tuple[float, Claim]]] = field(default_factory=dict)

    async def read(
        self, reader: Reader, pipeline: str, name: str, now: float, *, is_in_use: bool
    ) -> Claim | None:
        """A claim; None where there is none, or where it may not be read.

        Args:
            is_in_use: an attempt runs on it, so that nothing is about to be made on it.

        Raises:
            ApiError: it could not be read, for another reason than a missing right.
        """
        read_at, claim = self._kept.get(pipeline, {}).get(name, (0.0, None))
        if is_in_use and claim is not None and read_at <= now < read_at + KEEP_SECONDS:
            return claim
        self._kept.get(pipeline, {}).pop(name, None)
        body = await reader.get(Resource.CLAIM, name)
        claim = None if body is None else Claim.read(body)
        if claim is not None and claim.phase == "Bound" and not claim.meta.is_deleting:
            self._kept.setdefault(pipeline, {})[name] = (now, claim)
        return claim

    def forget(self, pipeline: str) -> None:
        """A pipeline is gone."""
        self._kept.pop(pipeline, None)
