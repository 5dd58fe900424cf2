"""The stage `drop-contaminated`: drops documents that contain n-grams of benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import ClassVar, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import ChangedListError, digest_content, digest_input
from strandline.data.tables.columns import list_strings
from strandline.data.tables.row_filter import JudgedRows, RowFilter, spread_measures
from strandline.data.tables.rules import Rule
from strandline_packs.dedup.benchmark_ngrams import NgramIndex, read_texts


class DropContaminated(RowFilter):
    """Drops texts that overlap with benchmark texts. The fingerprint covers the benchmarks."""

    class Params(RowFilter.Params):
        """Configures the benchmarks, and the limits of the overlap."""

        benchmarks: tuple[str, ...] = Field(
            min_length=1,
            description="Files or fsspec URLs: `.jsonl`, also compressed, `.parquet`, or a text. A "
            "dropped row is counted under the first benchmark that it overlaps.",
        )
        benchmark_columns: tuple[str, ...] = Field(
            default=("text", "question", "query", "answer"),
            min_length=1,
            description="Columns of the benchmarks with text; missing ones are skipped. The "
            "columns of a row are joined in this order.",
        )
        column: str = Field(default="text", description="Column of the rows with the text.")
        n: int = Field(
            default=12,
            ge=1,
            description="Number of words of an n-gram; shorter benchmark texts have no n-grams.",
        )
        max_ratio: float = Field(
            default=0.0,
            ge=0,
            lt=1,
            description="Maximum share of a text's n-grams that occur in a benchmark; with 0, a "
            "single one drops the text.",
        )
        _digests: dict[str, str] = PrivateAttr(default_factory=dict)

        @model_validator(mode="after")
        def _read(self) -> Self:
            self._digests = {path: digest_input(path) for path in self.benchmarks}
            return self

        @property
        def digests(self) -> dict[str, str]:
            """Digests of the files at planning time, by path."""
            return self._digests

        def list_places(self) -> Iterable[tuple[str, str]]:
            return ((f"benchmarks[{at}]", path) for at, path in enumerate(self.benchmarks))

    scope = "list"
    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digests of the benchmarks."""
        return dict(self.params.digests)

    def setup(self) -> None:
        """Load the n-grams, about 150 bytes each.

        Raises:
            ChangedListError: a benchmark has changed since planning.
            UnreadableFileError: a benchmark can't be read.
        """
        params = self.params
        # Compare the digests again: workers start after planning, and a benchmark that changed in
        # between would make results inconsistent.
        for path, digest in params.digests.items():
            if digest_content(path) != digest:
                msg = f"{path}: the benchmark has changed during the run; run the pipeline again"
                raise ChangedListError(msg)
        texts = (read_texts(path, params.benchmark_columns) for path in params.benchmarks)
        self._index = NgramIndex(params.n, texts)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count overlapping rows.

        Raises:
            MissingColumnError: the text column is missing.
        """
        texts = list_strings(table, self.params.column)
        overlaps = [self._index.measure(text) for text in texts]
        verdicts = [self._apply_rules([("share", share)]) for share, _ in overlaps]
        reasons = [
            verdict.reason and f"{verdict.reason} {self._name(benchmark)}"
            for verdict, (_, benchmark) in zip(verdicts, overlaps, strict=True)
        ]
        return JudgedRows(table, reasons, spread_measures(verdicts))

    def list_rules(self) -> Sequence[Rule]:
        return (Rule("contaminated by", "share", "maxRatio", self.params.max_ratio),)

    def _name(self, benchmark: int | None) -> str:
        assert benchmark is not None  # a share above zero always has a benchmark
        return PurePosixPath(self.params.benchmarks[benchmark]).name
