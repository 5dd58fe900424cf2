"""Display of the progress of a run that was started from Python."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline import Pipeline
from strandline.cli.views.reporter import NotebookReporter
from strandline.engine.core.ports import RunProgress
from strandline.python.progress import displaying, find_display
from strandline.stages import Files, JsonlSink, ReadFiles


class Cell:
    """The output of a notebook cell; each update replaces the previous one."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.pages: list[str] = []
        self.displays = 0

    def __call__(self, page: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert (raw, display_id) == (True, True)
        self.displays += 1
        self.update(page, raw=raw)
        return self

    def update(self, page: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.drawn.append(page["text/plain"])
        self.pages.append(page["text/html"])


def load_ipython(cell: Cell, *, kernel: object = "a kernel") -> dict[str, Any]:
    """Provide the modules of a notebook kernel; without a kernel, those of IPython's terminal."""
    shell = SimpleNamespace(kernel=kernel) if kernel else SimpleNamespace()
    return {
        "IPython": SimpleNamespace(get_ipython=lambda: shell),
        "IPython.display": SimpleNamespace(display=cell),
    }


def build(folder: Path) -> Pipeline:
    for number in range(3):
        (folder / f"{number}.txt").write_text("x")
    source = Files(paths=[f"{folder}/*.txt"])
    return Pipeline("notes", source=source, stages=[ReadFiles()], sink=JsonlSink())


def test_a_cell_shows_a_run_from_start_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell()
    for name, module in load_ipython(cell).items():
        monkeypatch.setitem(sys.modules, name, module)
    outcome = build(tmp_path).run(tmp_path / "data", engine="inline")
    assert cell.drawn[0] == "notes  0.0 s\nstarting"
    assert cell.drawn[-1].endswith(f" s\n{outcome.message}")
    assert cell.displays == 1  # all other updates replace the first

    build(tmp_path).run(tmp_path / "data", engine="inline", progress=False)
    assert cell.displays == 1


def test_a_cell_shows_a_table_and_messages() -> None:
    cell, seconds = Cell(), [100.0]
    reporter = NotebookReporter(cell, lambda: seconds[0])
    flow: Any = SimpleNamespace(failed=set(), list_stages=list)
    with reporter.watching("notes"):
        seconds[0] = 101.0
        reporter.take(RunProgress(flow, 5, 1, 2, True, []))
        reporter.announce("stopping [soon] & well")
    assert cell.drawn[1] == "notes  1.0 s\n2 of 5 sources finished, 1 skipped; 2.0/s"
    assert cell.drawn[2] == "stopping [soon] & well\nnotes"
    assert cell.pages[2] == "<pre>stopping [soon] &amp; well\nnotes</pre>"


def test_only_a_kernel_has_cells() -> None:
    cell = Cell()
    assert find_display({}) is None
    assert find_display(load_ipython(cell, kernel=None)) is None
    assert find_display(load_ipython(cell)) is cell


@pytest.mark.parametrize(
    ("is_terminal", "is_wanted", "is_debugged", "is_shown"),
    [
        (True, None, False, True),
        (True, None, True, False),  # a debugger uses the terminal
        (True, True, True, True),
        (True, False, False, False),
        (False, None, False, False),
        (False, True, False, True),
    ],
)
def test_without_a_notebook_progress_goes_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    is_wanted: bool | None,
    is_debugged: bool,
    is_shown: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    with displaying("notes", is_wanted=is_wanted, is_debugged=is_debugged) as display:
        display.announce("hello")
    assert ("hello" in capsys.readouterr().err) is is_shown
