"""Every code block in README and docs runs as a reader would run it."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from document_blocks import COMMENT, DIFFERENT, DOCUMENTS, ROOT, read_blocks, run_in, write_files
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="runs every block of every page")


def check_requirement(words: list[str]) -> None:
    """Check that a `pip install` line names this checkout with existing extras. Install nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first, *others = words
    found = re.fullmatch(r"\.\[([\w,-]+)\]", first)
    assert found, first
    extras = set(found[1].split(","))
    assert extras <= project["optional-dependencies"].keys(), first
    assert "runtime" in extras
    assert all(map(Requirement, others))


@pytest.mark.more
def test_a_checkout_is_installed_by_its_path_alone(tmp_path: Path) -> None:
    """README's first command works, even without published dependencies."""
    target = tmp_path / "there"
    words = ["install", "--no-deps", "--quiet", "--target", str(target), "."]
    done = run_in(ROOT, sys.executable, "-m", "pip", *words)
    assert done.returncode == 0, done.stderr
    assert (target / "bin/strandline").exists()
    assert {"strandline", "strandline_api"} <= {path.name for path in target.iterdir()}


def test_no_page_installs_an_unpublished_package() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.*")]:
        if page.suffix in {".md", ".ipynb"}:
            assert "pip install 'strandline" not in page.read_text(), page.name


# End without cleanup: about one process in a hundred aborts if it ends while Arrow starts a thread.
END = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_blocks_run_in_document_order(document: str, tmp_path: Path) -> None:
    write_files("README.md", tmp_path)
    shutil.copytree(ROOT / "pipelines/examples", tmp_path / "pipelines/examples")
    blocks = [block for block in read_blocks(document) if block.language != "text"]
    assert blocks
    for block in blocks:
        if block.file:
            (tmp_path / block.file).write_text(block.code)
        commands = []
        if block.language == "python":
            commands = [([sys.executable, "-c", block.code + END], 0)]
        elif block.language == "bash":
            # As in a shell, `#` within a word, such as FILE#NAME, does not start a comment.
            lines = [
                (COMMENT.sub("", line).split(), int(line.endswith(DIFFERENT)))
                for line in block.code.splitlines()
            ]
            commands = [(line, code) for line, code in lines if line]
        for command, code in commands:
            if command[:2] == ["pip", "install"]:
                check_requirement(shlex.split(" ".join(command[2:])))
                continue
            if command[0] == "make":  # check only that the target exists: other tests run it
                done = run_in(ROOT, "make", "--dry-run", *command[1:])
            else:
                done = run_in(tmp_path, *command)
            assert done.returncode == code, (command, done.stdout, done.stderr)


def test_the_stages_of_the_guide_behave_as_described(tmp_path: Path) -> None:
    write_files("docs/stages.md", tmp_path)
    write_files("docs/stateful.md", tmp_path)
    program = """
import io
from pathlib import Path
import pyarrow as pa
from lengths import TextLengths
from shapes import Score, SplitByHundred
from sinks import JsonArray
from sources import Days
from strandline import FailedTask, NoneTask, Task

texts = pa.table({"text": ["a"] * 250})
parts = SplitByHundred().process(Task(texts))
assert [part.num_rows for part in parts] == [100, 100, 50]
assert len(SplitByHundred(rows=50).process(Task(texts))) == 5

score = Score()
score.setup()
answers = score.process_batch([Task(texts), Task(texts.slice(0, 1)), Task(pa.table({"n": [1]}))])
assert [type(answer) for answer in answers] == [Task, NoneTask, FailedTask]
assert score.counters == {"dropped: too few rows": 1}

lengths = TextLengths()
lengths.setup()
for words in ("a", "a b", "a"):
    assert lengths.process(Task(pa.table({"text": [words]}))).num_rows == 1
    Path(f"{words}.piece").write_bytes(lengths.flush())
    assert lengths.flush() is None
TextLengths.merge([Path("a.piece"), Path("a b.piece")], Path("first"))
TextLengths.merge([Path("first"), Path("a.piece")], Path("text-lengths.merged"))
lengths.artifacts(Path("text-lengths.merged"), Path())
assert Path("text-lengths.json").read_text() == '{"1": 2, "2": 1}'

assert [source.key for source in Days().list_sources()][0] == "2026-01-01"
file = io.BytesIO()
JsonArray().write(Task(texts.slice(0, 1)), file)
assert file.getvalue() == b'[{"text": "a"}]'
"""

    done = run_in(tmp_path, sys.executable, "-c", program)

    assert done.returncode == 0, done.stderr


def test_links_between_documents_have_targets() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for document in documents:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / link).exists(), (document.name, link)


def test_every_exit_code_is_explained() -> None:
    text = (ROOT / "docs/failures.md").read_text()
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}

    assert explained == {int(code) for code in ExitCode}


def test_all_mentions_of_the_oldest_kubernetes_agree() -> None:
    chart = yaml.safe_load((ROOT / "charts/strandline/Chart.yaml").read_text(encoding="utf-8"))
    promised = re.search(r"[0-9]+\.[0-9]+", chart["kubeVersion"])
    assert promised is not None

    named = {
        page.name: re.findall(r"Kubernetes (1\.[0-9]+) or newer", page.read_text(encoding="utf-8"))
        for page in (ROOT / "docs").glob("*.md")
    }

    assert {version for found in named.values() for version in found} == {promised[0]}
    assert named["install.md"]
    assert named["kubernetes.md"]
