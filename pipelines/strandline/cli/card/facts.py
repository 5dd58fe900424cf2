"""Facts for a card, as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.cli.report.facts import RunFacts
from strandline.ledger.checks.counts import DataCounts

NAMED = 1000  # maximum number of files that the front matter lists


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All facts of a card.

    Attributes:
        title: the data set's name for people.
        license: identifier of the license, such as `cc-by-4.0`; None if the pipeline names none.
        ledger: id of the ledger that lists the files.
        run: facts shared with the report.
        cuts: stages with cuts chosen by `keep: auto`.
        names: names of the files if the folder may contain unrelated files, otherwise None. At most
            `NAMED` + 1 names.
    """

    title: str
    license: str | None
    ledger: str
    run: RunFacts
    cuts: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None

    @property
    def data(self) -> DataCounts:
        """Counts of the files and rows of finished sources."""
        return self.run.counts.data
