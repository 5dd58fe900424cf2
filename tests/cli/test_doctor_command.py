"""`strandline doctor` on real folders: its output and exit code, and that it leaves no traces."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from command_server import execute_interpreter, execute_strandline
from strandline.cli.commands.pipelines.doctor import describe_findings
from strandline.run.insight.doctor.checks import Finding, Level
from strandline.storage.errors import VolumeError

GENERAL = [
    "python",
    "ray",
    "memory",
    "free memory",
    "load",
    "temporary space",
    "shared memory",
    "open files",
    "clock",
]
ON_DISK = ["volume", "file system", "space", "inodes", "rights", "lmdb", "file times"]
OF_PIPELINE = ["cpus", "reservations", "output"]


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a variable that the Ray of another test may have left in this process."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)


def parse(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        finding = json.loads(line)
        assert list(finding) == ["name", "level", "found", "advice"]
        assert bool(finding["advice"]) == (finding["level"] != "ok")
        yield finding


def find(text: str, name: str) -> dict[str, Any]:
    return next(finding for finding in parse(text) if finding["name"] == name)


def list_all(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_size) for path in folder.rglob("*"))


def test_a_volume_is_examined_without_a_file(tmp_path: Path, call: Call) -> None:
    result = call("doctor", "--quick", "--volume", str(tmp_path))
    assert (result.exit_code, result.stderr) == (0, "")
    *lines, end = result.stdout.splitlines()
    cells = [re.split(r" {2,}", line) for line in lines if not line.startswith("    ")]
    assert [name for _, name, _ in cells] == GENERAL + ON_DISK
    assert ["ok", "volume", str(tmp_path)] in cells
    assert end.startswith("0 problems, ")
    assert list_all(tmp_path) == []


@pytest.mark.parametrize(
    ("variable", "code", "found"),
    [
        ({}, 0, r"a small pipeline ran on a local Ray in \d+\.\d s"),
        ({"RAY_memory_monitor_refresh_ms": "abc"}, 1, r".*, and these are set: RAY_memory.*"),
        ({"RAY_OVERRIDE_RESOURCES": '{"CPU": "x"}'}, 1, "the local Ray did not start: .*"),
    ],
    ids=["as it is", "a variable that crashes it", "a variable that it refuses"],
)
def test_doctor_tries_to_start_ray(
    tmp_path: Path, variable: dict[str, str], code: int, found: str
) -> None:
    words = ["doctor", "--volume", str(tmp_path), "--json"]
    done = execute_strandline(*words, env=os.environ | variable)
    assert done.returncode == code, done.stderr
    assert re.match(found, find(done.stdout, "ray start")["found"])
    assert list_all(tmp_path) == []


def test_json_has_an_object_per_finding(tmp_path: Path, call: Call) -> None:
    result = call("doctor", "--quick", "--volume", str(tmp_path), "--json")
    findings = list(parse(result.stdout))
    assert [finding["name"] for finding in findings] == GENERAL + ON_DISK
    assert {finding["level"] for finding in findings} <= {"ok", "warning"}
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_pipeline_and_its_ledger_are_examined(project: Project, run: Call, call: Call) -> None:
    run()
    (project.folder.parent / "other/ledger").mkdir(parents=True)
    before = list_all(project.path)
    result = call("doctor", "--quick", "pipeline.yaml", "--json")
    assert result.exit_code == 0
    names = [finding["name"] for finding in parse(result.stdout)]
    assert names == [*GENERAL, *ON_DISK, "ledger default/notes", *OF_PIPELINE]
    ledger = find(result.stdout, "ledger default/notes")
    assert (ledger["level"], ledger["found"]) == ("ok", "attempt 1 has ended; 3 finished")
    assert find(result.stdout, "output")["found"] == str(project.folder / "output")
    assert before == list_all(project.path)
    bare = call("doctor", "--quick", "--json").stdout
    assert find(bare, "ledger default/notes") == ledger


@pytest.mark.parametrize("words", [[], ["pipeline.yaml"]])
def test_a_volume_that_is_missing_is_not_made(
    project: Project, call: Call, words: list[str]
) -> None:
    before = list_all(project.path)
    result = call("doctor", "--quick", *words, "--json")
    finding = find(result.stdout, "volume")
    volume = project.path / "strandline-data"
    assert finding["found"] == f"{volume} does not exist; checked {project.path} instead"
    assert finding["advice"].startswith("if it is a separate disk, mount it first")
    assert (result.exit_code, finding["level"]) == (0, "warning")
    assert before == list_all(project.path)


def test_a_volume_mounted_read_only_is_reported(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        result = call("doctor", "--quick", "--volume", str(tmp_path))
    assert result.exit_code == 73
    lines = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    at = lines.index(["problem", "rights", f"{tmp_path}: the volume is mounted read-only"])
    assert lines[at + 1] == ["make", "it", "writable, or name another with --volume"]
    assert lines[-1][:2] == ["1", "problem,"]


def test_a_file_in_place_of_the_volume_is_reported(project: Project, call: Call) -> None:
    result = call("doctor", "--quick", "--volume", "pipeline.yaml", "--json")
    assert result.exit_code == 73
    assert find(result.stdout, "volume") == {
        "name": "volume",
        "level": "problem",
        "found": f"{project.path}/pipeline.yaml: this is a file, but a folder is needed",
        "advice": "move it away, or name another folder with --volume",
    }


def test_a_damaged_ledger_is_not_a_problem_of_the_volume(
    project: Project, run: Call, call: Call
) -> None:
    run()
    data = project.folder / "ledger/data.mdb"
    data.write_bytes(data.read_bytes()[:9000])
    result = call("doctor", "--quick", "--json")
    finding = find(result.stdout, "ledger default/notes")
    assert (result.exit_code, finding["level"]) == (1, "problem")
    assert "it is truncated" in finding["found"]
    assert finding["advice"] == "restore the file from a copy, or move it away to start over"


def test_reservations_of_stages_are_compared_with_the_machine(project: Project, call: Call) -> None:
    project.spec["stages"][1] |= {"workers": {"min": 1000}, "resources": {"memory": "500Gi"}}
    project.save()
    result = call("doctor", "--quick", "pipeline.yaml", "--json")
    finding = find(result.stdout, "reservations")
    assert (result.exit_code, finding["level"]) == (1, "problem")
    assert finding["found"].startswith("stages reserve at least 536,870.9 GB of ")
    assert "stages that request at least 1002; the stages" in find(result.stdout, "cpus")["found"]
    settings = ("--set", "stages.1.resources.memory=1Mi")
    assert call("doctor", "--quick", "pipeline.yaml", *settings).exit_code == 0


def test_a_separate_output_place_is_tried_unless_it_is_a_url(project: Project, call: Call) -> None:
    def look(path: str) -> tuple[int, str, str]:
        result = call(
            "doctor", "--quick", "pipeline.yaml", "--json", "--set", f"sink.with.path={path}"
        )
        finding = find(result.stdout, "output")
        return result.exit_code, finding["level"], finding["found"]

    target = project.path / "elsewhere/out"
    assert look(str(target)) == (0, "ok", str(target))
    assert look(f"file://{target}") == (0, "ok", str(target))
    assert not target.parent.exists()
    assert look("memory://bucket/out") == (0, "ok", "memory://bucket/out (a URL, not tried)")
    sentence = f"{project.path}/pipeline.yaml: this is a file, but a folder is needed"
    assert look(str(project.path / "pipeline.yaml/out")) == (73, "problem", sentence)


def test_a_wrong_file_is_one_sentence(project: Project, call: Call) -> None:
    result = call("doctor", "--quick", "none.yaml")
    assert (result.exit_code, read_errors(result)) == (64, "none.yaml: the file does not exist")
    assert result.stdout == ""
    result = call("doctor", "--quick", "--set", "sink.use=jsonl")
    assert result.exit_code == 64
    assert read_errors(result).startswith("--set changes a pipeline, so it requires FILE; see ")


def test_ray_is_not_started_or_loaded(project: Project) -> None:
    code = (
        "import sys\nfrom strandline.cli.app.commands import program\n"
        "try:\n    program(['doctor', '--quick', 'pipeline.yaml'])\n"
        "except SystemExit as end:\n    print(end.code, 'ray' in sys.modules)\n"
    )
    result = execute_interpreter(
        [sys.executable, "-c", code],
        cwd=project.path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines()[-1] == "0 False"


def test_findings_read_as_a_table() -> None:
    findings = [
        Finding("python", Level.OK, "3.12.1"),
        Finding("space", Level.WARNING, "1.1 GB of 2 GB are free", "free some"),
        Finding("rights", Level.PROBLEM, str(VolumeError("/a\x1bb: no right")), "make it writable"),
    ]
    assert list(describe_findings(findings)) == [
        "ok       python  3.12.1",
        "warning  space   1.1 GB of 2 GB are free",
        "    free some",
        "problem  rights  /a\\x1bb: no right",
        "    make it writable",
        "1 problem, 1 warning",
    ]
