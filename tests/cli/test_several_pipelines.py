"""Several pipelines in one call run in order and read from each other, or all are refused."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli_project import Call, Project, read_errors
from strandline.cli.app.driver.launch import can_share_driver
from strandline.cli.app.targets import Target
from strandline.cli.commands.runs.drive import _ask
from strandline.cli.commands.runs.run import run_in_order
from strandline.cli.views.announcer import Announcer
from strandline.run.manifest.order import order_pipelines
from strandline.run.supervise.driver.retained_driver import Orders
from strandline.run.supervise.variables import ALL
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.objects.pipeline import CurationPipeline

DRIVE = "strandline.cli.commands.runs.drive"


def spell(name: str, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    work = {
        "source": {"use": "files", "with": {"paths": ["in/*.txt"]}},
        "stages": [{"use": "read-files"}, {"use": "parse-documents"}],
        "sink": {"use": "jsonl"},
    }
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name, "namespace": namespace},
        "spec": work | spec,
    }


def read(name: str, **other: Any) -> dict[str, Any]:
    """Return a pipeline that reads the outputs of another."""
    reference = {"pipeline": "notes", "files": "**/*.jsonl", **other}
    return spell(
        name,
        source={"use": "jsonl-files", "with": {"paths": [reference]}},
        stages=[{"use": "read-jsonl"}],
    )


def write(project: Project, file: str, *documents: dict[str, Any]) -> None:
    project.write(yaml.safe_dump_all(documents), file)


def order(*documents: dict[str, Any], completed: tuple[str, ...] = ()) -> list[str]:
    pipelines: list[CurationPipeline] = list(map(parse_pipeline, documents))
    ordered = order_pipelines(
        pipelines, lambda _namespace, name, _run: None if name in completed else ""
    )
    return [pipeline.metadata.name for pipeline in ordered]


def refuse(*documents: dict[str, Any]) -> str:
    with pytest.raises(SpecError) as caught:
        order(*documents)
    return str(caught.value)


def come_after(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def test_pipelines_follow_their_dependencies_and_the_given_order() -> None:
    first, last = spell("a", after=come_after("c")), spell("b")
    assert order(first, last, read("c"), spell("notes")) == ["b", "notes", "c", "a"]
    assert order(last, spell("d"), spell("a")) == ["b", "d", "a"]
    assert order(first, completed=("c",)) == ["a"]


@pytest.mark.parametrize(
    ("documents", "sentence"),
    [
        (
            [spell("a", after=come_after("b"))],
            "pipeline 'a' comes after 'b', which is not among the files and has not completed; "
            "pass its file too",
        ),
        (
            [spell("a", after=come_after("b")), spell("b", "team")],
            "pipeline 'a' comes after 'b', which is in the namespace 'team'; both must be in the "
            "same namespace, such as 'default'",
        ),
        (
            [spell("a", after=[{"name": "b", "runId": "second"}]), spell("b")],
            "pipeline 'a' comes after run 'second' of 'b', whose runId is 'first'",
        ),
        (
            [spell("a", after=come_after("b")), spell("b", after=come_after("a"))],
            "'a' comes after 'b' comes after 'a': none of these pipelines can start",
        ),
        ([spell("a"), spell("a")], "pipeline 'a' in namespace 'default' is listed twice"),
    ],
)
def test_unorderable_pipelines_are_refused(documents: list[dict[str, Any]], sentence: str) -> None:
    assert refuse(*documents) == sentence


def test_a_file_may_hold_several_pipelines_addressed_by_name(project: Project, call: Call) -> None:
    write(project, "all.yaml", read("clean"), spell("notes"))
    done = call("run", "all.yaml", "--engine", "inline")
    assert done.exit_code == 0, done.output
    folder = project.path / "strandline-data/default/clean"
    texts = [
        json.loads(line)["text"].strip()
        for path in folder.glob("output/**/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(texts) == [f"Note number {number}." for number in range(3)]
    verified = call("verify", "all.yaml#clean")
    assert verified.exit_code == 0, verified.output
    assert read_errors(call("ledger", "export", "all.yaml")) == (
        "all.yaml: the file has 2 documents; name one of its pipelines, as in all.yaml#clean"
    )
    assert "its pipelines are: 'clean', 'notes'" in read_errors(call("verify", "all.yaml#other"))


def test_a_change_in_the_first_pipeline_reaches_the_second(project: Project, call: Call) -> None:
    write(project, "notes.yaml", spell("notes"))
    write(project, "clean.yaml", read("clean"))
    words = ("run", "clean.yaml", "notes.yaml", "--engine", "inline", "--json")
    call(*words)
    (project.path / "in/0.txt").write_text("Another note.\n")
    lines = list(map(json.loads, call(*words).stdout.splitlines()))
    # The name of a pipeline precedes its other lines, for scripts.
    events = [line for line in lines if line["event"] in {"pipeline", "outcome"}]
    assert [line.get("pipeline") for line in events] == ["notes", None, "clean", None]
    outcomes = [line for line in lines if line["event"] == "outcome"]
    assert [outcome["sources"]["finished"] for outcome in outcomes] == [1, 1]
    assert [outcome["sources"]["skipped"] for outcome in outcomes] == [2, 2]
    # In a separate call, the second pipeline finds the outputs of the first on the volume.
    alone = call("run", "clean.yaml", "--engine", "inline")
    assert alone.exit_code == 0, alone.output


def run_chain(codes: dict[str, int], stopped_in: str = "") -> tuple[int, list[str], list[str]]:
    """Run pipelines `a` to `d`, where `b` needs `a` and `c` needs `b`.

    Return the exit code, the pipelines that ran, and the pipelines that were left out.

    Args:
        codes: exit codes of the pipelines.
        stopped_in: the pipeline that runs when a stop is requested, or an empty string.
    """
    needs = {"a": (), "b": ("a",), "c": ("b",), "d": ()}
    targets = [
        Target(Path(name), parse_pipeline(spell(name, after=come_after(*others))))
        for name, others in needs.items()
    ]
    ran: list[str] = []
    left: list[str] = []

    class Listener(Announcer):
        def leave_out(self, pipeline: str, needed: str) -> None:
            left.append(f"{pipeline}: {needed}")

    def run_target(file: Path) -> int:
        ran.append(file.name)
        return codes.get(file.name, 0)

    code = run_in_order(targets, run_target, Listener(), lambda: stopped_in in ran)
    return code, ran, left


def test_dependents_of_an_omitted_pipeline_are_omitted() -> None:
    assert run_chain({"a": 3, "d": 4}) == (3, ["a", "d"], ["b: a", "c: b"])
    assert run_chain({"d": 4}) == (4, ["a", "b", "c", "d"], [])
    assert run_chain({}) == (0, ["a", "b", "c", "d"], [])


def test_a_request_to_stop_ends_all_pipelines() -> None:
    assert run_chain({"a": 75, "d": 4}) == (75, ["a"], [])


@pytest.mark.parametrize("code", [0, 1, 3, 73, 75])
def test_a_stop_ends_all_pipelines_whatever_the_running_exit_code(code: int) -> None:
    assert run_chain({"a": code}, stopped_in="a") == (code or 75, ["a"], [])
    assert run_chain({}, stopped_in="d") == (0, ["a", "b", "c", "d"], [])


# A stage that waits for the file `go`, which appears after the stop request, so the run completes.
LAST = """
def process(self, task):
    import pathlib, time
    pathlib.Path("working").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return task
