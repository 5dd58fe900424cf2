"""The sink `mds`: tasks as shards of a streaming data set of MosaicML's, and their index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task
from strandline.storage.outputs.manifest import IndexedFile
from strandline_packs.sinks.formats.mds_samples import (
    MdsShard,
    encode_table,
    format_entry,
    parse_shard,
    read_config,
)
from strandline_packs.sinks.jsonl_sink import SharingParams


class MdsSink(SharingSink):
    """Writes each task as an MDS shard; `index.json` at the end of a run names those that count."""

    class Params(SharingParams):
        """Where the shards go, and how large they are."""

    params: Params
    suffix: str = ".mds"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write a sample a row: text, bytes and numbers as they are, lists as arrays, else JSON.

        Raises:
            TypeError: the task carries no table.
            ValueError: a number is null, or two columns have one name.
        """
        file.write(encode_table(task.table).format())

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        shard = parse_shard(shared[suffix].read())
        kept = [sample for rows in ranges for sample in shard.samples[rows.start : rows.stop]]
        file.write(MdsShard(shard.config, kept).format())

    def format_index(self, files: Iterable[IndexedFile]) -> Iterator[bytes]:
        """Yield `index.json`, with an entry for each shard."""
        comma = ""
        yield b'{"shards": ['
        for file in files:
            entry = format_entry(file.name, file.size, file.rows, read_config(file.read))
            yield f"{comma}{entry}".encode()
            comma = ", "
        yield b'], "version": 2}'
