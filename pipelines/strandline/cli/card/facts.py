"""What a card says, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.cli.report.facts import RunFacts
from strandline.ledger.checks.counts import DataCounts

NAMED = 1000  # files, in the head of a card


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that a card says.

    Attributes:
        title: the data set's name for people.
        license: identifier of its license, such as `cc-by-4.0`; None: the pipeline names none.
        ledger: the id of the ledger that counts its files.
        run: what a report says too.
        cuts: stages of which cuts were chosen, by `keep: auto`.
        names: of the files, if others may lie among them, one more than `NAMED` at most. None:
            nothing else lies there.
    """

    title: str
    license: str | None
    ledger: str
    run: RunFacts
    cuts: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def data(self) -> DataCounts:
        """Files and rows of finished sources."""
        return self.run.counts.data
