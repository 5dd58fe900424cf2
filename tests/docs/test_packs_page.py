"""The steps of the packs page work from an empty folder in a new environment."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from document_blocks import ROOT, read_blocks
from strandline.plan.stages.packs import Pack

PAGE = "docs/packs.md"
PATH = re.compile(r"# ([\w./-]+\.\w+)\n")


def write_files(folder: Path) -> None:
    for block in read_blocks(PAGE):
        if named := PATH.match(block.code):
            path = folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            is_data = block.language == "jsonl"
            path.write_text(block.code[named.end() :] if is_data else block.code)


@pytest.mark.more
def test_a_pack_from_an_empty_folder(tmp_path: Path) -> None:
    write_files(tmp_path)
    (console,) = [block.code for block in read_blocks(PAGE) if block.language == "console"]
    printed = []
    for line in console.splitlines():
        words = [sys.executable if word == "python" else word for word in shlex.split(line)]
        if "install" in words:  # install this checkout, with the library versions of its tests
            words[words.index("strandline[runtime]")] = f"{ROOT}[runtime]"
            words += ["--constraint", str(ROOT / "constraints.txt")]
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        printed.append(done.stdout)
    assert "Adds a column with the number of emoji in a text." in printed[2]
    assert "adds: emoji" in printed[2]
    assert "pack: emoji, https://example.com/strandline-emoji" in printed[2]
    (output,) = tmp_path.glob("strandline-data/**/*.jsonl")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(row["text"], row["emoji"]) for row in rows] == [("Low tide at six 🌊", 1)]


def test_the_page_describes_each_field_of_a_pack() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    table = text.partition("## Fields of a pack")[2]
    assert re.findall(r"(?m)^\| `(\w+)` \|", table) == [*Pack.__dataclass_fields__]
