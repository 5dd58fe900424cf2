"""The contributor's journey works in a copy of the repository, up to the commit."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from document_blocks import ROOT, read_blocks
from repository_copy import RepositoryCopy
from test_journey_pages import ELSEWHERE, matches, read_commands

# The commit has an author, whatever the machine's settings.
AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "A Contributor"), ("EMAIL", "contributor@example.org"))
}


def lend_environment(folder: Path) -> None:
    """Give the copy this test's environment, as new as if `make` had just installed it."""
    (folder / ".venv").mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    for name in (".runtime", ".installed"):
        (folder / ".venv" / name).touch()
    # Without a cache, mypy takes minutes.
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")


@pytest.mark.more
def test_a_contributors_journey_matches_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RepositoryCopy(tmp_path)
    for name, value in AUTHOR.items():
        monkeypatch.setenv(name, value)
    # Nested runs of pytest and make must not take part in this run.
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "MAKE", "MFLAGS"))]:
        monkeypatch.delenv(name)
    # `make run` curates a sample of the sources; the page's own ARGS take precedence.
    monkeypatch.setenv("ARGS", "--set source.with.limit=20")
    copy.execute("git", "commit", "--quiet", "--message", "start")
    lend_environment(tmp_path)
    first, *rest = [block for block in read_blocks(ELSEWHERE) if block.language == "console"]
    for command in read_commands(first.code):
        output = copy.execute(*command.words).splitlines()
        assert matches(output, command.output), "\n".join([*command.words, *output])
    copy.write_files(ELSEWHERE)
    for block in rest:
        for command in read_commands(block.code):
            output = copy.execute(*command.words).splitlines()
            assert matches(output, command.output), "\n".join([*command.words, *output])
