"""The source `mix`: partitions of a mixture of data sets that the sink `shuffle` has parted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, NamedTuple, Self

import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from strandline.data.files.buckets import build_file_table, digest_members
from strandline.data.files.globs import check_pattern
from strandline.data.files.listed import ListedFile
from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.file_references import FileReference
from strandline.plan.errors import MixtureError
from strandline.plan.stages.ends import Source, SourceStage
from strandline.plan.stages.stage import Params
from strandline_packs.tables.shuffle.mix_shares import (
    Draw,
    divide,
    draw_shares,
    find_largest,
)
from strandline_packs.tables.shuffle.partition_files import Parting, read_facts
from strandline_packs.tables.shuffle.row_weights import MixUnit

ALL = ""  # the stratum of a data set that is taken as it is

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Budget(Params):
    """How much the mixture has: one of the three."""

    rows: int | None = Field(default=None, ge=1, description="Rows.")
    bytes: int | None = Field(default=None, ge=1, description="Bytes, as the sink weighs them.")
    tokens: int | None = Field(default=None, ge=1, description="Tokens, as the sink weighs them.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(amount is not None for amount in self._list_amounts().values()) != 1:
            msg = "one of `rows`, `bytes` and `tokens` must be given"
            raise ValueError(msg)
        return self

    @property
    def unit(self) -> MixUnit:
        """The unit that is counted."""
        return next(unit for unit, amount in self._list_amounts().items() if amount is not None)

    @property
    def amount(self) -> int:
        """The number of units."""
        return next(amount for amount in self._list_amounts().values() if amount is not None)

    def _list_amounts(self) -> dict[MixUnit, int | None]:
        return {MixUnit.ROWS: self.rows, MixUnit.BYTES: self.bytes, MixUnit.TOKENS: self.tokens}


class MixPart(Params):
    """A data set of a mixture."""

    paths: tuple[str, ...] = Field(
        min_length=1,
        description="Globs or URLs of files of the sink `shuffle`, with a `seed` and `exact`.",
    )
    weight: Weight = Field(description="Its share of the budget, beside those of the others.")
    epochs: Weight = Field(
        default=1.0,
        description="How often each row may come, at most. With 1, none comes twice.",
    )
    strata: dict[Annotated[str, Field(min_length=1)], Weight] | None = Field(
        default=None,
        min_length=1,
        description="Weights by what stands in the sink's `stratum`; what is not named is left "
        "out. By default all rows are taken alike.",
    )

    _check_paths = field_validator("paths")(lambda paths: tuple(map(check_pattern, paths)))


class Label(NamedTuple):
    """A data set of a mixture, and a stratum of it."""

    part: str
    stratum: str

    def __str__(self) -> str:
        return f"{self.part}/{self.stratum}" if self.stratum else self.part


class Stock(NamedTuple):
    """What there is of a data set.

    Attributes:
        entries: its files.
        partitions: their number.
        supply: by stratum, how much is in each partition.
    """

    entries: list[ListedFile]
    partitions: int
    supply: dict[str, list[int]]


class Mix(FileSource):
    """Lists the partitions of a mixture, each a source for `read-mix`; they are in its order."""

    class Params(SourceStage.Params):
        """Which data sets, and how much of each."""

        parts: dict[str, MixPart] = Field(min_length=1, description="The data sets, by name.")
        budget: Budget = Field(description="How much the mixture has.")
        seed: int = Field(default=0, description="Draws rows and their order.")

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the patterns of all data sets."""
            return [
                (f"parts.{name}.paths[{index}]", path)
                for name, part in self.parts.items()
                for index, path in enumerate(part.paths)
            ]

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "part", "draws", "seed")

    @property
    def packed_under(self) -> str:
        return "mixture"

    def list_sources(self) -> Iterator[Source]:
        """Yield every partition; its version changes with any of the files.

        Raises:
            OSError: a folder is missing or can't be read, or a file is none of the sink's.
            MixtureError: data sets are parted in other ways, or one has not enough.
        """
        stocks = {name: self._take_stock(name, part) for name, part in self.params.parts.items()}
        counts = {stock.partitions for stock in stocks.values()}
        if len(counts) > 1:
            numbers = " and ".join(map(str, sorted(counts)))
            msg = f"data sets have {numbers} partitions; the sink of each must write as many"
            raise MixtureError(msg)
        draws = self._draw(stocks)
        version = digest_members(entry for stock in stocks.values() for entry in stock.entries)
        (count,) = counts
        for at in range(count):
            tables = [
                self._build(
                    name, stock.entries, {key: each[at] for key, each in draws[name].items()}
                )
                for name, stock in stocks.items()
            ]
            yield Source(f"mixture/{at:05d}-of-{count:05d}", version, pa.concat_tables(tables))

    def _take_stock(self, name: str, part: MixPart) -> Stock:
        """Return what there is of a data set, in the unit of the budget."""
        entries = sorted(self.list_files(FileListParams(paths=part.paths)))
        if not entries:
            msg = f"there are no files of {name!r}"
            raise MixtureError(msg)
        unit = self.params.budget.unit
        supply: dict[str, list[int]] = {}
        try:
            for facts in read_facts(FileReference(entry.key, entry.path) for entry in entries):
                partitions = facts.parting.partitions
                _check_weighed(name, facts.parting, unit, has_strata=part.strata is not None)
                for number, weights in zip(facts.groups, facts.supplies, strict=True):
                    for stratum, sums in weights.items():
                        key = ALL if part.strata is None else stratum
                        supply.setdefault(key, [0] * partitions)[number] += sums[unit]
        except UnreadableFileError as error:
            raise OSError(str(error)) from error
        return Stock(entries, partitions, supply)

    def _draw(self, stocks: Mapping[str, Stock]) -> dict[str, dict[str, list[list[Draw]]]]:
        """Return by data set and stratum what each partition of the mixture takes.

        Raises:
            MixtureError: one has not enough.
        """
        budget = self.params.budget
        limits = {label: self._find_limit(stocks, label) for label in self._divide(budget.amount)}
        wanted = self._divide(budget.amount)
        missing = [label for label, amount in wanted.items() if amount > limits[label]]
        if missing:
            most = find_largest(budget.amount, limits, self._divide)
            few = "; ".join(
                f"{label} has {limits[label]:,} of {wanted[label]:,}" for label in missing
            )
            msg = (
                f"there are not enough {budget.unit}: {few}; with these weights and epochs a "
                f"budget of {most:,} is met"
            )
            raise MixtureError(msg)
        draws: dict[str, dict[str, list[list[Draw]]]] = {name: {} for name in stocks}
        for label, amount in wanted.items():
            if amount:
                supply = stocks[label.part].supply[label.stratum]
                draws[label.part][label.stratum] = draw_shares(supply, amount)
        return draws

    def _divide(self, amount: int) -> dict[Label, int]:
        """Return how much of a budget is for each data set and stratum."""
        parts = self.params.parts
        amounts = divide(amount, {name: part.weight for name, part in parts.items()})
        return {
            Label(name, stratum): share
            for name, part in parts.items()
            for stratum, share in divide(amounts[name], part.strata or {ALL: 1.0}).items()
        }

    def _find_limit(self, stocks: Mapping[str, Stock], label: Label) -> int:
        """Return how much may be taken of a data set or stratum, in all its epochs."""
        supply = stocks[label.part].supply.get(label.stratum, ())
        return int(sum(supply) * Fraction(self.params.parts[label.part].epochs))

    def _build(
        self, name: str, entries: Iterable[ListedFile], draws: Mapping[str, list[Draw]]
    ) -> pa.Table:
        """Return a row for each file of a data set, with what is taken of them together."""
        table = build_file_table(entries).select(["key", "path"])
        described = {"unit": self.params.budget.unit, "strata": draws}
        values = (name, json.dumps(described), self.params.seed)
        for column, value in zip(self.adds_columns[2:], values, strict=True):
            table = table.append_column(column, pa.repeat(pa.scalar(value), len(table)))
        return table


def _check_weighed(name: str, parting: Parting, unit: MixUnit, *, has_strata: bool) -> None:
    """Check that files say how much there is of what a mixture counts.

    Raises:
        MixtureError: they do not.
    """
    if not parting.is_weighed:
        msg = f"the files of {name!r} are not weighed; give their sink `shuffle` a `seed`, `exact`"
        raise MixtureError(msg)
    if unit is not MixUnit.ROWS and getattr(parting.scales, unit) is None:
        msg = f"no {unit} of {name!r} are counted; name a column as `{unit}` of its sink `shuffle`"
        raise MixtureError(msg)
    if has_strata and parting.scales.stratum is None:
        msg = f"{name!r} has no strata; name a column as `stratum` of its sink `shuffle`"
        raise MixtureError(msg)
