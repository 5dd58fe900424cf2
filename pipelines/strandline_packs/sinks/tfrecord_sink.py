"""The sink `tfrecord`: each row an example as TensorFlow's and JAX's loaders read it."""

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
        """Where the files go, and how large they are."""

    params: Params
    suffix: str = ".tfrecord"
    packages: ClassVar[tuple[str, ...]] = ("google_crc32c",)

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write an example a row: text, bytes, numbers and lists of them as they are, else JSON.

        Raises:
            TypeError: the task carries no table.
            ValueError: a list has a null, or two columns have one name.
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
