"""The guide's runs work in a notebook, and an interrupted cell leaves a consistent state."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import psutil
import pytest
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.first(reason="starts Jupyter kernels")

GUIDE = Path(__file__).parents[2] / "docs/notebook.ipynb"
SETUP = """
import time
from pathlib import Path
from strandline import Pipeline, Source, SourceStage, SinkStage, Stage, work

class Numbers(SourceStage):
    def list_sources(self):
        for number in range(40):
            yield Source(f"number {number}", "1", number)

class Slow(Stage):
    def process(self, task):
        Path("working").touch()
        time.sleep(0.25)
        return task

class Text(SinkStage):
    def write(self, task, file):
        file.write(str(task.data).encode())
        Path("written").touch()

stages = [work(Slow(), cpu=0.5, batch_size=1)]
pipeline = Pipeline("keys", source=Numbers(), stages=stages, sink=Text())
"""
RUN = 'outcome = pipeline.run("data", workers=2)\noutcome.message, outcome.attempt'


class Notebook:
    """Runs cells one after another in a kernel, which is a separate process.

    Args:
        folder: working directory of the kernel.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(folder))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=120)

    def begin(self, code: str) -> str:
        """Start a cell."""
        return str(self._client.execute(code))

    def end(self, cell: str) -> list[dict[str, Any]]:
        """Wait until a cell has ended, and return its output."""
        found: list[dict[str, Any]] = []
        while True:
            message = self._client.get_iopub_msg(timeout=300)
            if message["parent_header"].get("msg_id") != cell:
                continue
            if message["content"].get("execution_state") == "idle":
                return found
            found.append({"type": message["msg_type"], **message["content"]})

    def run(self, code: str) -> list[dict[str, Any]]:
        return self.end(self.begin(code))

    def interrupt(self) -> None:
        """Signal all processes of the kernel's group, as the stop button does."""
        self._manager.interrupt_kernel()

    def wait_for(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        for _ in range(6000):
            if (self._folder / name).exists():
                return
            time.sleep(0.02)
        pytest.fail(f"there is no {name} after two minutes")

    def list_children(self) -> list[str]:
        provisioner: Any = self._manager.provisioner
        kernel = psutil.Process(provisioner.pid)
        return [child.name() for child in kernel.children(recursive=True)]

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    notebook = Notebook(tmp_path)
    yield notebook
    notebook.close()


def read_result(outputs: list[dict[str, Any]]) -> str:
    (result,) = [each for each in outputs if each["type"] == "execute_result"]
    return str(result["data"]["text/plain"])


def read_errors(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["ename"], each["evalue"]) for each in outputs if each["type"] == "error"]


def read_drawn(outputs: list[dict[str, Any]]) -> list[str]:
    kinds = {"display_data", "update_display_data"}
    return [each["data"]["text/plain"] for each in outputs if each["type"] in kinds]


def test_the_guide_runs_from_top_to_bottom(tmp_path: Path) -> None:
    document: Any = nbformat.reads(GUIDE.read_text(encoding="utf-8"), 4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in document.cells)  # outputs are machine-specific
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(document, timeout=300, resources=place).execute()
    text = json.dumps(document.cells)
    assert "Files.path: unknown field 'path'; did you mean 'paths'?" in text
    assert "SOURCES_FAILED" in text
    assert "1 parse-documents " in text
    assert "complete: all 21 sources are finished" in text


@pytest.mark.more
def test_an_interrupted_cell_leaves_kernel_ray_and_ledger_usable(notebook: Notebook) -> None:
    assert read_errors(notebook.run(SETUP)) == []

    cell = notebook.begin(RUN)
    notebook.wait_for("written")
    notebook.interrupt()
    stopped = notebook.end(cell)
    ((name, message),) = read_errors(stopped)
    assert name == "KeyboardInterrupt"
    assert "`run` keeps finished sources" in message
    assert "starting" in read_drawn(stopped)[0]
    assert any("stopping: letting work in flight finish" in text for text in read_drawn(stopped))
    assert notebook.list_children() == []

    cell = notebook.begin(RUN)
    notebook.wait_for("working")
    notebook.interrupt()
    time.sleep(0.1)
    notebook.interrupt()
    assert [name for name, _ in read_errors(notebook.end(cell))] == ["KeyboardInterrupt"]
    assert notebook.list_children() == []

    assert read_result(notebook.run(RUN)) == "('complete: all 40 sources are finished', 3)"
    told = notebook.run("outcome.standing.finished < 40, len(outcome.outputs)")
    assert read_result(told) == "(True, 40)"
