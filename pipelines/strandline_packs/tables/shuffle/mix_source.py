"""The source `mix`: lists partitions of a mixture of data sets that the sink `shuffle` wrote."""

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
from strandline_packs.tables.shuffle.partition_files import PartitionRules, read_facts
from strandline_packs.tables.shuffle.row_weights import MixUnit

ALL = ""  # stratum of all rows if no strata are configured

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Budget(Params):
    """Size of the mixture, in one of three units."""

    rows: int | None = Field(default=None, ge=1, description="Number of rows.")
    bytes: int | None = Field(
        default=None, ge=1, description="Number of bytes, as counted by the sink."
    )
    tokens: int | None = Field(
        default=None, ge=1, description="Number of tokens, as counted by the sink."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(amount is not None for amount in self._list_amounts().values()) != 1:
            msg = "set exactly one of `rows`, `bytes` and `tokens`"
            raise ValueError(msg)
        return self

    @property
    def unit(self) -> MixUnit:
        """The unit of the budget."""
        return next(unit for unit, amount in self._list_amounts().items() if amount is not None)

    @property
    def amount(self) -> int:
        """The size of the mixture in this unit."""
        return next(amount for amount in self._list_amounts().values() if amount is not None)

    def _list_amounts(self) -> dict[MixUnit, int | None]:
        return {MixUnit.ROWS: self.rows, MixUnit.BYTES: self.bytes, MixUnit.TOKENS: self.tokens}


class MixPart(Params):
    """A data set of a mixture."""

    paths: tuple[str, ...] = Field(
        min_length=1,
        description="Globs or URLs of files of the sink `shuffle`, with a `seed` and `exact`.",
    )
    weight: Weight = Field(description="Share of the budget, relative to the other weights.")
    epochs: Weight = Field(
        default=1.0,
        description="Maximum number of times that a row may appear. With 1, rows do not repeat.",
    )
    strata: dict[Annotated[str, Field(min_length=1)], Weight] | None = Field(
        default=None,
        min_length=1,
        description="Weights by the values of the sink's `stratum` column; other values are left "
        "out. By default all rows are treated alike.",
    )

    _check_paths = field_validator("paths")(lambda paths: tuple(map(check_pattern, paths)))


class Label(NamedTuple):
    """A data set of a mixture, with one of its strata."""

    part: str
    stratum: str

    def __str__(self) -> str:
        return f"{self.part}/{self.stratum}" if self.stratum else self.part


class Stock(NamedTuple):
    """Files of a data set, and the amounts in them.

    Attributes:
        entries: files of the data set.
        partitions: number of partitions.
        supply: amount in each partition, by stratum.
    """

    entries: list[ListedFile]
    partitions: int
    supply: dict[str, list[int]]


class Mix(FileSource):
    """Lists the partitions of a mixture, in order; each is a source for `read-mix`."""

    class Params(SourceStage.Params):
        """Configures the data sets, and the size of the mixture."""

        parts: dict[str, MixPart] = Field(min_length=1, description="The data sets, by name.")
        budget: Budget = Field(description="Size of the mixture.")
        seed: int = Field(default=0, description="Seed for the choice of rows and their order.")

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
        """Yield every partition; a change of any file changes all versions.

        Raises:
            OSError: a folder is missing or can't be read, or the sink did not write a file.
            MixtureError: data sets are partitioned differently, or a data set is too small.
        """
        stocks = {name: self._take_stock(name, part) for name, part in self.params.parts.items()}
        counts = {stock.partitions for stock in stocks.values()}
        if len(counts) > 1:
            numbers = " and ".join(map(str, sorted(counts)))
            msg = (
                f"all data sets must have the same number of partitions, but they have {numbers}; "
                "set the same `partitions` in the sink of each"
            )
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
        """Return the files and the supply of a data set, in the unit of the budget."""
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
        """Return the draws of each partition of the mixture, by data set and stratum.

        Raises:
            MixtureError: a data set or stratum is too small.
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
                f"there are not enough {budget.unit}: {few}; with these weights and epochs, "
                f"the largest possible budget is {most:,}"
            )
            raise MixtureError(msg)
        draws: dict[str, dict[str, list[list[Draw]]]] = {name: {} for name in stocks}
        for label, amount in wanted.items():
            if amount:
                supply = stocks[label.part].supply[label.stratum]
                draws[label.part][label.stratum] = draw_shares(supply, amount)
        return draws

    def _divide(self, amount: int) -> dict[Label, int]:
        """Divide a budget among data sets and strata."""
        parts = self.params.parts
        amounts = divide(amount, {name: part.weight for name, part in parts.items()})
        return {
            Label(name, stratum): share
            for name, part in parts.items()
            for stratum, share in divide(amounts[name], part.strata or {ALL: 1.0}).items()
        }

    def _find_limit(self, stocks: Mapping[str, Stock], label: Label) -> int:
        """Return the maximum amount from a data set or stratum over all epochs."""
        supply = stocks[label.part].supply.get(label.stratum, ())
        return int(sum(supply) * Fraction(self.params.parts[label.part].epochs))

    def _build(
        self, name: str, entries: Iterable[ListedFile], draws: Mapping[str, list[Draw]]
    ) -> pa.Table:
        """Return a row for each file of a data set, with the draws from that data set."""
        table = build_file_table(entries).select(["key", "path"])
        described = {"unit": self.params.budget.unit, "strata": draws}
        values = (name, json.dumps(described), self.params.seed)
        for column, value in zip(self.adds_columns[2:], values, strict=True):
            table = table.append_column(column, pa.repeat(pa.scalar(value), len(table)))
        return table


def _check_weighed(name: str, parting: PartitionRules, unit: MixUnit, *, has_strata: bool) -> None:
    """Check that files record the amounts that a mixture needs.

    Raises:
        MixtureError: an amount is missing.
    """
    if not parting.is_weighed:
        msg = (
            f"the files of {name!r} have no counts of rows; set `seed` and `exact: true` in their "
            "sink `shuffle`"
        )
        raise MixtureError(msg)
    if unit is not MixUnit.ROWS and getattr(parting.scales, unit) is None:
        msg = f"the files of {name!r} do not count {unit}; set `{unit}` in their sink `shuffle`"
        raise MixtureError(msg)
    if has_strata and parting.scales.stratum is None:
        msg = f"the files of {name!r} have no strata; set `stratum` in their sink `shuffle`"
        raise MixtureError(msg)
