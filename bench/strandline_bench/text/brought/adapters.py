"""Measures a limit on words as native stages, and by the adapters for other libraries.

Each stage drops the texts with fewer than 50 words, on one core. Data-Juicer and NeMo Curator split
at blanks, as `split-at-blanks` does. Missing libraries are left out. Seconds are CPU time.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pyarrow as pa

from strandline.data.tables.columns import keep_rows, list_strings
from strandline.plan.packages import list_missing
from strandline.plan.stages.registry import find_stage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number
from strandline_bench.text.documents import list_documents

_LIMITS = {"minDocWords": 50, "maxDocWords": 100_000}
_NONE = dict.fromkeys(
    (
        *("minAvgWordLength", "maxAvgWordLength", "maxSymbolWordRatio", "maxBulletLinesRatio"),
        *("maxEllipsisLinesRatio", "minAlphaWordsRatio", "minStopWords"),
    )
)
_STAGES: dict[str, dict[str, Any]] = {
    "gopher-quality": _LIMITS | _NONE,
    # In datatrove, 0 switches a rule off, and `spacy` splits words.
    "datatrove:GopherQualityFilter": _LIMITS
    | {"min_avg_word_length": 0, "max_avg_word_length": 0, "max_symbol_word_ratio": 0}
    | {"max_bullet_lines_ratio": 0, "max_ellipsis_lines_ratio": 0}
    | {"max_non_alpha_words_ratio": 0, "min_stop_words": 0},
    "data_juicer:words_num_filter": {"minNum": 50, "maxNum": 100_000},
    "nemo_curator:WordCountFilter": {"minWords": 50, "maxWords": 100_000},
}


class _SplitAtBlanks(Stage):
    """Drops texts with fewer than 50 words between blanks."""

    def process(self, task: Task) -> Task | None:
        texts = list_strings(task.table, "text")
        return keep_rows(task, task.table, [len(text.split()) >= 50 for text in texts])


def measure_adapters(scale: Scale) -> list[Row]:
    """Run the stages in turns on the same documents."""
    task = Task(pa.table({"text": list_documents(scale.pick(500, 40))}))
    stages: dict[str, Stage] = {"split-at-blanks": _SplitAtBlanks()}
    stages |= {use: load_stage(use, values) for use, values in _STAGES.items() if _has(use)}
    seconds: dict[str, list[float]] = {use: [] for use in stages}
    for _ in range(scale.pick(5, 1)):
        for use, stage in stages.items():
            begun = time.process_time()
            stage.process(task)
            seconds[use].append(time.process_time() - begun)
    rows = task.num_rows
    return [
        Row(use, format_number(rows / median(each), "rows a core-second"))
        for use, each in seconds.items()
    ]


def _has(use: str) -> bool:
    return ":" not in use or not list_missing([use.partition(":")[0]])


def load_stage(use: str, values: dict[str, Any]) -> Stage:
    """Return a stage that is ready to process tasks."""
    stage_class = find_stage(use)
    stage = stage_class(stage_class.Params.model_validate(values))
    stage.setup()
    return stage
