"""Compares the same filter as a native stage and as functions of `map-table`, on one core."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.plan.task import Task
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number
from strandline_bench.text.brought.adapters import load_stage
from strandline_bench.text.documents import list_documents

_LEAST = 1_500  # characters that a document must have
_TASK_ROWS = 1_000
NATIVE = "keep-rows"


def _keep_daft(frame: Any) -> Any:  # noqa: ANN401 - of another library
    return frame.where(import_module("daft").col("text").length() >= _LEAST)


def _keep_polars(frame: Any) -> Any:  # noqa: ANN401 - of another library
    return frame.filter(import_module("polars").col("text").str.len_chars() >= _LEAST)


FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "arrow": lambda table: table.filter(pc.greater_equal(pc.utf8_length(table["text"]), _LEAST)),
    "polars": _keep_polars,
    "pandas": lambda frame: frame[frame["text"].str.len() >= _LEAST],
    "datasets": lambda rows: rows.filter(lambda row: len(row["text"]) >= _LEAST),
    "daft": _keep_daft,
}


def measure_frames(scale: Scale) -> list[Row]:
    """Filter documents by length in turns, with each library that is installed."""
    texts = list_documents(scale.pick(20_000, 200))
    tables = [
        pa.table({"text": texts[at : at + _TASK_ROWS]}) for at in range(0, len(texts), _TASK_ROWS)
    ]
    stages = {NATIVE: load_stage("keep-rows", {"where": f"len(text) >= {_LEAST}"})}
    for frame, function in FUNCTIONS.items():
        if frame == "arrow" or importlib.util.find_spec(frame):
            stages[f"map-table, {frame}"] = load_stage(
                "map-table", {"function": function, "frame": frame}
            )
    counts = {name: _filter(stage, tables) for name, stage in stages.items()}
    if len(set(counts.values())) > 1:
        raise RuntimeError(f"not all kept the same rows: {counts}")
    seconds: dict[str, list[float]] = {name: [] for name in stages}
    for _ in range(scale.turns or scale.pick(7, 1)):
        for name, stage in stages.items():
            start = time.process_time()
            _filter(stage, tables)
            seconds[name].append(time.process_time() - start)
    took = {name: median(each) for name, each in seconds.items()}
    return [
        Row(
            f"documents of a minimum length, tasks of {_TASK_ROWS:,} rows: {name}",
            f"{format_number(len(texts) / each, 'rows a core-second')}, "
            f"{format_number(each / took[NATIVE], '× the time')}",
        )
        for name, each in took.items()
    ]


def _filter(stage: Any, tables: list[pa.Table]) -> int:  # noqa: ANN401 - a stage
    answers = (stage.process(Task(table)) for table in tables)
    return sum(answer.num_rows for answer in answers if answer is not None)
