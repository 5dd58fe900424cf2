"""The guide's steps for a new filter work in a copy of the repository, and its tests pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from document_blocks import ROOT, read_blocks
from repository_copy import RepositoryCopy

PAGE = "docs/contributing/adding-a-filter.md"
# The guide's commands, and the programs to run instead: `make` would first install an environment.
COMMANDS = {
    "make crds": [["pipelines/stage_index.py"], ["crds/generate.py"]],
    "make reference": [["docs/stage_table.py"]],
    ".venv/bin/pytest --update-golden tests/face": [["-m", "pytest", "--update-golden"]],
    "make room R=packs": [["-m", "ruff", "check"], ["-m", "ruff", "format", "--check"]],
    "make quick": [],
}
PYTEST = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider")
GOLDEN = "tests/face/test_public_names.py"
# Tests that fail if one of a filter's files is missing or outdated.
TESTS = (
    "tests/packs/text/test_shouting.py",
    "tests/packs/test_marks.py",
    "tests/packs/test_catalogue.py",
    "tests/docs/test_documented_stages.py",
    "tests/docs/test_python_reference.py",
    "tests/docs/test_stage_table.py",
    "tests/api/test_generated_files.py",
    "tests/architecture/test_rooms.py",
    "tests/architecture/test_words.py",
    "tests/architecture/test_module_shape.py",
    GOLDEN,
)


def read_table() -> dict[str, str]:
    """Return the files that the guide lists, and the command that writes each."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^\| `([^`]+)` \| (.+) \|$", text))


@pytest.mark.more
def test_a_filter_made_by_the_guide_passes_its_tests(tmp_path: Path) -> None:
    copy = RepositoryCopy(tmp_path)
    copy.write_files(PAGE)
    by_hand = {name for name, writer in read_table().items() if writer.startswith("you:")}
    assert copy.list_changed() == by_hand
    (console,) = [block.code for block in read_blocks(PAGE) if block.language == "console"]
    for line in console.splitlines():
        for words in COMMANDS[line.partition("#")[0].strip()]:
            copy.python(*words, *((*PYTEST, GOLDEN) if "pytest" in words else ()))
    assert copy.list_changed() == set(read_table())
    copy.python("-m", "pytest", *PYTEST, "--hypothesis-profile=quick", *TESTS)
