"""The sink `webdataset`: writes each task as a tar shard, and a Parquet file of sample metadata."""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from itertools import groupby
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationInfo, field_validator

from strandline.data.tables.columns import (
    check_names,
    find_column,
    holds_bytes,
    holds_text,
    list_texts,
)
from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task
from strandline_packs.sinks.content_kinds import find_extension
from strandline_packs.sinks.json_values import format_json, list_rows
from strandline_packs.sinks.jsonl_sink import SharingParams

_NO_KEY = re.compile(r"[^A-Za-z0-9_-]+")  # also replaces dots: the first dot starts the extension
# Columns that the sink adds to the metadata of a sample.
_OWN = {"sample": pa.string(), "bytes": pa.int64(), "sha256": pa.string()}
_LONGEST = 60  # maximum characters of a name, to fit the oldest tar format
_LONGEST_KIND = 24  # maximum characters of an extension, for the tar format
_JSON = "json"
_KIND = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")  # loaders expect lower case


class WebdatasetSink(SharingSink):
    """Writes each task as a tar of samples with content and JSON, and their metadata as Parquet."""

    class Params(SharingParams):
        """Configures the content of a sample."""

        key: str = Field(default="clip", description="Column with a sample's own name.")
        content: str = Field(default="content", description="Column with its bytes.")
        files: tuple[str, ...] = Field(
            default=(),
            description="Columns of bytes or text that become further files of a sample, named by "
            "their column: `txt` is `NAME.txt`. Nulls have no file. Columns of bytes "
            "that are not listed here are left out and counted.",
        )

        @field_validator("files")
        @classmethod
        def _check_files(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
            for name in files:
                if fault := _find_fault(name, files, info.data.get("content", "")):
                    raise ValueError(f"{name!r} {fault}")
            return files

    params: Params
    suffix: str = ".tar"
    added_params: ClassVar[frozenset[str]] = frozenset({"target_bytes", "files"})

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.content, *self.params.files)

    def list_companions(self) -> Mapping[str, Callable[[Task, BinaryIO], None]]:
        """Return the writer of the Parquet file."""
        return {".parquet": self._write_facts}

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write `NAME.mp4`, the named files, and `NAME.json` of each row, without times or owners.

        Raises:
            TypeError: the task has no table, or a named column has neither bytes nor text.
            MissingColumnError: a named column is missing.
            ValueError: two rows, two columns, or two files of a sample share a name.
        """
        with _open_shard(file) as shard:
            for row, files in self._list_samples(task.table):
                text = format_json(row, sort_keys=True).encode()
                for kind, data in (files | {_JSON: text}).items():
                    member = tarfile.TarInfo(f"{row['sample']}.{kind}")
                    member.size = len(data)
                    shard.addfile(member, io.BytesIO(data))
        self._count_left_out(task.table)

    def _write_facts(self, task: Task, file: BinaryIO) -> None:
        rows = [row for row, _ in self._list_samples(task.table)]
        facts = self._select(task.table)
        for name, kind in _OWN.items():
            facts = facts.append_column(name, pa.array([row[name] for row in rows], kind))
        _write_table(facts, file)

    def write_shared(self, tasks: Sequence[Task], file: BinaryIO) -> None:
        """Write the samples of all tasks.

        Raises:
            ValueError: two tasks have a sample of the same name, which readers would merge.
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
            # Names of samples have no dots, and no two of a shard are equal.
            samples = groupby(old, lambda member: member.name.partition(".")[0])
            for number, (_, members) in enumerate(samples):
                for member in members if number in chosen else ():
                    new.addfile(member, old.extractfile(member))

    def _select(self, table: pa.Table) -> pa.Table:
        """Return the columns of the JSON: metadata of a sample, without its files."""
        check_names(table.schema)
        return table.select([field.name for field in table.schema if self._is_fact(field)])

    def _is_fact(self, field: pa.Field) -> bool:
        return field.name not in {*_OWN, *self.params.files} and not holds_bytes(field.type)

    def _count_left_out(self, table: pa.Table) -> None:
        """Count the values of columns that are neither in a file nor in the JSON of a sample."""
        for field, column in zip(table.schema, table.columns, strict=True):
            is_file = field.name in {self.params.content, *self.params.files}
            left_out = len(column) - column.null_count
            if left_out and not is_file and not self._is_fact(field):
                self.count(f"left out: column {field.name!r}", left_out)

    def _list_samples(self, table: pa.Table) -> Iterator[tuple[dict[str, Any], dict[str, bytes]]]:
        """Yield the metadata of each row with its name and digest, and its files by extension."""
        contents = find_column(table, self.params.content)
        files = [_list_contents(table, name) for name in self.params.files]
        names = list_texts(table, self.params.key)
        if twice := next((name for name, number in Counter(names).items() if number > 1), None):
            msg = (
                f"{self.params.key!r} has {twice!r} twice, which readers would take for one sample"
            )
            raise ValueError(msg)
        rows = zip(list_rows(self._select(table)), names, contents, *files, strict=True)
        for row, name, content, *others in rows:
            data = content.as_py() or b""
            facts = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
            parts = self._join_files(name, data, others)
            yield {**row, "sample": _format_name(name), **facts}, parts

    def _join_files(
        self, name: str, data: bytes, others: Sequence[bytes | None]
    ) -> dict[str, bytes]:
        parts = {find_extension(data): data}
        for kind, other in zip(self.params.files, others, strict=True):
            if other is not None and kind in parts:
                msg = f"{name!r} has two files {kind!r}: its content, and the column in `files`"
                raise ValueError(f"{msg}; give the column another name")
            if other is not None:
                parts[kind] = other
        return parts


