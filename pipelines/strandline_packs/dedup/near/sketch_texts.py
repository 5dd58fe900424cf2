"""The stage `sketch-texts`: gathers signatures of all texts to find near-duplicates.

Near-duplicates are a property of the whole corpus, so this stage drops nothing. `strandline
near-duplicates` makes a drop list from the signatures, and a second pipeline drops the listed rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq

from strandline.data.files.opening import explain_error, open_binary
from strandline.data.tables.columns import find_column, list_strings, list_texts
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task
from strandline_packs.dedup.keyed_texts import WordRunParams
from strandline_packs.dedup.near.minhash import SIGNATURE_BYTES, Signer
from strandline_packs.tables.contents.row_groups import open_parquet

SIGNATURES = "signatures.parquet"
SCHEMA = pa.schema([("key", pa.string()), ("signature", pa.binary(SIGNATURE_BYTES))])
_ROWS = 10_000  # rows per row group, which are in memory together


class SketchTexts(StatefulFilter):
    """Gathers the keys and MinHash signatures of texts in `signatures.parquet`."""

    class Params(WordRunParams):
        """The texts, and the parameters of signatures."""

    version = "2"
    params: Params
    packages: ClassVar[tuple[str, ...]] = ("datasketch",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def setup(self) -> None:
        """Load the library."""
        self._signer = Signer(self.params.words)
        # `autoreset=False` keeps the packed rows in the buffer until `flush`.
        self._packer = msgpack.Packer(autoreset=False)

    def process(self, task: Task) -> Task:
        """Compute the signature of every text with words.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or keys have an unsupported type.
        """
        keys = list_texts(task.table, self.params.key)
        texts = list_strings(task.table, self.params.column)
        for key, text in zip(keys, texts, strict=True):
            signature = self._signer.sign(text)
            if signature is not None:
                self._packer.pack([key, signature])
        return task

    def flush(self) -> bytes | None:
        piece = bytes(self._packer.bytes())
        self._packer.reset()
        return piece or None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Concatenate the pieces. Packed rows need no separator."""
        with out.open("wb") as joined:
            for path in paths:
                with path.open("rb") as piece:
                    shutil.copyfileobj(piece, joined)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write `signatures.parquet`: key and signature."""
        with pq.ParquetWriter(folder / SIGNATURES, SCHEMA) as writer:
            pieces = _read(merged)
            while rows := list(islice(pieces, _ROWS)):
                keys, signatures = zip(*rows, strict=True)
                writer.write_table(pa.table([keys, signatures], SCHEMA))


def read_signatures(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield key and signature of each text in a `signatures.parquet` at a path or URL.

    Raises:
        UnreadableFileError: the file is missing, or lacks these columns.
    """
    try:
        with open_binary(path) as file:
            parquet = open_parquet(file)
            for name in SCHEMA.names:
                find_column(parquet.schema_arrow.empty_table(), name)
            for batch in parquet.iter_batches(columns=SCHEMA.names):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    # An unknown URL scheme raises ValueError, and a missing library raises ImportError.
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise explain_error(path, error) from error


def _read(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as file:
        yield from msgpack.Unpacker(file)
