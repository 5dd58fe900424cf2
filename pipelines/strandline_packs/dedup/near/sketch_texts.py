"""The stage `sketch-texts`: gathers signatures of all texts to find near-duplicates.

Near-duplicates are a property of the whole corpus, so this stage drops nothing. `strandline
near-duplicates` makes a drop list from the signatures, and a second pipeline drops the listed rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import ClassVar

import msgpack
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError, explain_error, open_binary
from strandline.data.tables.columns import find_column, list_strings, list_texts
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task
from strandline_packs.dedup.keyed_texts import WordRunParams
from strandline_packs.dedup.near.minhash import (
    SIGNATURE_BYTES,
    RunHasher,
    Signer,
    hash_joined_runs,
)
from strandline_packs.tables.contents.row_groups import open_parquet

SIGNATURES = "signatures.parquet"
SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("signature", pa.binary(SIGNATURE_BYTES)),
        ("hash", pa.dictionary(pa.int8(), pa.string())),
    ]
)
_ROWS = 10_000  # rows per row group, which are in memory together


class RunHash(StrEnum):
    """Hash function of word runs."""

    WORDS = "words"
    SHA1 = "sha1"


class SketchTexts(StatefulFilter):
    """Gathers the keys and MinHash signatures of texts in `signatures.parquet`."""

    class Params(WordRunParams):
        """Configures the texts, and the parameters of signatures."""

        hash: RunHash = Field(
            default=RunHash.WORDS,
            description="Hash function of word runs. `sha1` is that of datasketch and of "
            "earlier releases, and takes longer. Signatures of both functions can't be compared.",
        )

    version = "3"
    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"hash"})
    packages: ClassVar[tuple[str, ...]] = ("datasketch",)
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def setup(self) -> None:
        """Load the library."""
        is_joined = self.params.hash is RunHash.SHA1
        hash_runs = hash_joined_runs if is_joined else RunHasher()
        self._signer = Signer(self.params.words, hash_runs=hash_runs)
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
                self._packer.pack([key, signature, self.params.hash.value])
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
        """Write `signatures.parquet`: key, signature, and hash function."""
        with pq.ParquetWriter(folder / SIGNATURES, SCHEMA) as writer:
            pieces = _read(merged)
            while rows := list(islice(pieces, _ROWS)):
                keys, signatures, hashes = zip(*rows, strict=True)
                encoded = pa.array(hashes).dictionary_encode().cast(SCHEMA.field("hash").type)
                writer.write_table(pa.table([keys, signatures, encoded], SCHEMA))


def read_signatures(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield key and signature of each text in a `signatures.parquet` at a path or URL.

    Raises:
        UnreadableFileError: the file is missing, lacks these columns, or has signatures of several
            hash functions.
    """
    hashes: set[str] = set()
    try:
        with open_binary(path) as file:
            parquet = open_parquet(file)
            empty = parquet.schema_arrow.empty_table()
            for name in ("key", "signature"):
                find_column(empty, name)
            # Files of earlier releases have no column `hash`.
            names = [name for name in SCHEMA.names if name in empty.column_names]
            for batch in parquet.iter_batches(columns=names):
                keys, signatures, *functions = (column.to_pylist() for column in batch.columns)
                hashes.update(*functions)
                if len(hashes) > 1:
                    raise UnreadableFileError(_describe_mixture(path, hashes))
                yield from zip(keys, signatures, strict=True)
    # An unknown URL scheme raises ValueError, and a missing library raises ImportError.
    except (OSError, pa.ArrowException, ValueError, ImportError) as error:
        raise explain_error(path, error) from error


def _describe_mixture(path: str, hashes: Iterable[str]) -> str:
    names = " and ".join(sorted(hashes))
    return (
        f"{path}: signatures of the hash functions {names} can't be compared; run the "
        "pipeline again with `onChange: Redo`"
    )


def _read(path: Path) -> Iterator[tuple[str, bytes, str]]:
    """Yield the packed rows. Pieces of earlier releases lack the hash function, SHA-1."""
    with path.open("rb") as file:
        for key, signature, *function in msgpack.Unpacker(file):
            yield key, signature, function[0] if function else RunHash.SHA1.value
