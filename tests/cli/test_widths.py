"""Tables fit the terminal, and no content is lost."""

from __future__ import annotations

import io
import re
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cli_project import Call, Project
from strandline.cli.app.terminal import find_width
from strandline.cli.views.format import align
from strandline.cli.views.running.progress import draw
from strandline.cli.views.running.snapshot import Snapshot, StageView
from strandline.cli.views.running.top import TopFacts, draw_top
from strandline.engine.core.pools import PoolState

LONG = "keep-what-a-reader-would-call-a-document"
TABLES = [
    "attempts pipeline.yaml",
    "attempts show pipeline.yaml 1",
    "doctor --quick pipeline.yaml",
    "drive pipeline.yaml --engine inline",
    "failures pipeline.yaml",
    "ledger stats pipeline.yaml",
    "plan pipeline.yaml",
    "stages",
    "stages files",
    "top pipeline.yaml --once",
]
SAME_TWICE = [name for name in TABLES if not name.startswith(("doctor", "drive", "top"))]
HEAD = "attempt run trigger started (UTC) lasted finished end"
NUMBER = 12_345_678
STAGES = tuple(
    StageView(name, NUMBER, NUMBER, NUMBER, 12, 3, PoolState(12, 10, oldest=95.0), 1234.5, 0.8)
    for name in ("read-files", LONG, "parquet")
)
BUSY = Snapshot(125.2, 5000, True, 1000, 1189, 1, 9.5, STAGES, 2, bottleneck=LONG)


@pytest.fixture
def failing(project: Project, run: Call) -> Project:
    """Make two attempts in which all sources fail."""
    project.add_stage("def process(self, task):\n    raise ValueError('no')")
    project.spec["stages"][-1]["name"] = LONG
    project.spec["quarantine"] = {"after": 10}
    project.save()
    for _ in range(2):
        run()
    return project


def find_too_long(text: str, width: int) -> list[str]:
    """Return lines that are too long although they could be wrapped, unlike paths and digests."""
    lines = text.splitlines()
    return [
        line for line in lines if len(line) > width and max(map(len, line.split())) <= width - 40
    ]


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("width", [80, 200])
def test_a_table_fits_the_terminal(
    command: str, width: int, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fitted = call(*command.split()).stdout
    # The terminal wraps the sentences before and after the table of a summary.
    table = fitted.split("\n\n")[1] if command.startswith("drive") else fitted
    assert table
    assert find_too_long(table, width) == []


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("command", SAME_TWICE)
def test_overlong_cells_continue_below(
    command: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = call(*command.split()).stdout
    monkeypatch.setenv("COLUMNS", "80")
    fitted = call(*command.split()).stdout
    assert sorted(fitted.split()) == sorted(whole.split())


@pytest.mark.usefixtures("failing")
def test_a_table_of_attempts_at_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("attempts", "pipeline.yaml").stdout.splitlines()
    assert lines[0].split() == HEAD.split()
    assert lines[1].strip() == "message"
    assert re.match(r"1 +first +Run +20", lines[2])
    assert re.match(r"    3 of 3 sources failed; another attempt would retry them", lines[3])


@given(
    rows=st.integers(1, 4).flatmap(
        lambda count: st.lists(
            st.lists(st.text("ab ", max_size=60), min_size=count, max_size=count), min_size=1
        )
    ),
    left=st.integers(0, 5),
    width=st.integers(70, 90),
)
def test_law_no_word_is_lost_and_no_line_is_too_long(
    rows: list[list[str]], left: int, width: int
) -> None:
    texts = list(align(rows, left, width))
    assert len(texts) == len(rows)
    for row, text in zip(rows, texts, strict=True):
        assert text.split() == " ".join(row).split()
        assert all(len(line) <= width for line in text.splitlines())
    if all(len(" ".join(row)) < width / 6 for row in rows):
        assert texts == list(align(rows, left))


def test_a_table_wraps_if_one_letter_does_not_fit() -> None:
    rows = [("stage", "tasks in", "rows"), ("read", "12,345", "678")]
    whole = ["stage  tasks in  rows", "read     12,345   678"]
    assert list(align(rows, 1, 21)) == whole
    assert list(align(rows, 1, 20)) == ["stage  tasks in\n    rows", "read     12,345\n     678"]


def test_a_last_text_continues_below_its_own_start() -> None:
    rows = [("pipeline", "default/notes"), ("ledger", "one two three four five six seven eight")]
    assert list(align(rows, 2, 36)) == [
        "pipeline  default/notes",
        "ledger    one two three four five\n          six seven eight",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_live_table_drops_columns_and_never_digits(width: int) -> None:
    for picture in (draw("notes", BUSY), draw_top(TopFacts("default/notes", live=BUSY))):
        out = io.StringIO()
        Console(file=out, width=width).print(picture, highlight=False)
        text = out.getvalue()
        assert find_too_long(text, width) == []
        rows = [line.split() for line in text.splitlines() if line.startswith("parquet")]
        assert rows
        assert all("…" not in cell for cell in rows[0])
        assert "12,345,678" in rows[0]
        (head,) = [line for line in text.splitlines() if line.startswith("stage")]
        assert "waiting" in head
        assert "oldest" in head or width == 60  # shows stages that hang


def test_a_pipe_has_no_width_limit_and_a_terminal_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert find_width() is None
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert find_width() == shutil.get_terminal_size().columns
    monkeypatch.setenv("COLUMNS", "123")
    assert find_width() == 123
