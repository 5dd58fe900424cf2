"""Compares `read-jsonl` with Arrow's own JSON reader on the same files.

Python parses lines that Arrow's reader cannot handle faithfully: the same documents are also read
that way, and again with a date, which Arrow would convert to a timestamp.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.json as pj

from strandline.plan.task import Task
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.text.documents import generate_documents
from strandline_packs.tables.contents.json_tables import JsonTables
from strandline_packs.tables.read_jsonl import ReadJsonl

_FILES = 4
_MOST = 2.5  # as a multiple of Arrow's time


def measure_json_lines(scale: Scale) -> list[Row]:
    """Read the same documents with each reader in turns. Seconds are CPU time."""
    count = scale.pick(100_000, 2_000)
    plain = _write(scale.folder / "plain", count, {})
    dated = _write(scale.folder / "dated", count, {"date": "2024-03-05T10:00:00Z"})
    works: dict[str, Callable[[], int]] = {
        "arrow": lambda: sum(pj.read_json(path, _in_one_thread()).num_rows for path in plain),
        "ours": lambda: _read(plain),
        "dated": lambda: _read(dated),
        "lines": lambda: _read_by_lines(plain),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(scale.pick(5, 1)):
        for name, work in works.items():
            begun = time.process_time()
            rows = work()
            seconds[name].append(time.process_time() - begun)
            if rows != count:
                msg = f"{name}: {rows:,} rows of {count:,}"
                raise RuntimeError(msg)
    took = {name: median(each) for name, each in seconds.items()}
    size = sum(path.stat().st_size for path in plain) / 1e6
    what = f"{count:,} documents of {size:,.0f} MB of JSON Lines"
    return [
        Row(f"{what}: pyarrow.json, a core", format_number(size / took["arrow"], "MB/s")),
        Row(f"{what}: read-jsonl, a core", format_number(size / took["ours"], "MB/s")),
        bound("read-jsonl, of pyarrow.json's time", took["ours"] / took["arrow"], _MOST, "×"),
        Row("the same, with a date", format_number(took["dated"] / took["arrow"], "×")),
        Row("the same, line by line", format_number(took["lines"] / took["arrow"], "×")),
    ]


def _in_one_thread() -> pj.ReadOptions:
    return pj.ReadOptions(use_threads=False)


def _write(folder: Path, count: int, more: dict[str, str]) -> list[Path]:
    folder.mkdir(parents=True)
    texts = generate_documents(["A text of a document that is there."], seed=1)
    paths = [folder / f"{number}.jsonl" for number in range(_FILES)]
    for at, path in enumerate(paths):
        with path.open("w", encoding="utf-8") as file:
            for number in range(at, count, _FILES):
                meta = {"language": "en", "score": number / 7, "lines": number % 90}
                row = {"id": f"document-{number:09}", "text": next(texts), "meta": meta, **more}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return paths


def _read(paths: list[Path]) -> int:
    stage = ReadJsonl()
    stage.setup()
    listed = [pa.table({"key": [path.name], "path": [str(path)]}) for path in paths]
    return sum(task.table.num_rows for each in listed for task in stage.process(Task(each)))


def _read_by_lines(paths: list[Path]) -> int:
    with _arrow_left_out():
        return _read(paths)


@contextmanager
def _arrow_left_out() -> Iterator[None]:
    parse = JsonTables.parse
    JsonTables.parse = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        JsonTables.parse = parse  # type: ignore[method-assign]
