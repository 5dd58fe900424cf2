"""The tutorial and the journeys: write their files, run their commands, compare the outputs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from document_blocks import ROOT, read_blocks, run_in
from fake_model import FakeModel, serve
from helm_program import NoHelmError, find_helm

ELSEWHERE = "docs/journeys/contributor.md"  # test_contributor.py follows it in a copy
PAGES = [
    "docs/tutorial.md",
    *sorted(
        {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/journeys/*.md")}
        - {ELSEWHERE}
    ),
]
SERVER = "http://127.0.0.1:8000/v1"  # the address of a model on the pages
EXIT_CODE = re.compile(r"\[exit code (\d+)\]")


class Command(NamedTuple):
    """A command of a page, its expected output, and its exit code."""

    words: list[str]
    output: list[str]
    code: int


def read_commands(block: str) -> Iterator[Command]:
    """Yield the commands of a console block, each with its output lines."""
    for part in re.split(r"(?m)^\$ ", block)[1:]:
        line, _, output = part.partition("\n")
        lines = output.splitlines()
        ends = [found for found in map(EXIT_CODE.fullmatch, lines) if found]
        shown = [each for each in lines if not EXIT_CODE.fullmatch(each)]
        yield Command(shlex.split(line), shown, int(ends[0][1]) if ends else 0)


def matches(output: list[str], expected: list[str]) -> bool:
    """Return whether lines match; `…` stands for any text, and alone on a line for any lines."""
    lines = [r"(?:.*\n)*?" if line == "…" else f"{_match_line(line)}\n" for line in expected]
    return re.fullmatch("".join(lines), "".join(f"{line}\n" for line in output)) is not None


def _match_line(line: str) -> str:
    """Return a pattern of a line that accepts any width of the gaps between columns."""
    return "".join(
        ".*" if part == "…" else r" +" if part.isspace() else re.escape(part)
        for part in re.split(r"(…| {2,})", line)
    )


@pytest.mark.parametrize(
    ("output", "expected", "is_match"),
    [
        ("a\nb", "a\nb", True),
        ("a\nb", "a", False),
        ("a 5.1 s", "a … s", True),
        ("a 5.1 h", "a … s", False),
        ("x\ny\nb", "…\nb", True),
        ("b", "…\nb", True),
        ("x\ny", "…\nb", False),
        ("rows     10", "rows  10", True),
        ("rows     11", "rows  10", False),
    ],
)
def test_a_different_output_is_detected(output: str, expected: str, is_match: bool) -> None:
    assert matches(output.splitlines(), expected.splitlines()) is is_match


def test_journey_pages_are_found() -> None:
    assert len(PAGES) >= 2


def answer(prompt: str) -> str:
    """Answer as a model that writes a question and its answer about a text with words."""
    text = prompt.strip().rpartition("\n")[2]
    if not (prompt.startswith("Write a question") and text.strip("?")):
        return "I can't do that."
    return json.dumps({"question": f"What does this mean: {text[:40]}", "answer": text[:80]})


@pytest.fixture
def model() -> Iterator[str]:
    """Yield the address of a server that answers as the model of the pages."""
    with serve(FakeModel(answer=answer, model="my-model")) as url:
        yield url


def prepare(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide the parts of a checkout, and the programs, that a page uses."""
    text = (ROOT / page).read_text("utf-8")
    if "charts/strandline" in text:
        (folder / "charts").symlink_to(ROOT / "charts")
    if "$ helm" in text:
        try:
            program = find_helm()
        except NoHelmError as error:
            pytest.skip(str(error))
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.more
@pytest.mark.parametrize("page", PAGES)
def test_a_journey_matches_its_page(
    page: str, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(page, tmp_path, monkeypatch)
    commands = 0
    for block in read_blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.code.replace(SERVER, model))
            continue
        for command in read_commands(block.code):
            words = [sys.executable if word == "python" else word for word in command.words]
            done = run_in(tmp_path, *words)
            # Notes appear while a command works, and its result at the end.
            output = (done.stderr + done.stdout).splitlines()
            assert done.returncode == command.code, (command.words, output)
            assert matches(output, command.output), "\n".join([*command.words, *output])
            commands += 1
    assert commands > 3
