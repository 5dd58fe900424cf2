"""The sink `mds`: writes tasks as shards of a MosaicML streaming data set, and the index."""

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
    """Writes each task as an MDS shard. At the end of a run `index.json` lists the valid shards."""

    class Params(SharingParams):
        """Configures the destination and the size of shards."""

    params: Params
    suffix: str = ".mds"

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write one sample per row: lists as arrays, other types than text and numbers as JSON.

        Raises:
            TypeError: the task has no table.
            ValueError: a number is null, or two columns share a name.
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
