"""`strandline init` writes runnable pipelines. For a misspelled command, one is suggested."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cli_project import Call, Project, read_errors
from strandline.cli.commands.pipelines.init import (
    DEFAULT_INPUTS,
    find_contents,
    make_name,
    render_template,
)
from strandline_api.names import SUBDOMAIN

SENTENCES = (
    "The tide comes in twice a day and leaves a line of weed on the sand. "
    "People who walk there in the morning find shells, ropes and pieces of wood. "
    "What the sea has brought is gone with the next storm, and another line is drawn. "
    "That is how far the water came, and it can be seen by all who pass. "
    "Children build walls against it, although they know that no wall will stay."
)


def write_documents(folder: Path) -> None:
    (folder / "tide.txt").write_text(SENTENCES)


def write_code(folder: Path) -> None:
    body = '"""Do what is done with tides every day."""\n    high = 1\n    return high\n'
    (folder / "tides.py").write_text(f"def measure():\n    {body}")


def write_images(folder: Path) -> None:
    Image.new("RGB", (8, 8), (200, 100, 50)).save(folder / "sand.png")


def write_jsonl(folder: Path) -> None:
    (folder / "tides.jsonl").write_text(json.dumps({"text": SENTENCES}) + "\nno JSON\n")


def write_parquet(folder: Path) -> None:
    pq.write_table(pa.table({"text": [SENTENCES, SENTENCES]}), folder / "tides.parquet")


def write_rows(folder: Path) -> None:
    (folder / "tides.csv").write_text(f'text\n"{SENTENCES}"\n')
    write_jsonl(folder)
    write_parquet(folder)
    write_documents(folder)
    (folder / "README.md").write_text("About the tides.")


INPUTS: dict[str, Callable[[Path], None]] = {
    "documents": write_documents,
    "code": write_code,
    "images": write_images,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "rows": write_rows,
}


@pytest.mark.parametrize("kind", DEFAULT_INPUTS)
def test_written_pipelines_are_valid_and_keep_good_rows(
    kind: str, project: Project, call: Call, run: Call
) -> None:
    folder = project.path / "data"
    folder.mkdir()
    INPUTS[kind](folder)
    (project.path / "pipeline.yaml").unlink()
    result = call("init", kind, "--input", "data/**/*")
    assert result.stdout == "wrote pipeline.yaml; next: strandline plan pipeline.yaml --list\n"
    assert call("validate", "pipeline.yaml").exit_code == 0
    outcome = run("--json")
    assert outcome.exit_code == 0, outcome.stderr
    sink = json.loads(outcome.stdout.splitlines()[-1])["stages"][-1]
    assert sink["tasksIn"] > 0


@pytest.mark.parametrize("kind", DEFAULT_INPUTS)
def test_without_an_input_the_defaults_are_valid(kind: str, project: Project, call: Call) -> None:
    assert call("init", kind, "--out", "first.yaml").exit_code == 0
    assert call("validate", "first.yaml").exit_code == 0
    written = yaml.safe_load((project.path / "first.yaml").read_text())
    assert written["metadata"]["name"] == "first"
    assert written["spec"]["source"]["with"]["paths"] == [DEFAULT_INPUTS[kind]]


def test_the_default_input_for_code_exists_everywhere(project: Project, call: Call) -> None:
    call("init", "code", "--out", "functions.yaml")
    plan = call("plan", "functions.yaml", "--list", "--json")
    assert json.loads(plan.stdout)["sources"]["total"] > 0, project.path


def test_a_file_that_exists_is_kept(project: Project, call: Call) -> None:
    before = (project.path / "pipeline.yaml").read_text()
    result = call("init", "code")
    assert result.exit_code == 64
    assert "pipeline.yaml already exists; name another file with --out" in read_errors(result)
    assert (project.path / "pipeline.yaml").read_text() == before


def test_a_missing_folder_is_reported(project: Project, call: Call) -> None:
    result = call("init", "code", "--out", "missing/first.yaml")
    assert result.exit_code == 64
    assert "missing/first.yaml can't be written: No such file" in read_errors(result)
    assert not (project.path / "missing").exists()


@pytest.mark.parametrize("kind", DEFAULT_INPUTS)
def test_the_files_of_a_folder_determine_the_kind(
    kind: str, project: Project, call: Call, run: Call
) -> None:
    folder = project.path / "some [data]"
    folder.mkdir()
    INPUTS[kind](folder)
    (folder / ".DS_Store").touch()
    (project.path / "pipeline.yaml").unlink()
    result = call("init", "some [data]")
    assert result.exit_code == 0, result.output
    first, last = result.stdout.splitlines()
    assert first.startswith("some [data]: 1 .")
    assert ("; left out: 1 .md" in first) is (kind == "rows")
    assert last == "wrote pipeline.yaml; next: strandline plan pipeline.yaml --list"
    document = yaml.safe_load((project.path / "pipeline.yaml").read_text())
    expected = yaml.safe_load(render_template(kind, ("x",), Path("pipeline.yaml")))
    assert document["spec"]["stages"] == expected["spec"]["stages"]
    # Only the reader of rows counts other files, so only its source lists them.
    paths = document["spec"]["source"]["with"]["paths"]
    assert (paths == ["some [[]data]/**/*"]) is (kind == "rows")
    outcome = run("--json")
    assert outcome.exit_code == 0, outcome.stderr
    assert json.loads(outcome.stdout.splitlines()[-1])["stages"][-1]["tasksIn"] > 0


@pytest.mark.parametrize(
    ("endings", "kind", "read"),
    [
        ({".jsonl": 1, ".jsonl.gz": 2, ".md": 9}, "jsonl", (".jsonl", ".jsonl.gz")),
        ({".parquet": 1}, "parquet", (".parquet",)),
        ({".parquet": 1, ".jsonl": 1}, "rows", (".jsonl", ".parquet")),
        ({".txt": 3, ".md": 1}, "documents", (".md", ".txt")),
        ({".txt.gz": 1}, "rows", (".txt.gz",)),
        ({".PNG": 2, ".jpg": 1, ".py": 1}, "images", (".PNG", ".jpg")),
        ({".CSV": 1, ".png": 9}, "rows", (".CSV",)),
    ],
)
def test_endings_determine_the_kind(
    endings: dict[str, int], kind: str, read: tuple[str, ...]
) -> None:
    assert find_contents(endings) == (kind, read)
    assert find_contents({"": 3, ".zip": 1}) is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere",), "'nowhere' is neither a folder nor one of documents, code, images, "),
        (("empty",), "empty: no file has a known ending; the folder has no files; name a KIND"),
        (("zips",), "zips: no file has a known ending; found 1 without an ending, 1 .zip; name a"),
        (("in", "--input", "x"), "--input needs a KIND; in is a folder, which is the input"),
    ],
)
def test_a_folder_without_a_kind_is_reported(
    project: Project, call: Call, words: tuple[str, ...], sentence: str
) -> None:
    for name in ("empty/.DS_Store", "zips/a.zip", "zips/Makefile"):
        (project.path / name).parent.mkdir(exist_ok=True)
        (project.path / name).touch()
    result = call("init", *words, "--out", "first.yaml")
    assert result.exit_code == 64
    assert sentence in read_errors(result)
    assert not (project.path / "first.yaml").exists()


@given(st.text(max_size=80))
def test_law_every_file_name_gives_a_valid_kubernetes_name(stem: str) -> None:
    name = make_name(stem, "code")
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 40


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_law_a_pattern_is_read_back_unchanged(pattern: str) -> None:
    document = yaml.safe_load(render_template("code", (pattern,), Path("first.yaml")))
    assert document["spec"]["source"]["with"]["paths"] == [pattern]


@pytest.mark.parametrize(
    ("word", "nearest"), [("rrun", "run"), ("verifyy", "verify"), ("attemptss", "attempts")]
)
def test_a_misspelled_command_suggests_the_nearest(word: str, nearest: str, call: Call) -> None:
    result = call(word)
    assert result.exit_code == 64
    expected = f"No such command {word!r}. Did you mean {nearest!r}?; see `strandline --help`"
    assert read_errors(result) == expected


def test_an_unknown_command_without_a_match_suggests_none(call: Call) -> None:
    result = call("qqqq")
    assert read_errors(result) == "No such command 'qqqq'; see `strandline --help`"


def test_the_version_is_an_option_too(call: Call) -> None:
    assert call("--version").stdout == call("version").stdout