"""


def test_a_stop_during_the_last_source_begins_no_other_pipeline(
    project: Project,
) -> None:
    project.add_stage(LAST)
    project.write(yaml.safe_dump(spell("second")), "second.yaml")
    for path in sorted((project.path / "in").glob("*.txt"))[1:]:
        path.unlink()
    process = project.start("run", "second.yaml", "--engine", "inline")
    try:
        project.wait_for("working")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while "letting work in flight finish" not in (line := process.stderr.readline()):
            assert line
        (project.path / "go").touch()
        out, _ = process.communicate(timeout=300)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 75, out
    assert not (project.folder.parent / "second" / "output").exists()


def test_a_failed_pipeline_blocks_its_dependents(project: Project, call: Call) -> None:
    use = project.add_stage("def process(self, task):\n    raise ValueError('bad')")
    failing = spell("notes", stages=[{"use": use}], retry={"maxRetries": 0})
    write(project, "all.yaml", read("clean"), failing, spell("free"))
    done = call("run", "all.yaml", "--engine", "inline")
    assert done.exit_code == 3
    assert "clean: skipped because notes has not completed" in done.stderr
    assert (project.path / "strandline-data/default/free/latest").exists()
    assert not (project.path / "strandline-data/default/clean").exists()
    # In a separate call, the pipeline is refused in the same way, even if its input exists.
    alone = call("run", "all.yaml#clean", "--engine", "inline")
    assert alone.exit_code == 64
    assert "comes after 'notes', which is not among the files" in read_errors(alone)


def test_nothing_starts_after_an_error_in_any_pipeline(project: Project, call: Call) -> None:
    write(project, "all.yaml", spell("notes"), spell("last", after=come_after("lost")))
    done = call("run", "all.yaml", "--engine", "inline")
    assert done.exit_code == 64
    assert not (project.path / "strandline-data").exists()
    settings = call("run", "all.yaml", "--set", "runId=second")
    assert "--set changes one pipeline; name one of these 2: " in settings.output
    served = call("run", "pipeline.yaml", "all.yaml#notes", "--serve", "0", "--no-supervise")
    assert served.exit_code == 64


def test_files_are_validated_and_planned_together(project: Project, call: Call) -> None:
    write(project, "all.yaml", read("clean"), spell("notes"))
    valid = call("validate", "all.yaml")
    assert valid.output.splitlines() == [
        "all.yaml#notes: valid; files, 2 stages, jsonl",
        "all.yaml#clean: valid; jsonl-files, 1 stage, jsonl",
    ]
    planned = [json.loads(line) for line in call("plan", "all.yaml", "--json").output.splitlines()]
    assert [
        each["pipeline"]["name"] if isinstance(each["pipeline"], dict) else each["pipeline"]
        for each in planned
    ] == ["notes", "clean"]
    alone = call("validate", "all.yaml#clean")
    assert read_errors(alone) == (
        "spec.source.with.paths[0]: pipeline 'notes' has not run on strandline-data yet; run it "
        "first, or pass its file too"
    )
    # No error, because the other pipeline may have run elsewhere.
    write(project, "last.yaml", spell("last", after=come_after("lost")))
    assert call("validate", "last.yaml").exit_code == 0


def test_artifacts_are_read_through_latest(project: Project, call: Call) -> None:
    write(project, "notes.yaml", spell("notes"))
    call("run", "notes.yaml", "--engine", "inline")
    artifacts = project.path / "strandline-data/default/notes/latest/artifacts"
    artifacts.mkdir(exist_ok=True)
    (artifacts / "more.jsonl").write_text('{"text": "gathered"}\n')
    document = read("clean")
    document["spec"]["source"]["with"]["paths"] = [{"pipeline": "notes", "artifact": "more.jsonl"}]
    write(project, "clean.yaml", document)
    described = yaml.safe_load(call("describe", "clean.yaml").output)
    (path,) = described["spec"]["source"]["with"]["paths"]
    assert Path(path).is_absolute()
    assert Path(path) == artifacts / "more.jsonl"
    assert call("run", "clean.yaml", "--engine", "inline").exit_code == 0


def test_a_custom_output_place_of_the_first_pipeline_is_read(project: Project, call: Call) -> None:
    first = spell("notes", sink={"use": "jsonl", "with": {"path": "out"}})
    write(project, "all.yaml", first, read("clean"))
    # If only the second pipeline is named, the first pipeline's `path` is unknown.
    assert "has not run on strandline-data yet" in read_errors(call("describe", "all.yaml#clean"))
    assert call("run", "all.yaml", "--engine", "inline").exit_code == 0
    described = yaml.safe_load(call("describe", "all.yaml#clean").output)
    assert described["spec"]["source"]["with"]["paths"] == [
        str(project.path.resolve() / "out/**/*.jsonl")
    ]


ALONE: list[tuple[dict[str, Any], str | None]] = [
    ({}, "inline"),
    ({"stages": [{"use": "read-files"}, {"use": "mystage:Mine"}]}, None),
    ({"source": {"use": "mysource:Listed"}}, None),
    ({"stages": [{"use": "read-files"}, {"use": "datatrove:LambdaFilter"}]}, None),
    ({"code": {"packages": ["ftfy==6.3.1"]}}, None),
]


@pytest.mark.parametrize(("spec", "engine"), ALONE)
def test_pipelines_that_may_leave_state_have_their_own_driver(
    spec: dict[str, Any], engine: str | None
) -> None:
    spec = {"engine": "ray", **spec}
    assert not can_share_driver(parse_pipeline(spell("notes", **spec)).spec, engine)


@pytest.mark.parametrize(
    ("spec", "engine"),
    [({"engine": "ray"}, None), ({}, "ray"), ({}, None), ({}, "processes")],
)
def test_pipelines_that_leave_no_state_share_a_driver(
    spec: dict[str, Any], engine: str | None
) -> None:
    assert can_share_driver(parse_pipeline(spell("notes", **spec)).spec, engine)


def test_processes_started_early_do_not_inherit_parent_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the fork server would not match the driver and would have to start again."""
    for name in ALL:
        monkeypatch.delenv(name, raising=False)
    seen: list[tuple[str, set[str]]] = []
    monkeypatch.setattr(f"{DRIVE}.start_next", lambda name: seen.append((name, {*os.environ})))
    ours, its = socket.socketpair()
    order = {"arguments": ["next.yaml"], "environment": dict.fromkeys(ALL, "7")}
    with ours, its:
        ours.sendall(json.dumps(order).encode() + b"\n")
        assert _ask(Orders(its), "processes") == ["next.yaml"]
    assert {os.environ.pop(name) for name in ALL} == {"7"}
    ((engine, names),) = seen
    assert engine == "processes"
    assert names.isdisjoint(ALL)


