"""Runs jobs with NeMo Curator: a pipeline of CPU stages; CURATOR_EXECUTOR names the executor.

The default is Xenna's, as in `Pipeline.run`. A partition is a file, as the readers recommend for
files of this size.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.backends.xenna import XennaExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.text.filters import DocumentFilter, ScoreFilter
from nemo_curator.stages.text.filters.heuristic import string
from nemo_curator.stages.text.filters.heuristic.repetition import repetition
from nemo_curator.stages.text.io.reader import JsonlReader
from nemo_curator.stages.text.io.writer import ParquetWriter

from strandline_bench.products.functions import CORES, is_kept, run_program

# Gopher's limits for repeated n-grams, as shares of the characters.
_TOP_RUNS = {2: 0.2, 3: 0.18, 4: 0.16}
_ALL_RUNS = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.1}

# Checkpoints need a Ray cluster that runs before the pipeline starts. This cluster stops when its
# standard input is closed.
_SERVE_RAY = """
import sys, ray
print(ray.init("local", num_cpus=int(sys.argv[1])).address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


class KeepTexts(DocumentFilter):  # type: ignore[misc]  # it comes without types
    """A filter that runs the user's function."""

    def score_document(self, text: str) -> float:
        """Return 1.0 if a text is kept, otherwise 0.0."""
        return float(is_kept(text))

    def keep_document(self, scores: Any) -> bool:  # noqa: ANN401 - its interface
        """Return whether a score means that the text is kept."""
        return bool(scores)


def filter_documents(source: Path, target: Path) -> None:
    """Filter documents by a function."""
    _run(source, target, [KeepTexts()])


def filter_quality(source: Path, target: Path) -> None:
    """Apply those of Gopher's rules for which Curator has filters."""
    rules = [
        repetition.RepeatedLinesFilter(),
        repetition.RepeatedParagraphsFilter(),
        repetition.RepeatedLinesByCharFilter(),
        repetition.RepeatedParagraphsByCharFilter(),
        *(repetition.RepeatingTopNGramsFilter(n, share) for n, share in _TOP_RUNS.items()),
        *(repetition.RepeatingDuplicateNGramsFilter(n, share) for n, share in _ALL_RUNS.items()),
        string.WordCountFilter(50, 100_000),
        string.MeanWordLengthFilter(3, 10),
        string.SymbolsToWordsFilter(0.1),
        string.BulletsFilter(0.9),
        string.EllipsisFilter(0.3),
        string.WordsWithoutAlphabetsFilter(0.8),
        string.CommonEnglishWordsFilter(2),
    ]
    _run(source, target, rules)


def _run(source: Path, target: Path, filters: list[DocumentFilter]) -> None:
    stages = [ScoreFilter(each, text_field="text") for each in filters]
    pipeline = Pipeline(
        name="texts",
        stages=[
            JsonlReader(str(source), files_per_partition=1),
            *stages,
            ParquetWriter(str(target / "kept")),
        ],
    )
    command = [sys.executable, "-c", _SERVE_RAY, str(CORES)]
    with subprocess.Popen(  # noqa: S603 - ours
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        os.environ["RAY_ADDRESS"] = server.stdout.readline().split()[-1]
        checkpoint = str(target / "checkpoint") if os.environ.get("CURATOR_RESUMES") else None
        pipeline.run(_load_executor(), checkpoint_path=checkpoint)
        server.communicate()


def _load_executor() -> Any:  # noqa: ANN401 - it comes without types
    if os.environ.get("CURATOR_EXECUTOR") == "ray-data":
        return RayDataExecutor()
    # The default mode, `streaming`, rejects fewer cores than stages, and recommends `batch`.
    return XennaExecutor({"execution_mode": "batch"})


if __name__ == "__main__":
    run_program({"filter": filter_documents, "words": filter_documents, "quality": filter_quality})
