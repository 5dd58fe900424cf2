"""The stage `read-mix`: reads the rows of a mixture's partition, in shuffled order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from strandline.data.tables.columns import find_column, list_strings, list_texts, set_column
from strandline.data.tables.file_references import FileReference, list_references
from strandline.data.tables.summaries import (
    dump_piece,
    gather,
    merge_pieces,
    read_piece,
)
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task
from strandline_packs.tables.shuffle.mix_shares import Draw, count_taken
from strandline_packs.tables.shuffle.mixture_volume import MixtureVolume, describe_shares
from strandline_packs.tables.shuffle.partition_files import PartitionRules, read_parts
from strandline_packs.tables.shuffle.row_order import Numbers, draw_chance, order_keys
from strandline_packs.tables.shuffle.row_weights import MixUnit, list_strata, weigh_rows


class MixPortion(NamedTuple):
    """A part of a data set that is read in one step.

    Attributes:
        part: name of the data set.
        seed: seed of the mixture.
        unit: unit of the budget.
        epoch: how often these rows occur earlier in the mixture.
        partition: index of the data set's partition; None to read no rows.
        takes: amount by stratum; None for all rows.
    """

    part: str
    seed: int
    unit: MixUnit
    epoch: int
    partition: int | None
    takes: dict[str, int | None]


class ReadMix(StatefulFilter):
    """Reads a partition of a mixture as one task, with `part` and `epoch` beside each row."""

    keeps_columns = False
    adds_columns = ("part", "epoch")

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "path", "part", "draws", "seed")

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        # the files' columns are unknown until they are opened
        return Columns(self.adds_columns, is_open=True)

    def setup(self) -> None:
        """Start without volumes."""
        self._gathered: dict[str, MixtureVolume] = {}

    def process(self, task: Task) -> Task:
        """Return the rows in a random order, determined by the seed and their keys.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: data sets have incompatible types for a column.
            UnreadableFileError: a file can't be read, or is partitioned differently.
        """
        found = list(self._read(task))
        try:
            rows = pa.concat_tables([rows for rows, _ in found], promote_options="default")
        except pa.ArrowTypeError as error:
            msg = f"the data sets do not fit into one table: {error}"
            raise TypeError(msg) from error
        drawn = np.concatenate([numbers for _, numbers in found])
        return task.replace(rows.take(pa.array(np.argsort(drawn, kind="stable"))))

    def _read(self, task: Task) -> Iterator[tuple[pa.Table, Numbers]]:
        """Yield the rows of each data set and epoch, with their sort keys."""
        references = zip(
            list_strings(task.table, "part"),
            list_strings(task.table, "draws"),
            list_references(task),
            strict=True,
        )
        seed = find_column(task.table, "seed")[0].as_py()
        for (part, draws), group in groupby(references, key=lambda each: each[:2]):
            files = [reference for *_, reference in group]
            described = json.loads(draws)
            unit = MixUnit(described["unit"])
            portions = _list_portions(described["strata"])
            for (epoch, partition), takes in portions.items():
                yield self._take(files, MixPortion(part, seed, unit, epoch, partition, takes))

    def _take(
        self, files: Sequence[FileReference], portion: MixPortion
    ) -> tuple[pa.Table, Numbers]:
        first = portion.partition
        rows, parting = read_parts(files, range(0) if first is None else range(first, first + 1))
        chosen = [self._choose(rows, parting, portion, stratum) for stratum in portion.takes]
        rows = rows.take(pa.array(np.sort(np.concatenate([*chosen, np.array([], np.int64)]))))
        name = f"{portion.part}\n{portion.epoch}"
        drawn = order_keys(list_texts(rows, parting.by), portion.seed, name)
        kinds: list[tuple[str, Any, pa.DataType]] = [
            ("part", portion.part, pa.string()),
            ("epoch", portion.epoch, pa.int32()),
        ]
        for column, value, kind in kinds:
            rows = set_column(rows, column, pa.repeat(pa.scalar(value, kind), len(rows)), kind)
        return rows, drawn

    def _choose(
        self, rows: pa.Table, parting: PartitionRules, portion: MixPortion, stratum: str
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the positions of the rows to take: the first rows in digest order."""
        weights = weigh_rows(rows, parting.scales, portion.unit)
        assert weights is not None  # `mix` checks the weights when it lists sources
        at = np.arange(rows.num_rows)
        if stratum:
            at = at[np.array([each == stratum for each in list_strata(rows, parting.scales)], bool)]
        take = portion.takes[stratum]
        if take is not None:
            keys = list_texts(rows.take(pa.array(at)), parting.by)
            drawn = order_keys(keys, portion.seed, f"{portion.part}\nshare")
            at = at[np.argsort(drawn, kind="stable")]
            chance = draw_chance(portion.seed, f"{portion.part}\n{stratum}\n{portion.partition}")
            at = at[: count_taken(weights[at], take, chance)]
        taken = int(weights[at].sum())
        name = f"{portion.part}/{stratum}" if stratum else portion.part
        volume = MixtureVolume(taken if take is None else take, taken, len(at))
        gather(self._gathered, name, volume)
        return at

    def flush(self) -> bytes | None:
        return dump_piece(self._gathered)

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        merge_pieces(paths, out, MixtureVolume.parse)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `mixture.json`: wanted and true shares, by data set or stratum."""
        shares = describe_shares(read_piece(merged, MixtureVolume.parse))
        text = json.dumps(shares, ensure_ascii=False, indent=1)
        (folder / "mixture.json").write_text(text + "\n", "utf-8")


def _list_portions(
    strata: Mapping[str, Sequence[Sequence[Any]]],
) -> dict[tuple[int, int | None], dict[str, int | None]]:
    """Return the amounts by stratum for each epoch and partition; each partition is read once."""
    found: dict[tuple[int, int | None], dict[str, int | None]] = {}
    for stratum, draws in strata.items():
        for draw in draws:
            epoch, partition, take = Draw(*draw)
            found.setdefault((epoch, partition), {})[stratum] = take
    return found or {(0, None): {}}  # without draws, read only the columns