def test_commands_about_results_work_for_each_pipeline_of_a_file(
    project: Project, call: Call
) -> None:
    write(project, "pipeline.yaml", spell("notes"), read("copies"))
    assert project.execute("run", "--engine", "inline").returncode == 0
    for command in (
        "verify", "failures", "attempts", "repair", "describe", "dropped", "ledger stats",
        "ledger sources", "ledger move-outputs",
    ):  # fmt: skip
        result = call(*command.split(), "pipeline.yaml")
        assert result.exit_code == 0, result.stderr
        names = [line for line in result.stdout.splitlines() if line in {"notes:", "copies:"}]
        assert names == ["notes:", "copies:"], command
    lines = call("verify", "pipeline.yaml", "--json").stdout.splitlines()
    assert [json.loads(line)["verified"] for line in lines] == [True, True]
    (project.path / "strandline-data/default/copies/output").rename(project.path / "elsewhere")
    assert call("verify", "pipeline.yaml").exit_code == 65
    assert "name one of these 2" in call("verify", "pipeline.yaml", "--set", "sink.use=csv").stderr
    assert call("verify", "none.yaml").exit_code == 64


def test_tune_shows_the_pipelines_with_the_stage(project: Project, call: Call) -> None:
    kept = {"use": "gopher-quality", "with": {"minDocWords": 2, "minStopWords": 0}}
    first, last = spell("notes"), read("clean")
    first["spec"]["stages"].append({**kept, "name": "length"})
    last["spec"]["stages"].append(kept)
    write(project, "all.yaml", last, first)
    assert call("run", "all.yaml", "--engine", "inline").exit_code == 0
    result = call("tune", "all.yaml", "--stage", "length")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("notes:\nlength: drops ")
    assert "clean" not in result.stdout
    missing = call("tune", "all.yaml", "--stage", "lengths")
    assert (missing.exit_code, "its filters are: " in missing.stderr) == (1, True)
    assert (
        "name one of these 2"
        in call("tune", "all.yaml", "--stage", "length", "--set", "runId=x").stderr
    )


