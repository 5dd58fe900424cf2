"""Work of an attempt or a run, as recorded by an operator.

This module must not depend on how work is measured or lost.
"""

from typing import Annotated

from pydantic import Field

from strandline_api.status.records import Record

Seconds = Annotated[float, Field(ge=0)]


class LostWork(Record):
    """Seconds of work to repeat, by the cause of the loss."""

    node: Seconds = Field(default=0.0, description="Lost with nodes.")
    memory: Seconds = Field(default=0.0, description="Lost with workers killed for memory.")
    kill: Seconds = Field(default=0.0, description="Lost with workers that died otherwise.")
    timeout: Seconds = Field(
        default=0.0, description="Lost with workers that exceeded a time limit."
    )
    stop: Seconds = Field(default=0.0, description="Not finished when the attempt was ended.")


class RunWork(Record):
    """Work of a run's ended attempts, as far as reported."""

    seconds: Seconds = Field(default=0.0, description="Seconds of work done by workers.")
    lost: LostWork | None = Field(
        default=None, description="Seconds of that work that were repeated."
    )

    def add(self, seconds: float | None, lost: LostWork | None) -> "RunWork":
        """Return this work plus the work of another attempt, if that is known."""
        more = (lost or LostWork()).model_dump()
        before = (self.lost or LostWork()).model_dump()
        total = {name: round(each + more[name], 3) for name, each in before.items()}
        return RunWork(seconds=round(self.seconds + (seconds or 0.0), 3), lost=LostWork(**total))
