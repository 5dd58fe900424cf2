"""A folder with a small pipeline that tests of the command line can modify and break."""

from __future__ import annotations

import copy
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from click.testing import Result

from command_server import execute_strandline, start_command, start_interpreter
from strandline.plan.task import Task
from strandline.storage.outputs.names import NO_OUTPUTS
from strandline_packs.dedup.near.sketch_texts import SketchTexts

Call = Callable[..., Result]

PIPELINE: dict[str, Any] = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "notes"},
    "spec": {
        "source": {"use": "files", "with": {"paths": ["in/*.txt"]}},
        "stages": [{"use": "read-files"}, {"use": "parse-documents"}],
        "sink": {"use": "jsonl"},
    },
}
PROGRESS = re.compile(r"[0-9][^:]*: [0-9,]+ of [0-9,]+\+? sources? ")
_numbers = itertools.count()


def write_signatures(path: Path, texts: dict[str, str]) -> None:
    """Write the signatures that `sketch-texts` gathers from `texts`, which are given by key."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stage = SketchTexts()
    stage.setup()
    stage.process(Task(pa.table({"key": list(texts), "text": list(texts.values())})))
    piece = path.with_suffix(".piece")
    piece.write_bytes(stage.flush() or b"")
    stage.artifacts(piece, path.parent)
    (path.parent / "signatures.parquet").rename(path)


class Project:
    """A folder with `pipeline.yaml` and the files `in/0.txt`, `in/1.txt`, and so on."""

    def __init__(self, path: Path, files: int = 3) -> None:
        self.path = path
        self.document = copy.deepcopy(PIPELINE)
        (path / "in").mkdir()
        for number in range(files):
            (path / f"in/{number}.txt").write_text(f"Note number {number}.\n")
        self.save()

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.document["spec"]
        return spec

    @property
    def folder(self) -> Path:
        return self.path / "strandline-data/default/notes"

    def save(self) -> None:
        (self.path / "pipeline.yaml").write_text(yaml.safe_dump(self.document))

    def write(self, content: str | bytes, name: str = "pipeline.yaml") -> None:
        raw = content.encode() if isinstance(content, str) else content
        (self.path / name).write_bytes(raw)

    def add_stage(self, body: str, base: str = "Stage") -> str:
        """Add a custom stage with class `Own` before the sink, and return its `use`."""
        module = f"own_stage_{next(_numbers)}"
        lines = (
            f"from strandline import FailedTask, NoneTask, {base}, Task\n\n\nclass Own({base}):\n"
        )
        indented = "".join(f"    {line}\n" for line in body.splitlines())
        (self.path / f"{module}.py").write_text(lines + indented)
        self.spec["stages"].append({"use": f"{module}:Own"})
        self.save()
        return f"{module}:Own"

    def start(self, command: str, *words: str, **settings: Any) -> subprocess.Popen[str]:
        """Start a command of one or two words on this pipeline in a separate process."""
        arguments, settings = self._make_call(command, words, settings)
        return start_command(arguments, **settings)

    def start_interpreter(
        self, command: str, *words: str, **settings: Any
    ) -> subprocess.Popen[str]:
        """Start a command in a new interpreter, for tests of the start itself."""
        arguments, settings = self._make_call(command, words, settings)
        return start_interpreter(arguments, **settings)

    def execute(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on this pipeline to its end in a separate process."""
        done = execute_strandline(*command.split(), "pipeline.yaml", *words, cwd=self.path)
        done.stderr = drop_progress(done.stderr)
        return done

    def _make_call(
        self, command: str, words: Sequence[str], settings: Mapping[str, Any]
    ) -> tuple[list[str], dict[str, Any]]:
        arguments = [sys.executable, "-m", "strandline", *command.split(), "pipeline.yaml", *words]
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        own = {"cwd": self.path, "text": True, "stdin": subprocess.DEVNULL, **pipes}
        return arguments, {**own, **settings}

    def wait_for(self, name: str) -> None:
        """Wait until the folder has a file with this name."""
        for _ in range(3000):
            if (self.path / name).exists():
                return
            time.sleep(0.02)
        message = f"there is no {name} after a minute"
        raise TimeoutError(message)

    def list_outputs(self) -> dict[str, bytes]:
        root = self.folder / "output"
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file() and path.name not in NO_OUTPUTS
        }


def drop_progress(text: str) -> str:
    """Remove the progress lines, which only slow machines print."""
    return "".join(line for line in text.splitlines(keepends=True) if not PROGRESS.match(line))


def read_errors(result: Result) -> str:
    """Return the errors on stderr, without file and line. Stderr must contain only sentences.

    tests/run/test_manifest_positions.py has the lines.
    """
    assert "Traceback" not in result.output
    lines = drop_progress(result.stderr).splitlines()
    assert "".join(lines[:1]).startswith("strandline: error: "), result.stderr
    text = "\n".join(line.removeprefix("strandline: error: ") for line in lines)
    text = re.sub(r"(?m)^[\w./-]+\.yaml:\d+: ", "", text)
    return re.sub(r"own_stage_\d+", "own_stage", text)
