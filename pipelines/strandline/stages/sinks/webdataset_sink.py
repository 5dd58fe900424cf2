"""The sink `webdataset`: each task as a shard, and what is known of its samples as Parquet."""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import SharingSink
from strandline.plan.task import Task
from strandline.stages.columns import check_names, find_column, list_texts
from strandline.stages.sinks.content_kinds import find_extension
from strandline.stages.sinks.json_values import format_json, list_rows
from strandline.stages.sinks.jsonl_sink import SharingParams

_NO_KEY = re.compile(r"[^A-Za-z0-9_-]+")  # a dot would begin the extension
# What it adds to what is known of a sample.
_OWN = {"sample": pa.string(), "bytes": pa.int64(), "sha256": pa.string()}
_FILES = 2  # files of a sample
_LONGEST = 60  # letters of a name, so that the whole fits into a tar's oldest form


@register("webdataset")
class WebdatasetSink(SharingSink):
    """Writes each task as a tar of samples, content and JSON, and facts of them as Parquet."""

    class Params(SharingParams):
        """What a sample is."""

        key: str = Field(default="clip", description="Column with a sample's own name.")
        content: str = Field(default="content", description="Column with its bytes.")

    params: Params
    suffix: str = ".tar"
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes"})

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.content)

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return what writes the Parquet file."""
        return {".parquet": self._write_facts}

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write two files a row, `NAME.mp4` and `NAME.json`, in order and without times or owners.

        Raises:
            TypeError: the task carries no table.
            MissingColumnError: there is no column of names or of contents.
            ValueError: two rows have one name, or two columns.
        """
        with _open_shard(file) as shard:
            for row, data in self._list_samples(task.table):
                text = format_json(row, sort_keys=True)
                for name, part in ((find_extension(data), data), ("json", text.encode())):
                    member = tarfile.TarInfo(f"{row['sample']}.{name}")
                    member.size = len(part)
                    shard.addfile(member, io.BytesIO(part))

    def _write_facts(self, task: Task, file: BinaryIO) -> None:
        rows = [row for row, _ in self._list_samples(task.table)]
        facts = self._select(task.table)
        for name, kind in _OWN.items():
            facts = facts.append_column(name, pa.array([row[name] for row in rows], kind))
        _write_table(facts, file)

    def write_shared(self, tasks: Sequence[Task], file: BinaryIO) -> None:
        """Write the samples of all tasks.

        Raises:
            ValueError: two of them have a sample of one name, which readers would take for one.
        """
        named: set[str] = set()
        for task in tasks:
            names = set(list_texts(task.table, self.params.key))
            if not names.isdisjoint(named):
                msg = f"{self.params.key!r} has {min(names & named)!r} in several tasks of a file"
                raise ValueError(msg)
            named |= names
        super().write_shared(tasks, file)

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        if suffix != self.suffix:
            table = pq.read_table(shared[suffix])
            kept = [table.slice(rows.start, len(rows)) for rows in ranges]
            _write_table(pa.concat_tables([table.slice(0, 0), *kept]), file)
            return
        chosen = {number for rows in ranges for number in rows}
        with tarfile.open(fileobj=shared[suffix], mode="r:") as old, _open_shard(file) as new:
            for number, member in enumerate(old):
                if number // _FILES in chosen:
                    new.addfile(member, old.extractfile(member))

    def _select(self, table: pa.Table) -> pa.Table:
        """Return the columns that say something of a sample and are none of its pixels."""
        check_names(table.schema)
        fields = [field for field in table.schema if field.name not in _OWN]
        return table.select([field.name for field in fields if not _has_bytes(field.type)])

    def _list_samples(self, table: pa.Table) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield what is known of each row, with its name and digest, and its content."""
        contents = find_column(table, self.params.content)
        names = list_texts(table, self.params.key)
        if twice := next((name for name, number in Counter(names).items() if number > 1), None):
            msg = (
                f"{self.params.key!r} has {twice!r} twice, which readers would take for one sample"
            )
            raise ValueError(msg)
        rows = list_rows(self._select(table))
        for row, name, content in zip(rows, names, contents, strict=True):
            data = content.as_py() or b""
            facts = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
            yield {**row, "sample": _format_name(name), **facts}, data


def _open_shard(file: BinaryIO) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT)


def _write_table(facts: pa.Table, file: BinaryIO) -> None:
    pq.write_table(facts.combine_chunks(), pa.PythonFile(file, mode="w"), compression="zstd")


def _format_name(key: str) -> str:
    """Return a name without dots, unique as the key is, by which a reader knows the key."""
    digest = blake2b(key.encode(), digest_size=6).hexdigest()
    name = _NO_KEY.sub("_", key.rpartition("/")[2])[-_LONGEST:]
    return f"{name}-{digest}"


def _has_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_bytes(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
