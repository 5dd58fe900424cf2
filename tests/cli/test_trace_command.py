"""`strandline trace`: the history of a row, exit codes, and sentences about lost information."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from fake_model import MODEL, FakeModel, serve


def write_rows(project: Project, sink: str = "jsonl", **stages: dict[str, Any]) -> None:
    """Write a pipeline over `in/rows.jsonl`: keys k0 to k29, with n from 0 to 29."""
    lines = [{"key": f"k{at}", "text": "word " * at, "n": at} for at in range(30)]
    (project.path / "in/rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    project.spec["source"] = {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}}
    own = [{"name": name, **stage} for name, stage in stages.items()]
    project.spec["stages"] = [{"use": "read-jsonl"}, *own]
    project.spec["sink"] = {"use": sink}
    project.save()


def keep(where: str, reason: str, **more: Any) -> dict[str, Any]:
    return {"use": "keep-rows", "with": {"where": where, "reason": reason, **more}}


def run(project: Project, *words: str, code: int = 0) -> None:
    done = project.execute("run", "--engine", "inline", *words)
    assert code == done.returncode, done.stderr


def trace(call: Call, *words: str) -> dict[str, Any]:
    """Return the trace in the only pipeline."""
    result = call("trace", "pipeline.yaml", *words, "--json")
    assert 0 == result.exit_code, result.stderr
    (output,) = json.loads(result.stdout)["pipelines"]
    return dict(output)


def list_decisions(output: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(step["stage"], step["decision"], step["reason"]) for step in output["steps"]]


@pytest.mark.parametrize("sink", ["jsonl", "parquet"])
def test_a_kept_row_is_shown_with_source_output_and_publication(
    project: Project, call: Call, sink: str
) -> None:
    write_rows(project, sink, long=keep("n >= 10", "few"))
    run(project)
    output = trace(call, "--row", "k12")
    assert [("read-jsonl", "read", None), ("long", "kept", None)] == list_decisions(output)
    (source,) = output["sources"]
    assert ("in/rows.jsonl", "finished", 1) == (source["key"], source["state"], source["attempt"])
    (place,) = output["outputs"]
    assert 2 == place["row"]
    assert place["file"] in project.list_outputs()
    assert ("0001/p0001", []) == (output["publication"], output["notes"])
    text = call("trace", "pipeline.yaml", "--row", "k12").stdout
    assert text.startswith("row k12\n\nnotes\n")
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_dropped_row_has_its_reason(project: Project, call: Call) -> None:
    write_rows(project, long=keep("n >= 10", "few"))
    run(project)
    output = trace(call, "--row", "k3")
    assert ("long", "dropped", "few") == list_decisions(output)[-1]
    assert ([], None) == (output["outputs"], output["publication"])


def test_a_dropped_row_has_the_measured_value_and_the_limit(project: Project, call: Call) -> None:
    write_rows(project, quality={"use": "gopher-quality", "with": {"minDocWords": 20}})
    run(project)
    output = trace(call, "--row", "k7")
    rule = {"parameter": "minDocWords", "measure": "words", "value": 7, "limit": 20}
    assert rule | {"drops": "below"} == output["steps"][-1]["rule"]
    text = call("trace", "pipeline.yaml", "--row", "k7").stdout
    assert "dropped: gopher_short_doc; words 7, below minDocWords 20" in text


@pytest.mark.parametrize("mark", [{"mark": True}, {"reasonColumn": "why"}])
def test_a_marked_row_is_kept_with_its_reason(
    project: Project, call: Call, mark: dict[str, Any]
) -> None:
    quality = {"use": "gopher-quality", "with": {"minDocWords": 20, **mark}}
    write_rows(project, quality=quality, last=keep("n > 3", "few"))
    run(project)
    output = trace(call, "--row", "k7")
    assert ("quality", "marked", "gopher_short_doc") == list_decisions(output)[1]
    assert (7, 20) == (output["steps"][1]["rule"]["value"], output["steps"][1]["rule"]["limit"])
    assert ("last", "kept", None) == list_decisions(output)[2]
    assert output["outputs"]


def test_a_changed_row_names_its_columns(project: Project, call: Call) -> None:
    write_rows(project)
    project.add_stage(
        "def process(self, task):\n"
        "    rows = task.table.drop_columns(['n']).append_column('m', task.table['n'])\n"
        "    texts = [text.upper() for text in rows['text'].to_pylist()]\n"
        "    return task.replace(rows.set_column(1, 'text', [texts]))"
    )
    run(project)
    step = trace(call, "--row", "k4")["steps"][-1]
    names = ("decision", "changed", "added", "removed")
    assert ["changed", ["text"], ["m"], ["n"]] == [step[name] for name in names]


def test_a_dead_letter_has_its_error(project: Project, call: Call) -> None:
    write_rows(project)
    project.add_stage(
        "def process(self, task):\n"
        "    if 5 in task.table['n'].to_pylist():\n"
        "        raise ValueError('five is odd')\n"
        "    return task"
    )
    project.spec["stages"][-1]["onError"] = "deadLetter"
    project.save()
    run(project)
    output = trace(call, "--row", "k5")
    assert "deadLetter" == output["steps"][-1]["decision"]
    assert "five is odd" in output["steps"][-1]["reason"]
    assert "kept" == trace(call, "--row", "k6")["steps"][-1]["decision"]
    # The stored dead letter is output if the source can't be read again.
    (project.path / "in/rows.jsonl").write_text('{"key": "k5", "text": "other", "n": 6}')
    output = trace(call, "--row", "k5")
    assert "five is odd" in output["steps"][-1]["reason"]
    assert "has changed since attempt 1" in output["sources"][0]["message"]


def test_a_row_that_is_split_is_followed_under_its_new_keys(project: Project, call: Call) -> None:
    lines = [{"key": "a", "text": "one\ntwo"}, {"key": "b", "text": "three"}]
    write_rows(project)
    (project.path / "in/rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    where = {"use": "keep-rows", "with": {"where": "text != 'two'", "reason": "two"}}
    project.spec["stages"] += [
        {"use": "split-paragraphs"},
        {"name": "not-two", **where},
        {"use": "join-paragraphs"},
    ]
    project.save()
    run(project)
    output = trace(call, "--row", "a")
    assert [
        ("read-jsonl", "read", 1, 1),
        ("split-paragraphs", "became", 1, 2),
        ("not-two", "kept", 1, 1),
        ("not-two", "dropped", 1, 0),
        ("join-paragraphs", "became", 1, 1),
    ] == [
        (step["stage"], step["decision"], step["rows"], step["becomes"]) for step in output["steps"]
    ]
    assert [0] == [each["row"] for each in output["outputs"]]


def test_a_duplicate_names_the_row_that_is_kept(project: Project, call: Call) -> None:
    write_rows(project, once={"use": "drop-duplicates", "with": {"within": "task"}})
    rows = [
        {"key": key, "text": text, "n": 1} for key, text in (("a", "x"), ("b", "y"), ("c", "x"))
    ]
    (project.path / "in/rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run(project)
    step = trace(call, "--row", "c")["steps"][-1]
    assert ("dropped", "a") == (step["decision"], step["retained"])


def test_a_row_is_followed_after_its_key_is_removed(project: Project, call: Call) -> None:
    columns = {"use": "select-columns", "with": {"columns": ["text", "n"]}}
    write_rows(project, columns=columns, long=keep("n >= 10", "few"))
    run(project)
    output = trace(call, "--row", "k12")
    assert [("columns", "changed"), ("long", "kept")] == [
        each[:2] for each in list_decisions(output)[1:]
    ]
    assert ([2], []) == ([each["row"] for each in output["outputs"]], output["notes"])
    assert ("long", "dropped", "few") == list_decisions(trace(call, "--row", "k3"))[-1]


@pytest.mark.parametrize("sink", ["jsonl", "mds", "csv"])
def test_a_row_without_a_key_is_named_by_its_number(
    project: Project, call: Call, sink: str
) -> None:
    write_rows(project, sink, long=keep("n >= 10", "few"))
    lines = [{"key": None, "text": "word", "n": at} for at in range(30)]
    (project.path / "in/rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run(project)
    output = trace(call, "--source", "in/rows.jsonl", "--number", "12")
    assert ("long", "kept", None) == list_decisions(output)[1]
    assert [2 if sink != "csv" else None] == [each["row"] for each in output["outputs"]]
    output = trace(call, "--source", "in/rows.jsonl", "--number", "3")
    assert ("long", "dropped", "few") == list_decisions(output)[-1]


def test_a_source_is_shown_without_a_row(project: Project, call: Call) -> None:
    write_rows(project, long=keep("n >= 10", "few"))
    run(project)
    output = trace(call, "--source", "in/rows.jsonl")
    assert [("long", "dropped", "few")] == list_decisions(output)
    assert (10, 1) == (output["steps"][0]["rows"], len(output["outputs"]))


@pytest.mark.parametrize(
    "words", [("--row", "k99"), ("--source", "in/none.jsonl"), ("--row", "k1", "--source", "none")]
)
def test_an_unknown_row_has_an_exit_code_of_its_own(
    project: Project, call: Call, words: tuple[str, ...]
) -> None:
    write_rows(project)
    run(project)
    result = call("trace", "pipeline.yaml", *words)
    assert (2, "") == (result.exit_code, result.stdout)
    assert 1 == len(result.stderr.splitlines()), result.stderr
    assert repr(words[1]) in result.stderr
    assert not json.loads(call("trace", "pipeline.yaml", *words, "--json").stdout)["found"]


@pytest.mark.parametrize("words", [(), ("--number", "1"), ("--row", "a", "--number", "1")])
def test_an_incomplete_request_is_refused(
    project: Project, call: Call, words: tuple[str, ...]
) -> None:
    result = call("trace", "pipeline.yaml", *words)
    assert 64 == result.exit_code
    assert "--" in read_errors(result)


def test_a_changed_or_removed_source_is_not_run_again(project: Project, call: Call) -> None:
    write_rows(project, long=keep("n >= 10", "few"))
    (project.path / "in/other.jsonl").write_text('{"key": "o", "text": "", "n": 11}')
    project.spec["source"]["with"]["paths"] = ["in/*.jsonl"]
    project.save()
    run(project)
    path = project.path / "in/rows.jsonl"
    path.write_text(path.read_text().replace('"n": 12', '"n": 1'))
    output = trace(call, "--row", "k12")
    assert ([], 1) == (output["steps"], len(output["outputs"]))
    assert "the source has changed since attempt 1" in output["sources"][0]["message"]
    path.unlink()
    output = trace(call, "--row", "k12")
    assert ([], 1) == (output["steps"], len(output["outputs"]))
    assert "no longer listed" in output["sources"][0]["message"]


def test_a_row_of_a_changed_source_that_is_not_in_the_output_is_not_found(
    project: Project, call: Call
) -> None:
    write_rows(project, long=keep("n >= 10", "few"))
    run(project)
    path = project.path / "in/rows.jsonl"
    path.write_text(f"{path.read_text()}\n")
    result = call("trace", "pipeline.yaml", "--row", "k3")
    assert (2, "") == (result.exit_code, result.stdout)
    assert "rows.jsonl: the source has changed since attempt 1" in result.stderr


def test_a_missing_output_file_is_noted(project: Project, call: Call) -> None:
    write_rows(project, long=keep("n >= 10", "few"))
    run(project)
    (name,) = project.list_outputs()
    (project.folder / "output" / name).unlink()
    output = trace(call, "--row", "k12")
    assert ("long", "kept", None) == list_decisions(output)[-1]
    assert any(name in note and "No such file" in note for note in output["notes"])


def test_decisions_of_a_changed_stage_are_unknown(project: Project, call: Call) -> None:
    write_rows(project, long=keep("n >= 10", "few"), short=keep("n < 25", "many"))
    run(project)
    project.spec["stages"][2]["with"]["where"] = "n < 5"
    project.save()
    output = trace(call, "--row", "k12")
    assert [("long", "kept"), ("short", "unknown")] == [
        each[:2] for each in list_decisions(output)[1:]
    ]
    assert "has changed since attempt 1" in output["steps"][-1]["reason"]
    assert output["outputs"]


def test_a_contradiction_to_the_run_is_noted(project: Project, call: Call) -> None:
    """A stage that depends on its environment gives another result than in the run."""
    write_rows(project)
    project.add_stage(
        "def process(self, task):\n"
        "    import pathlib\n"
        "    if pathlib.Path('flag').exists():\n"
        "        self.count('dropped: flag', task.num_rows)\n"
        "        return None\n"
        "    return task"
    )
    run(project)
    (project.path / "flag").touch()
    output = trace(call, "--row", "k12")
    assert ("dropped", "flag") == list_decisions(output)[-1][1:]
    assert ["output has the row", "counted no row"] == [
        part
        for part in ("output has the row", "counted no row")
        if part in " ".join(output["notes"])
    ]


def test_a_failed_source_is_shown_with_its_failure(project: Project, call: Call) -> None:
    write_rows(project)
    project.add_stage("def process(self, task):\n    raise ValueError('never')")
    run(project, code=3)
    output = trace(call, "--row", "k1")
    assert "failed" == output["sources"][0]["state"]
    assert ("failed", True) == (
        output["steps"][-1]["decision"],
        "never" in output["steps"][-1]["reason"],
    )


def test_a_pipeline_without_a_ledger_is_reported(project: Project, call: Call) -> None:
    write_rows(project)
    result = call("trace", "pipeline.yaml", "--row", "k1")
    assert 0 != result.exit_code
    assert "has the pipeline been run" in read_errors(result)


def test_a_model_is_not_asked_again(project: Project, call: Call) -> None:
    """Its answer comes from the stored requests; a row without one is unknown from there on."""
    model = FakeModel()
    with serve(model) as url:  # the server could answer, but is not asked
        ask = {"url": url, "model": MODEL, "prompt": "Rate {{ key }}."}
        write_rows(project, ask={"use": "ask-model", "with": ask}, last=keep("n > 3", "few"))
        run(project)
        output = trace(call, "--row", "k7")
        for path in (project.folder / "requests").rglob("*"):
            if path.is_file():
                path.unlink()
        unknown = trace(call, "--row", "k7")
    assert 30 == sum(model.asked.values())
    step = output["steps"][1]
    assert ("ask", "changed") == (step["stage"], step["decision"])
    assert "answer" in step["added"]
    assert "echo: Rate k7." == step["request"]["answer"]
    assert "Rate k7." in json.dumps(step["request"]["body"])
    assert ("last", "kept", None) == list_decisions(output)[-1]
    assert ("ask", "unknown") == list_decisions(unknown)[-1][:2]
    assert "not asked again" in unknown["steps"][-1]["reason"]
    assert 1 == len(unknown["outputs"])


def test_rows_that_pass_several_pipelines_are_followed_through_their_files(
    project: Project, call: Call
) -> None:
    write_rows(project, "parquet", long=keep("n >= 10", "few"))
    second = json.loads(json.dumps(project.document))
    second["metadata"]["name"] = "again"
    reference = {"pipeline": "notes", "files": "**/*.parquet"}
    second["spec"]["source"] = {"use": "parquet-row-groups", "with": {"paths": [reference]}}
    second["spec"]["stages"] = [{"use": "read-parquet"}, keep("n < 20", "many")]
    documents = [json.dumps(project.document), json.dumps(second)]
    project.write("\n---\n".join(reversed(documents)))  # the order of the file does not matter
    run(project)
    expected = {"k3": ("notes", "few"), "k25": ("again", "many"), "k12": ("again", None)}
    for key, (last, reason) in expected.items():
        result = call("trace", "pipeline.yaml", "--row", key, "--json")
        first, then = json.loads(result.stdout)["pipelines"]
        output = {"notes": first, "again": then}[last]
        assert reason == output["steps"][-1]["reason"]
        assert (last == "again") == then["found"]
        assert ("no row of it reaches this pipeline" in then["notes"]) == (last == "notes")
    words = ("--source", "in/rows.jsonl", "--number", "25", "--json")
    first, then = json.loads(call("trace", "pipeline.yaml", *words).stdout)["pipelines"]
    assert ("kept", "many") == (first["steps"][-1]["decision"], then["steps"][-1]["reason"])
