"""Damaged files give rows or counters but no error, and long files take bounded memory."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from make_pdfs import Document, format_document, list_documents, write_prose
from reportlab.platypus import PageBreak

from pdf_runs import end_children, read_with, start, start_alone
from strandline.plan.task import Task
from table_pdfs import TABLE, build_pdf, rule

DOCUMENTS = {each.kind: each for each in list_documents()}
KINDS = [*sorted(DOCUMENTS), "ruled"]


@pytest.fixture(autouse=True, scope="module")
def _ended() -> Iterator[None]:
    yield
    end_children()


@cache
def write_document(kind: str) -> bytes:
    if kind == "ruled":
        return build_pdf(rule(TABLE), PageBreak(), rule(TABLE))
    return format_document(DOCUMENTS[kind])


def damage(content: bytes, dice: random.Random) -> bytes:
    """Return a file with other bytes, another order of its parts, or without its end."""
    data = bytearray(content)
    for _ in range(dice.choice((1, 10, 100))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    if dice.random() < 0.2:
        at, length = dice.randrange(len(data)), dice.randrange(1000)
        data[dice.randrange(len(data)) :] += data[at : at + length]
    return bytes(data[: dice.choice((len(data), len(data), dice.randrange(len(data))))])


def check_damaged(kinds: list[str], number: int, seed: int) -> None:
    """Check that the counters account for each file and each page."""
    dice = random.Random(seed)
    for at in range(number):
        stage = start(timeoutSeconds=5, tables=True, render="none")
        rows = read_with(stage, damage(write_document(dice.choice(kinds)), dice))
        counted = {"pages": 0, "failed": 0, "dropped": 0}
        for name, count in stage.counters.items():
            counted[name.split(":")[0]] = counted.get(name.split(":")[0], 0) + count
        assert len(rows) == counted["pages"] + counted["failed"], (seed, at, stage.counters)
        assert (counted["dropped"] == 1) is not bool(rows), (seed, at, stage.counters)
        assert all(bool(row["problem"]) is (row["method"] == "failed") for row in rows)


def test_damaged_files_give_rows_or_counters_but_no_error() -> None:
    check_damaged(["table", "ruled"], 40, seed=4)


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("seed", range(4))
def test_fuzz_damaged_files_of_all_kinds(seed: int) -> None:
    check_damaged(KINDS, 500, seed)


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("values", [{}, {"tables": True}], ids=["text", "tables"])
def test_a_document_of_ten_thousand_pages_takes_bounded_memory(
    tmp_path: Path, values: dict[str, bool]
) -> None:
    path = tmp_path / "long.pdf"
    path.write_bytes(
        format_document(Document("long", partial(_draw_pages, number=10_000, **values), ()))
    )
    stage = start_alone(column=None, maxMemoryBytes=100 << 20, **values)
    rows, before, parent, child = 0, _measure_memory("self"), 0, 0
    for task in stage.stage.process(Task(pa.table({"key": ["a"], "path": [str(path)]}))):
        rows += task.num_rows
        child = max(child, _measure_memory(stage.stage._process._child.pid))
        parent = max(parent, _measure_memory("self") - before)
    print(f"child {child >> 20} MiB, parent {parent >> 20} MiB more than before")
    assert 10_000 == rows
    assert child < (100 << 20) + (120 if values else 60 << 20)
    assert parent < 50 << 20


def _measure_memory(process: int | str) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _draw_pages(canvas: Any, pages: object, *, number: int, tables: bool = False) -> None:
    text = write_prose(1, 4)
    for at in range(number):
        canvas.drawString(50, 700, f"{at} {text[:80]}")
        if tables:
            canvas.grid([50, 150, 250], [600, 620, 640])
            for cell in range(4):
                canvas.drawString(60 + 100 * (cell % 2), 626 - 20 * (cell // 2), f"{at} {cell}")
        canvas.showPage()
