"""What a card says, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.cli.report.facts import RunFacts

NAMED = 1000  # files, in the head of a card


@dataclass(frozen=True, slots=True)
class DataSetFacts:
    """What lies in the output of finished sources, by the ledger.

    Attributes:
        suffixes: how many files end in what, such as `.parquet`.
        names: of the files, where others may lie among them, one more than `NAMED` at most; None:
            nothing else lies there.
    """

    files: int = 0
    size: int = 0
    rows: int = 0
    suffixes: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that a card says.

    Attributes:
        title: the data set's name for people.
        license: identifier of its license, such as `cc-by-4.0`; None: the pipeline names none.
        ledger: the id of the ledger that counts its files.
        run: what a report says too.
        cuts: stages of which cuts were chosen, by `keep: auto`.
    """

    title: str
    license: str | None
    ledger: str
    data: DataSetFacts
    run: RunFacts
    cuts: tuple[str, ...] = ()