def _find_fault(name: str, files: Sequence[str], content: str) -> str | None:
    """Return the reason that a column cannot be a file of a sample, or None if it can."""
    if name == _JSON:
        return (
            "is the sink's own file of a sample; give the column another name with "
            "`select-columns`, such as 'meta.json'"
        )
    if name == content:
        return "is already the file of the sample's content"
    if files.count(name) > 1:
        return "is named twice"
    if not _KIND.fullmatch(name) or len(name) > _LONGEST_KIND:
        return (
            "must be an extension: lowercase letters, digits, '_', '-', and dots between them, at "
            f"most {_LONGEST_KIND} characters; rename the column with `select-columns`"
        )
    return None


def _list_contents(table: pa.Table, name: str) -> Iterator[bytes | None]:
    """Return the values of a column as contents of files.

    Raises:
        MissingColumnError: the column is missing.
        TypeError: the column has neither bytes nor text.
    """
    column = find_column(table, name)
    kind, types = column.type, pa.types
    is_binary = types.is_fixed_size_binary(kind) or types.is_binary_view(kind)
    is_file = not types.is_nested(kind) and (is_binary or holds_bytes(kind) or holds_text(kind))
    if not (is_file or types.is_null(kind)):
        msg = f"the column {name!r} holds {kind}, neither bytes nor text"
        raise TypeError(msg)
    values = (value.as_py() for value in column)
    return (value.encode() if isinstance(value, str) else value for value in values)


def _open_shard(file: BinaryIO) -> tarfile.TarFile:
    # Stream mode (`w|`) never seeks in the target.
    return tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT)


def _write_table(facts: pa.Table, file: BinaryIO) -> None:
    pq.write_table(facts.combine_chunks(), pa.PythonFile(file, mode="w"), compression="zstd")


def _format_name(key: str) -> str:
    """Return a readable name without dots that is unique for the key."""
    digest = blake2b(key.encode(), digest_size=6).hexdigest()
    name = _NO_KEY.sub("_", key.rpartition("/")[2])[-_LONGEST:]
    return f"{name}-{digest}"
