"""`strandline diff`: what it compares, its output in each form, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from report_builders import Outline

WORDS = "The keeper of the lighthouse climbed the stairs and trimmed the wick with care again"


@pytest.fixture
def corpus(project: Project, run: Call) -> Project:
    """Return a project with a filter, which ran once. Pages have 4 to 15 words."""
    lines = [
        json.dumps({"key": f"page-{count}", "text": " ".join(WORDS.split()[:count]), "n": count})
        for count in range(4, 16)
    ]
    (project.path / "pages").mkdir()
    (project.path / "pages/a.jsonl").write_text("\n".join(lines[:6]))
    (project.path / "pages/b.jsonl").write_text("\n".join(lines[6:]))
    project.spec.update(
        {
            "onChange": "Redo",
            "source": {"use": "jsonl-files", "with": {"paths": ["pages/*.jsonl"]}},
            "stages": [
                {"use": "read-jsonl"},
                {"use": "gopher-quality", "with": {"minDocWords": 6}},
            ],
            "sink": {"use": "parquet"},
        }
    )
    project.save()
    assert run().exit_code == 0
    return project


def change_limit(project: Project, run: Call, limit: int = 9) -> None:
    project.spec["stages"][1]["with"]["minDocWords"] = limit
    project.save()
    assert run().exit_code == 0


def read_json(call: Call, *words: str, code: int = 1) -> dict[str, Any]:
    result = call("diff", *words, "--json")
    assert code == result.exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["isDifferent"] is bool(code)
    return found


def count(found: dict[str, Any], stage: str | None, name: str) -> tuple[int, int]:
    (each,) = [each for each in found["counts"] if (each["stage"], each["name"]) == (stage, name)]
    return each["a"], each["b"]


def test_a_changed_limit_is_explained(corpus: Project, run: Call, call: Call) -> None:
    shutil.copytree("strandline-data", "before")
    change_limit(corpus, run)
    found = read_json(call, "before/notes", "strandline-data/notes")
    assert ["gopher-quality.with.minDocWords: 6 -> 9"] == found["recipe"]
    assert "gopher-quality" == found["firstStage"]
    assert (2, 2) == count(found, None, "sources finished")
    assert (12, 12) == count(found, "gopher-quality", "rows in")
    before, after = count(found, "gopher-quality", "rows out")
    assert (before, after) == count(found, None, "rows")
    dropped = count(found, "gopher-quality", "dropped: gopher_short_doc")
    assert dropped == (12 - before, 12 - after)
    rows = found["rows"]
    assert (0, 0, 3) == (rows["changed"], rows["added"], rows["removed"])
    assert (after, [before, after]) == (rows["equal"], rows["read"])
    keys = {row["key"] for row in rows["samples"]["removed"]}
    assert keys == {"page-6", "page-7", "page-8"}
    text = call("diff", "before/notes", "strandline-data/notes").stdout
    assert "  gopher-quality.with.minDocWords: 6 -> 9\n" in text
    assert f"rows, matched by 'key': {after} equal, 0 changed, 0 added, 3 removed\n" in text
    assert "  removed: page-7\n    text: The keeper of the lighthouse climbed the\n" in text


def test_changed_and_added_rows_are_shown(corpus: Project, run: Call, call: Call) -> None:
    shutil.copytree("strandline-data", "before")
    path = corpus.path / "pages/b.jsonl"
    more = json.dumps({"key": "page-16", "text": f"{WORDS} tonight", "n": 16})
    path.write_text(path.read_text().replace("lighthouse", "old lighthouse") + f"\n{more}")
    assert run().exit_code == 0
    result = call("diff", "before/notes", "strandline-data/notes", "--samples", "1")
    assert "recipe: equal\n" in result.stdout
    assert ": 4 equal, 6 changed, 1 added, 0 removed\n" in result.stdout
    assert "of the lighthouse climbed" in result.stdout
    assert "of the old lighthouse climbed" in result.stdout
    assert "  added: page-16\n" in result.stdout


def test_an_earlier_publication_has_counts_and_a_recipe(
    corpus: Project, run: Call, call: Call
) -> None:
    change_limit(corpus, run)
    found = read_json(call, "strandline-data/notes@1", "strandline-data/notes")
    assert ["gopher-quality.with.minDocWords: 6 -> 9"] == found["recipe"]
    assert (10, 7) == count(found, "gopher-quality", "rows out")
    assert (2, 2) == count(found, None, "sources finished")
    assert found["rows"] is None
    assert found["rowsNotCompared"].startswith("A: a publication has counts but no rows")
    names = ("strandline-data/default/notes/attempts/0001", "strandline-data/notes@0001/p0001")
    assert found["counts"] == read_json(call, names[0], "strandline-data/notes")["counts"]
    read_json(call, *names, code=0)


@pytest.mark.parametrize(
    "name",
    [
        "strandline-data/notes@1",
        "strandline-data/default/notes",
        "strandline-data/default/notes/latest",
        "strandline-data/default/notes/attempts/0001/p0001",
        "strandline-data/default/notes/output",
        "pushed",
        "copy",
    ],
)
def test_names_of_the_same_data_set_are_equal(name: str, corpus: Project, call: Call) -> None:
    assert call("push", "pipeline.yaml", "--to", "pushed").exit_code == 0
    shutil.copytree(corpus.folder / "output", "copy")
    found = read_json(call, name, "strandline-data/notes", code=0)
    assert (10, 0) == (found["rows"]["equal"], found["rows"]["changed"])
    assert (name == "copy") is (found["recipe"] is None)


def test_a_copy_is_not_taken_for_the_present_outputs(
    corpus: Project, run: Call, call: Call
) -> None:
    shutil.copytree(corpus.folder / "output", "copy")
    change_limit(corpus, run)
    found = read_json(call, "copy", "strandline-data/notes")
    assert 3 == found["rows"]["removed"]
    assert ["no ledger on the volume strandline-data (--volume) writes there"] == found["a"][
        "notes"
    ]


def test_two_pushes_are_compared_without_a_volume(corpus: Project, run: Call, call: Call) -> None:
    call("push", "pipeline.yaml", "--to", "pushed")
    change_limit(corpus, run)
    call("push", "pipeline.yaml", "--to", "pushed")
    new = json.loads(Path("pushed/latest.json").read_text())["revision"]
    (old,) = {path.name for path in Path("pushed").iterdir() if path.is_dir()} - {new}
    shutil.rmtree("strandline-data")
    found = read_json(call, f"pushed/{old}", "pushed")
    assert ["gopher-quality.with.minDocWords: 6 -> 9"] == found["recipe"]
    assert (3, (10, 7)) == (found["rows"]["removed"], count(found, None, "rows"))


def test_two_files_have_recipes_only(corpus: Project, call: Call) -> None:
    corpus.spec["stages"].insert(1, {"use": "normalise-text"})
    (corpus.path / "other.yaml").write_text(json.dumps(corpus.document))
    found = read_json(call, "pipeline.yaml", "other.yaml")
    assert 'normalise-text.use: (none) -> "normalise-text"' in found["recipe"]
    assert "normalise-text" == found["firstStage"]
    assert ([], None) == (found["counts"], found["rows"])
    assert "A: a pipeline file has no rows" == found["rowsNotCompared"]
    assert 1 == call("diff", "pipeline.yaml", "other.yaml", "--html", "diff.html").exit_code
    assert "rows: not compared: A: a pipeline file" in Outline(Path("diff.html").read_text()).text
    read_json(call, "pipeline.yaml", "strandline-data/notes", code=0)


def test_the_page_shows_the_same(corpus: Project, run: Call, call: Call) -> None:
    shutil.copytree("strandline-data", "before")
    change_limit(corpus, run)
    words = ("before/notes", "strandline-data/notes", "--html", "diff.html")
    text = call("diff", *words).stdout
    page = Path("diff.html").read_text()
    outline = Outline(page)
    assert not {"script", "img", "link", "iframe"}.intersection(outline.tags)
    assert "default-src 'none'" in page
    for shown in ("gopher-quality.with.minDocWords: 6 -> 9", "3 removed", "page-7"):
        assert shown in text
        assert shown in outline.text


def test_text_of_rows_is_no_markup_and_no_escape_sequence(
    corpus: Project, run: Call, call: Call
) -> None:
    shutil.copytree("strandline-data", "before")
    harm = "<script>alert(1)</script>\x1b[2J"
    line = json.dumps({"key": harm, "text": f"{WORDS} tonight", "n": 1})
    (corpus.path / "pages/c.jsonl").write_text(line)
    assert run().exit_code == 0
    words = ("before/notes", "strandline-data/notes", "--html", "diff.html")
    result = call("diff", *words)
    assert "added: <script>alert(1)</script>\\x1b[2J" in result.stdout
    assert "\x1b" not in result.stdout + Path("diff.html").read_text()
    assert "script" not in Outline(Path("diff.html").read_text()).tags


def test_outputs_of_a_later_attempt_are_not_taken_for_a_publication(
    corpus: Project, run: Call, call: Call
) -> None:
    change_limit(corpus, run)
    shutil.rmtree(corpus.folder / "attempts/0002/p0001")
    found = read_json(call, "strandline-data/notes@1", "strandline-data/notes")
    assert (10, 7) == count(found, None, "rows")
    assert found["rows"] is None


def test_companion_files_have_no_rows_of_their_own(project: Project, run: Call, call: Call) -> None:
    project.spec["stages"] = [{"use": "read-files"}]
    project.spec["sink"] = {"use": "webdataset", "with": {"key": "key"}}
    project.save()
    assert run().exit_code == 0
    assert list(project.folder.rglob("*.parquet"))
    found = read_json(call, "strandline-data/notes", "strandline-data/notes", code=0)
    assert (3, [3, 3], []) == (
        found["rows"]["equal"],
        found["rows"]["read"],
        found["a"]["notes"],
    )


def test_formats_without_rows_are_named(corpus: Project, run: Call, call: Call) -> None:
    corpus.spec["sink"] = {"use": "mds"}
    corpus.spec["stages"].append({"use": "select-columns", "with": {"columns": ["key", "text"]}})
    corpus.save()
    assert run("--volume", "other").exit_code == 0
    found = read_json(call, "strandline-data/notes", "other/notes")
    assert "can't be compared by row" in found["rowsNotCompared"]
    assert found["rowsNotCompared"].startswith("B: files such as ")
    assert found["counts"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("missing", "pipeline.yaml"), 64, "missing: nothing to compare there; name a pipeline"),
        (("in", "pipeline.yaml"), 64, "in: nothing to compare there; name a pipeline file"),
        (("odd://x", "pipeline.yaml"), 64, "odd://x: unknown protocol odd://"),
        (("memory://none", "pipeline.yaml"), 64, "memory://none: nothing to compare there"),
        (("strandline-data/notes@9", "pipeline.yaml"), 64, "publications: 0001/p0001"),
        (
            ("strandline-data/notes", "strandline-data/notes", "--key", "url"),
            64,
            "notes: no row has the key column 'url'; choose one with --key: key, n, text",
        ),
        (("pipeline.yaml", "pipeline.yaml", "--html", "no/a.html"), 64, "can't be written"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: tuple[str, ...], code: int, sentence: str, corpus: Project, call: Call
) -> None:
    result = call("diff", *words)
    assert (code, "") == (result.exit_code, result.stdout)
    assert sentence in read_errors(result)
    assert 1 == len(result.stderr.splitlines())


def test_a_missing_file_of_outputs_is_named(corpus: Project, call: Call) -> None:
    for path in (corpus.folder / "output").rglob("*.parquet"):
        path.unlink()
    result = call("diff", "strandline-data/notes", "strandline-data/notes")
    assert 65 == result.exit_code
    assert ".parquet: the rows can't be read" in read_errors(result)


def test_empty_outputs_are_equal(corpus: Project, run: Call, call: Call) -> None:
    change_limit(corpus, run, 1000)
    found = read_json(call, "strandline-data/notes", "strandline-data/notes", code=0)
    assert [0, 0] == found["rows"]["read"]
