"""Measures the cost of a change relative to a whole run.

One change affects the last of seven stages, and one adds a column. The stages are those for web
pages after text extraction. Each run is one attempt in this process, with ledger and Parquet
output. Seconds are CPU time.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pyarrow.compute as pc

from strandline import ExitCode, OnChange, Pipeline, Stage, Task, work
from strandline.plan.pipeline import StagePlan
from strandline.stages import (
    C4Quality,
    FinewebQuality,
    GopherQuality,
    GopherRepetition,
    JsonlFiles,
    KeepRows,
    NormaliseText,
    ParquetSink,
    ReadJsonl,
)
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.text.documents import list_documents

FILES = 8
SYLLABLES = [f"{a}{b}{c}" for a in "bdklmnprst" for b in "aeiou" for c in "lnrst"]
MOST_OF_LAST, MOST_OF_COLUMN, MOST_OF_KEEPING = 15.0, 10.0, 5.0  # percent of the whole run


class Measure(Stage):
    """Adds the length of each text."""

    keeps_columns = True
    adds_columns = ("length",)

    def process(self, task: Task) -> Task:
        """Return the rows with an additional column."""
        return task.replace(task.table.append_column("length", pc.utf8_length(task.table["text"])))


def measure_redo(scale: Scale) -> list[Row]:
    """Run the stages without and with kept results, then with a change, and with a new column."""
    count = scale.pick(8_000, 400)
    folder = scale.folder / "redo"
    _write(folder / "in", count)
    _run(folder, "first", 10)  # load modules now, outside the measured runs
    whole = _run(folder, "plain", 10)
    keeping = _run(folder, "kept", 10, keep=True)
    last = _run(folder, "kept", 60, keep=True)
    column = _run(folder, "kept", 60, Measure(), keep=True)
    size = sum(path.stat().st_size for path in (folder / "in").iterdir())
    kept = sum(path.stat().st_size for path in (folder / "kept").rglob("*.arrow"))
    what = f"{count:,} documents, {size / 1e6:,.0f} MB, seven stages"
    return [
        Row(f"{what}: the whole run", format_number(whole, "s")),
        bound("what keeping adds to it", 100 * (keeping / whole - 1), MOST_OF_KEEPING, "%"),
        Row("bytes kept, of those that were read", format_number(100 * kept / size, "%")),
        bound("a change in the last stage, of the whole", 100 * last / whole, MOST_OF_LAST, "%"),
        bound("a column more, of the whole", 100 * column / whole, MOST_OF_COLUMN, "%"),
    ]


def _run(folder: Path, name: str, length: int, *more: Stage, keep: bool = False) -> float:
    stages: list[Stage | StagePlan] = [
        ReadJsonl(),
        NormaliseText(),
        GopherRepetition(),
        GopherQuality(min_doc_words=5, min_stop_words=0),
        C4Quality(),
        work(FinewebQuality(), keep=keep),
        KeepRows(where=f"len(text) > {length}"),
        *more,
    ]
    pipeline = Pipeline(
        "pages", source=JsonlFiles(paths=[f"{folder}/in/*"]), stages=stages, sink=ParquetSink()
    )
    begun = time.process_time()
    outcome = pipeline.run(folder / name, engine="inline", progress=False, on_change=OnChange.REDO)
    took = time.process_time() - begun
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    return took


def _write(folder: Path, count: int) -> None:
    """Write documents, over half of which pass all filters, as in a cleaned crawl."""
    folder.mkdir(parents=True)
    chance = random.Random(3)  # noqa: S311 - samples, not secrets
    texts = list_documents(count // 3)
    texts += [_draw_prose(chance) for _ in range(count - len(texts))]
    chance.shuffle(texts)
    for at in range(FILES):
        rows = [{"id": number, "text": texts[number]} for number in range(at, len(texts), FILES)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{at}.jsonl").write_text(lines)


def _draw_prose(chance: random.Random) -> str:
    """Return lines of one sentence each, whose words are rarely repeated."""
    lines = []
    for _ in range(chance.randint(5, 40)):
        words = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 3))) for _ in range(14)]
        lines.append(f"The {' '.join(words)} of the sea.")
    return "\n".join(lines)
