"""Finds rows in output files and in dead letters by key. Formats without a reader have no rows.

The module must not depend on the stages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from strandline.data.files.opening import explain_error, open_binary, open_decompressed
from strandline.ledger.records.entries import SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output
from strandline.run.revise.dead_letters.counts import list_dead_letter_files
from strandline.run.trace.row_keys import RowIndex, index_rows, index_values
from strandline.run.trace.steps import Decision, OutputRow, RowName, Step
from strandline.storage.outputs.names import name_output


class OutputKeys:
    """The keys of rows in output files, read once per file.

    Args:
        location: folder or URL of the outputs.
        column: column with the keys.

    Attributes:
        location: the argument.
        problems: why files could not be read.
    """

    def __init__(self, location: str, column: str) -> None:
        self.problems: list[str] = []
        self.location, self._column = location.rstrip("/"), column
        self._files: dict[str, RowIndex | None] = {}

    def find(self, name: str, keys: Collection[str]) -> list[int] | None:
        """Return the rows of a file with one of the keys, or None if its format has no reader."""
        if name not in self._files:
            path = f"{self.location}/{name}"
            try:
                self._files[name] = _read_index(path, self._column)
            except (OSError, ValueError) as error:  # Arrow's errors are also of these classes
                self._files[name] = {}
                self.problems.append(f"{explain_error(path, error)}; run `strandline verify`")
        index = self._files[name]
        return None if index is None else [row for key in keys for row in index.get(key, ())]


def find_rows(
    output_keys: OutputKeys,
    source: bytes,
    outputs: Sequence[Output],
    keys: Collection[str],
    ends: Mapping[bytes, Sequence[int]],
    *,
    is_ordered: bool,
) -> Iterator[OutputRow]:
    """Yield the places of a row in the output of a source.

    Args:
        source: digest of the source's key.
        ends: indexes of the row in the tasks that the sink has written, by token, for files whose
            keys can't be read.
        is_ordered: whether the sink writes the rows of a task in order.
    """
    for output in outputs:
        name = name_output(source, output)
        rows = output_keys.find(name, keys) if keys else None
        begin = 0 if output.part is None else output.part.begin
        if rows is not None:
            end = begin + output.rows
            yield from (OutputRow(name, row) for row in rows if begin <= row < end)
        elif output.token in ends and not output.is_companion:
            for row in ends[output.token]:
                yield OutputRow(name, begin + row if is_ordered else None)


def find_sources(
    store: Store, output_keys: OutputKeys, keys: Collection[str]
) -> dict[bytes, SourceRecord]:
    """Return the finished sources with a row in the output or in dead letters."""
    found: dict[bytes, SourceRecord] = {}
    for source, _, record in store.list_records():
        outputs = (each for each in record.outputs if each.is_data or each.dead_stage is not None)
        if any(output_keys.find(name_output(source, output), keys) for output in outputs):
            found[source] = record
    return found


def read_letters(store: Store, location: str, source: bytes, name: RowName) -> Iterator[Step]:
    """Yield the stored dead letters of a row.

    Raises:
        OSError: if a file can't be read.
    """
    for file in list_dead_letter_files(store):
        if file.source != source:
            continue
        with open_binary(file.locate(location)) as opened:
            table = pq.ParquetFile(opened).read(use_threads=False)
        index = index_rows(table, name.column)
        for at in [row for key in name.keys for row in index.get(key, ())]:
            message = table["dead_message"][at].as_py()
            yield Step(file.stage, Decision.DEAD_LETTER, reason=message)


def _read_index(path: str, column: str) -> RowIndex | None:
    if path.endswith(".parquet"):
        with open_binary(path) as file:
            parquet = pq.ParquetFile(file)
            if column not in parquet.schema_arrow.names:
                return None
            # Do not use Arrow's threads: they may abort a process that exits at the same time.
            return index_rows(parquet.read([column], use_threads=False), column)
    if ".jsonl" not in path.rpartition("/")[2]:
        return None
    with open_decompressed(path) as file:
        # Without any key, the sink has dropped the column.
        return index_values(json.loads(line).get(column) for line in file) or None
