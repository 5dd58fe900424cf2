"""The sink `tfrecord`: writes each row as an example for loaders of TensorFlow and JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO, ClassVar

from strandline.plan.packages import load_module
from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task
from strandline_packs.sinks.formats.tf_records import Checksum, encode_records, find_records
from strandline_packs.sinks.jsonl_sink import SharingParams


class TfrecordSink(SharingSink):
    """Writes each task as a TFRecord file of `tf.train.Example`."""

    class Params(SharingParams):
        """Configures the destination and the size of files."""

    params: Params
    suffix: str = ".tfrecord"
    packages: ClassVar[tuple[str, ...]] = ("google_crc32c",)

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write one example per row: text, bytes, numbers, and lists directly, the rest as JSON.

        Raises:
            TypeError: the task has no table.
            ValueError: a list has a null, or two columns share a name.
        """
        checksum: Checksum = load_module("google_crc32c").value
        file.write(b"".join(encode_records(task.table, checksum)))

    def copy_rows(
        self, shared: Mapping[str, BinaryIO], ranges: Sequence[range], suffix: str, file: BinaryIO
    ) -> None:
        content = shared[suffix].read()
        starts = find_records(content)
        kept = (content[starts[rows.start] : starts[rows.stop]] for rows in ranges)
        file.write(b"".join(kept))
