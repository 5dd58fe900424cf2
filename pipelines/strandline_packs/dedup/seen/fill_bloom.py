"""The stage `fill-bloom`: makes a Bloom filter of all rows, which other pipelines use to drop rows.

If workers filled and queried the same filter at the same time, the retained rows would depend on
the order in which sources finish. This stage therefore drops nothing: it only gathers digests, and
the filter is made at the end of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field

from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task
from strandline_packs.dedup.drop_duplicates import Normalisation
from strandline_packs.dedup.seen.bloom_filter import Digests
from strandline_packs.dedup.seen.digest_files import join_digests, read_digests
from strandline_packs.dedup.seen.filter_file import write_filter
from strandline_packs.dedup.seen.seen_rows import digest_rows

NAME = "seen"


class FillBloom(StatefulFilter):
    """Gathers digests of some columns of all rows in the Bloom filter `seen.bloom`."""

    class Params(StatefulFilter.Params):
        """Configures the columns, the normalization of texts, and the error rate."""

        columns: tuple[str, ...] = Field(
            default=("text",),
            min_length=1,
            description="Columns that are compared, such as `text` or `url`. A row in "
            "which all of them are empty is not added.",
        )
        normalise: Normalisation = Field(
            default=Normalisation.WHITESPACE,
            description="`none`: bytes must be equal. `whitespace`: runs of white space count as "
            "one blank. `case`: also ignores upper and lower case.",
        )
        error_rate: float = Field(
            default=0.001,
            gt=0,
            lt=0.5,
            description=(
                "Maximum share of false positives: rows that are found although they were never "
                "added."
            ),
        )

    # The error rate does not affect the gathered digests, from which a filter with another rate can
    # be made.
    not_fingerprinted: ClassVar[frozenset[str]] = frozenset({"error_rate"})
    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return self.params.columns

    def setup(self) -> None:
        """Start with an empty set."""
        self._gathered: list[Digests] = []

    def process(self, task: Task) -> Task:
        """Digest every row that is not empty.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has no text.
        """
        digests, _ = digest_rows(task.table, self.params.columns, self.params.normalise)
        self._gathered.append(digests)
        return task

    def flush(self) -> bytes | None:
        gathered, self._gathered = self._gathered, []
        # Tasks without rows also yield a piece, so that an empty corpus gets a filter.
        return np.unique(np.concatenate(gathered)).tobytes() if gathered else None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        """Merge sorted sets of digests. The result does not depend on how the set was split."""
        join_digests(paths, out)

    def artifacts(self, merged: Path, folder: Path) -> None:
        """Write the filter `seen.bloom`, and its description `seen.json`."""
        head = write_filter(
            folder / f"{NAME}.bloom",
            read_digests(merged),
            self.params.error_rate,
            self.params.columns,
            self.params.normalise,
        )
        text = head.model_dump_json(by_alias=True, indent=1)
        (folder / f"{NAME}.json").write_text(text + "\n", "utf-8")
