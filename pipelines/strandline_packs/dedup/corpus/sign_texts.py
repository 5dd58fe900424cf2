"""The stage `sign-texts`: puts similar texts in the same bucket, by bands of MinHash signatures."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings, list_texts
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.row_buckets import (
    BUCKETS,
    build_buckets,
    columns_of,
    mark_keys,
)
from strandline_packs.dedup.key_lists import digest_bytes
from strandline_packs.dedup.keyed_texts import WordRunParams
from strandline_packs.dedup.near.minhash import VALUE_BYTES, RunHasher, Signer


class SignTexts(Stage):
    """Returns a row for each band of a text's MinHash signature; equal bands share a bucket."""

    class Params(WordRunParams):
        """Configures the texts, the size of runs, and the bands, which set the similarity."""

        bands: int = Field(
            default=14,
            ge=1,
            le=1024,
            description="Number of bands of a signature (b). Texts that agree in one band are "
            "duplicates; more bands find less similar texts.",
        )
        rows: int = Field(
            default=8,
            ge=1,
            le=256,
            description="Number of values of a band (r), in all of which two texts must agree; "
            "more values find only more similar texts.",
        )

    version = "3"
    params: Params
    packages: ClassVar[tuple[str, ...]] = ("datasketch",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(BUCKETS)

    def setup(self) -> None:
        """Load the library."""
        self._signer = Signer(self.params.words, self.params.bands * self.params.rows, RunHasher())

    def process(self, task: Task) -> Task:
        """Sign every text. A text without words is in no bucket.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or keys have an unsupported type.
        """
        keys = list_texts(task.table, self.params.key)
        texts = list_strings(task.table, self.params.column)
        buckets = build_buckets(keys, [self._cut_bands(text) for text in texts])
        return task.replace(pa.concat_tables([buckets, mark_keys(keys, task.key)]))

    def _cut_bands(self, text: str) -> list[bytes]:
        signature = self._signer.sign(text)
        if signature is None:
            return []
        size = VALUE_BYTES * self.params.rows
        return [
            # Prefix the band number: equal values in different bands do not indicate similar texts.
            digest_bytes(band.to_bytes(2, "big") + signature[band * size : (band + 1) * size])
            for band in range(self.params.bands)
        ]
