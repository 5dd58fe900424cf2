"""Bad input of every kind gives an exit code and one sentence each, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cli_project import Call, Project, read_errors
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store


class Case(NamedTuple):
    """A change that breaks a project, and the expected message."""

    name: str
    spoil: Callable[[Project], object]
    code: int
    sentence: str


def set_field(path: str, value: object) -> Callable[[Project], object]:
    def spoil(project: Project) -> None:
        *folders, last = path.split(".")
        place: Any = project.document
        for folder in folders:
            place = place[int(folder)] if isinstance(place, list) else place[folder]
        place[last] = value
        project.save()

    return spoil


def drop_sink(project: Project) -> None:
    del project.spec["sink"]
    project.save()


def append_stage(use: str, **fields: object) -> Callable[[Project], object]:
    def spoil(project: Project) -> None:
        project.spec["stages"].append({"use": use, **fields})
        project.save()

    return spoil


def write_stage(body: str) -> Callable[[Project], object]:
    return lambda project: project.add_stage(body)


def batch(body: str) -> Callable[[Project], object]:
    def spoil(project: Project) -> None:
        project.add_stage(f"def process_batch(self, tasks):\n    {body}")
        project.spec["stages"][-1]["batchSize"] = 3
        project.save()

    return spoil


def empty_folder(project: Project) -> None:
    for path in (project.path / "in").iterdir():
        path.unlink()


def block(name: str) -> Callable[[Project], object]:
    def spoil(project: Project) -> None:
        path = project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a file")

    return spoil


CASES = [
    Case(
        "broken YAML",
        lambda project: project.write("spec: [1\nmetadata: 2\n"),
        64,
        "pipeline.yaml: line 2, column 9: expected ',' or ']', but got ':' "
        "(while parsing a flow sequence that begins in line 1)",
    ),
    Case(
        "two documents",
        lambda project: project.write("a: 1\n---\nb: 2\n"),
        64,
        "pipeline.yaml: the file has 2 documents; name one of its pipelines, as in "
        "pipeline.yaml#NAME",
    ),
    Case(
        "not UTF-8",
        lambda project: project.write(b"a: \xff\xfe"),
        64,
        "pipeline.yaml: the byte 0xff at 3 is not UTF-8; save the file as UTF-8",
    ),
    Case(
        "a missing file",
        lambda project: (project.path / "pipeline.yaml").unlink(),
        64,
        "pipeline.yaml: the file does not exist",
    ),
    Case(
        "an unknown stage",
        append_stage("parse-document"),
        64,
        "spec.stages[2].use: unknown stage 'parse-document'; did you mean 'parse-documents'?",
    ),
    Case(
        "a module that is not there",
        append_stage("no_such_module:Stage"),
        64,
        "spec.stages[2].use: 'no_such_module:Stage': the module 'no_such_module' can't be "
        "imported (No module named 'no_such_module')",
    ),
    Case(
        "a wrong type",
        set_field("spec.sink.batchSize", "many"),
        64,
        "spec.sink.batchSize: must be a whole number, not 'many'",
    ),
    Case(
        "a misspelt parameter",
        set_field("spec.source.with.path", "in/*.txt"),
        64,
        "spec.source.with.path: unknown field 'path'; did you mean 'paths'?",
    ),
    Case(
        "two sources",
        append_stage("files", name="more", **{"with": {"paths": ["in/*.txt"]}}),
        64,
        "spec.stages[2]: stage 'more' is a second source; only the first stage may list sources",
    ),
    Case(
        "the source key twice",
        lambda project: project.write("spec:\n  source: {use: a}\n  source: {use: b}\n"),
        64,
        "pipeline.yaml: line 3, column 3: 'source' is written twice",
    ),
    Case(
        "no sink",
        drop_sink,
        64,
        "spec.sink: required",
    ),
    Case(
        "a stage that mixes sources",
        write_stage("mixes_sources = True\ndef process(self, task):\n    return task"),
        64,
        "spec.stages[2]: stage 'own' mixes rows of several sources, so no source could be resumed "
        "alone; mix rows only within a source, or in a second pipeline that reads this pipeline's "
        "output",
    ),
    Case(
        "no sources",
        empty_folder,
        64,
        "spec.source: 'files' lists no sources; check its paths",
    ),
    Case(
        "sources in a folder that is not there",
        set_field("spec.source.with.paths", ["gone/*.txt"]),
        64,
        "the sources can't be listed: the folder 'gone/' of the pattern does not exist",
    ),
    Case(
        "a file where the volume should be",
        block("strandline-data"),
        73,
        "{path}/strandline-data/default/notes/ledger: this is a file, but a folder is needed",
    ),
    Case(
        "a file where the output should be",
        block("strandline-data/default/notes/output"),
        73,
        "{path}/strandline-data/default/notes/output: this is a file, but a folder is needed",
    ),
    Case(
        "a batch of wrong length",
        batch("return []"),
        1,
        "stage 'own' returned 0 results for a batch of {many} tasks; it must return one result per "
        "task, in order: NoneTask() for a filtered task, FailedTask(msg) for a task to retry",
    ),
    Case(
        "a stage that can't be set up",
        write_stage(
            "def setup(self):\n    raise OSError('no model')\n"
            "def process(self, task):\n    return task"
        ),
        1,
        "stage 'own' can't be set up: OSError: no model (own_stage.py:6)",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_one_sentence_and_an_exit_code(
    case: Case, project: Project, run: Call
) -> None:
    case.spoil(project)
    result = run()
    # The number of sources in a batch depends on the speed of the listing.
    told = re.sub(r"a batch of \d+ tasks", "a batch of {many} tasks", read_errors(result))
    assert told == case.sentence.replace("{path}", str(project.path))
    assert result.exit_code == case.code


def test_all_problems_of_a_file_are_reported_one_per_line(project: Project, run: Call) -> None:
    append_stage("parse-documnts")(project)
    set_field("spec.source.with.path", "x")(project)
    result = run()
    assert re.findall(r"error: (pipeline\.yaml:\d+): spec", result.stderr) == [
        "pipeline.yaml:11",
        "pipeline.yaml:17",
    ]
    assert read_errors(result).splitlines() == [
        "spec.source.with.path: unknown field 'path'; did you mean 'paths'?",
        "spec.stages[2].use: unknown stage 'parse-documnts'; did you mean 'parse-documents'?",
    ]
    assert result.exit_code == 64


# Ledgers that do not fit the pipeline


def mark_newer_format(project: Project) -> None:
    store = Store(project.folder / "ledger")
    store.write(Change(meta={"format": 99}))
    store.close()


def cut_short(project: Project) -> None:
    data = project.folder / "ledger/data.mdb"
    os.truncate(data, 5 * 4096)


def fill_with_garbage(project: Project) -> None:
    (project.folder / "ledger/data.mdb").write_bytes(os.urandom(65536))


def rename_pipeline(project: Project) -> None:
    shutil.copytree(project.folder, project.folder.parent / "others")
    set_field("metadata.name", "others")(project)


LEDGERS = [
    Case(
        "of a newer format",
        mark_newer_format,
        65,
        "{ledger}: the ledger has format 99, this version reads formats 1 and 2; "
        "use the version of strandline that wrote it",
    ),
    Case(
        "cut short",
        cut_short,
        65,
        "{ledger}/data.mdb: the ledger can't be read: it is truncated: {missing} bytes are "
        "missing; restore the file from a copy, or move it away to start over",
    ),
    Case(
        "of random bytes",
        fill_with_garbage,
        65,
        "{ledger}/data.mdb: the ledger can't be read: it is damaged: it does not start with the "
        "header of an LMDB file; restore the file from a copy, or move it away to start over",
    ),
    Case(
        "of another pipeline",
        rename_pipeline,
        65,
        "the ledger belongs to default/notes, not to default/others; use another volume",
    ),
    Case(
        "of another fingerprint",
        set_field("spec.stages.0.with", {"onError": "drop"}),
        65,
        "the pipeline is not the one that wrote this ledger:\n"
        '  read-files.with.onError: "fail" -> "drop"\n'
        "set onChange to Redo to process finished sources again, to Restart to start over, or to "
        "Continue to keep finished sources\n"
        "for example: `strandline run pipeline.yaml --set onChange=Continue`",
    ),
]


@pytest.mark.parametrize("case", LEDGERS, ids=lambda case: case.name)
def test_an_unsuitable_ledger_is_refused_and_its_files_stay(
    case: Case, project: Project, run: Call
) -> None:
    assert run().exit_code == 0
    kept = project.list_outputs()
    case.spoil(project)
    spoilt = (project.folder / "ledger/data.mdb").read_bytes()
    result = run()
    said = re.sub(r"\d+ bytes are", "{missing} bytes are", read_errors(result))
    assert said == case.sentence.replace("{ledger}", str(project.folder / "ledger"))
    assert result.exit_code == case.code
    assert project.list_outputs() == kept
    assert (project.folder / "ledger/data.mdb").read_bytes() == spoilt


def test_read_only_commands_also_refuse_a_damaged_ledger(
    project: Project, run: Call, call: Call
) -> None:
    assert run().exit_code == 0
    fill_with_garbage(project)
    commands = (["plan"], ["verify"], ["ledger", "stats"], ["ledger", "sources"])
    for words in commands:
        result = call(*words, "pipeline.yaml")
        assert "it does not start with the header of an LMDB file" in read_errors(result)
        assert result.exit_code == 65


def test_a_volume_on_nfs_is_refused_with_the_reason(
    project: Project, run: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = f"36 35 0:32 / {project.path} rw - nfs4 server:/share rw\n"
    monkeypatch.setattr("strandline.run.attempt.folder.takeover.read_mounts", lambda: mounts)
    result = run()
    assert (
        "the ledger can't be stored on nfs4: each host maps its own pages, and locks"
        in read_errors(result)
    )
    assert result.exit_code == 73
    assert not project.folder.exists()


def test_an_unreadable_file_fails_only_its_source(project: Project, run: Call) -> None:
    (project.path / "in/unreadable.txt").symlink_to("/proc/self/mem")
    result = run()
    assert result.exit_code == 3
    assert "1 of 4 sources failed; another attempt would retry them" in result.stdout
    assert "  in/unreadable.txt: read-files: " in result.stdout
    assert len(project.list_outputs()) == 3


def test_on_change_continue_keeps_finished_sources(project: Project, run: Call) -> None:
    assert run().exit_code == 0
    set_field("spec.stages.0.with", {"onError": "drop"})(project)
    result = run("--set", "onChange=Continue")
    assert result.exit_code == 0
    assert "nothing left to do: all 3 sources are finished" in result.stdout


# Unexpected errors, and errors of the command line itself


@pytest.fixture
def broken_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        msg = "two\nlines"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr("strandline.cli.commands.runs.drive.run_attempt", fail)


@pytest.mark.usefixtures("project", "broken_inside")
def test_an_unexpected_error_names_its_type_and_how_to_see_more(run: Call) -> None:
    result = run()
    assert read_errors(result) == (
        "unexpected ZeroDivisionError: two lines; run the command again with --debug for the "
        "traceback"
    )
    assert result.exit_code == 1


@pytest.mark.usefixtures("project", "broken_inside")
def test_debug_shows_the_traceback(run: Call) -> None:
    result = run("--debug")
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.exit_code == 1


@pytest.mark.usefixtures("project", "broken_inside")
def test_an_error_of_a_run_gives_scripts_an_outcome(run: Call) -> None:
    outcome = json.loads(run("--json").stdout)
    assert outcome == {
        "event": "outcome",
        "outcome": "APPLICATION_ERROR",
        "exitCode": 1,
        "message": "two\nlines",
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "No such command 'nothing'; see `strandline --help`"),
        (["run"], "Missing argument 'FILES...'; see `strandline run --help`"),
        (
            ["run", "pipeline.yaml", "--engin", "inline"],
            "No such option '--engin'. Did you mean '--engine'?; see `strandline run --help`",
        ),
        (
            ["run", "pipeline.yaml", "--workers", "0"],
            "Invalid value for '--workers': 0 is not in the range x>=1; "
            "see `strandline run --help`",
        ),
        (
            ["stages", "fils"],
            "unknown stage 'fils'; did you mean 'files'?; see `strandline stages --help`",
        ),
        (["ledger", "stats", "pipeline.yaml", "--set", "a"], "--set 'a' must be path=value"),
        (
            ["verify", "pipeline.yaml"],
            "{path}/strandline-data/default/notes/ledger: there is no ledger here; has the "
            "pipeline been run with this volume?",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    words: list[str], sentence: str, project: Project, call: Call
) -> None:
    result = call(*words)
    assert read_errors(result).startswith(sentence.replace("{path}", str(project.path)))
    assert result.exit_code == (65 if words[0] == "verify" else 64)