def test_retry_follows_the_order_of_run_and_skips_dependents(project: Project) -> None:
    use = project.add_stage(
        "def process(self, task):\n"
        "    import pathlib\n"
        "    if pathlib.Path('bad').exists():\n"
        "        raise ValueError('bad')\n"
        "    return task"
    )
    stages = [{"use": "read-files"}, {"use": use}, {"use": "parse-documents"}]
    write(project, "pipeline.yaml", read("clean"), spell("notes", stages=stages))
    (project.path / "bad").touch()
    first = project.execute("retry", "--engine", "inline")
    assert first.returncode == 3
    assert first.stderr.splitlines()[0] == "notes:"
    assert "clean: skipped because notes has not completed" in first.stderr
    (project.path / "bad").unlink()
    last = project.execute("retry", "--engine", "inline")
    assert last.returncode == 0, last.stderr
    assert [line for line in last.stdout.splitlines() if line.startswith("complete: ")]
    names = [line for line in last.stderr.splitlines() if line in {"notes:", "clean:"}]
    assert names == ["notes:", "clean:"]


def test_top_shows_the_pipelines_one_below_the_other(project: Project, call: Call) -> None:
    write(project, "pipeline.yaml", spell("notes"), read("clean"))
    assert call("run", "pipeline.yaml#notes", "--engine", "inline").exit_code == 0
    text = call("top", "pipeline.yaml").stdout
    assert text.index("default/notes  attempt 1") < text.index("\n\ndefault/clean  not run yet")
    result = call("top", "pipeline.yaml", "--ask", "127.0.0.1:1")
    assert "name one of its pipelines" in read_errors(result)


def test_copies_of_several_ledgers_are_in_a_folder(project: Project, call: Call) -> None:
    write(project, "pipeline.yaml", spell("notes"), spell("more"))
    assert call("run", "pipeline.yaml", "--engine", "inline").exit_code == 0
    for words in (("backup", "pipeline.yaml", "--to"), ("restore", "pipeline.yaml", "--from")):
        result = call("ledger", *words, "pipeline.yaml")
        assert "pipeline.yaml is not a folder; name one for the copies of 2 ledgers" in (
            read_errors(result)
        )
    copies = project.path / "copies"
    copies.mkdir()
    assert call("ledger", "backup", "pipeline.yaml", "--to", "copies").exit_code == 0
    assert sorted(path.name for path in copies.iterdir()) == ["more.mdb", "notes.mdb"]
    result = call("ledger", "restore", "pipeline.yaml", "--from", "copies")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines.count("restored as of attempt 1, with 3 finished sources") == 2
    (copies / "more.mdb").unlink()
    missing = call("ledger", "restore", "pipeline.yaml", "--from", "copies")
    assert "copies/more.mdb: there is no copy of this pipeline's ledger" in read_errors(missing)
