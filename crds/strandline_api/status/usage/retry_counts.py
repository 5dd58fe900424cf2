"""Retries that a run has used up, as counted by the retry law.

The status keeps these counts, so a restarted operator continues from them. This module must not
depend on what follows the end of an attempt.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field

from strandline_api.law.retry import Spent
from strandline_api.status.enums import A_CAUSE, CauseField
from strandline_api.status.records import Count, Record


class RetryCounts(Record):
    """The number of retries that the run has used up."""

    attempts: Count = Field(
        default=0,
        description=(
            "Number of attempts of the run that have ended, not counting those that a quota kept "
            "from starting."
        ),
    )
    retries: Count = Field(
        default=0,
        description=(
            "Number of retries since the run last made progress, not counting those after "
            "disruptions."
        ),
    )
    disruptions: Count = Field(
        default=0,
        description="Number of retries after disruptions since the run last made progress.",
    )
    cause: CauseField | None = Field(
        default=None, description=f"Why the last attempt ended badly: {A_CAUSE}"
    )
    through: Count = Field(
        default=0, description="Number of the last attempt that is included in these counts."
    )
    waits: Count | None = Field(
        default=None,
        description=(
            "Number of consecutive latest attempts that a quota kept from starting. Absent if "
            "there are none."
        ),
    )

    @classmethod
    def from_spent(cls, spent: Spent, through: int) -> Self:
        """Return the record of the retry law's counts, which include all attempts so far."""
        return cls(
            attempts=spent.attempts,
            retries=spent.retries,
            disruptions=spent.disruptions,
            cause=spent.cause,
            through=through,
            waits=spent.waits or None,
        )

    @property
    def spent(self) -> Spent:
        """The counts in the form that the retry law uses."""
        return Spent(
            self.attempts, self.retries, self.disruptions, self.cause, waits=self.waits or 0
        )
