"""`strandline ledger quarantine`: sources that failed too often, with causes and release."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from cli_project import Call, Project, read_errors
from strandline.ledger.errors import LedgerInUseError
from strandline.ledger.records.entries import Change, QuarantinedSource
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Quarantine

# A stage that fails on a source as long as the source has a neighbor file with the suffix `.bad`.
STAGE = """\
def process(self, task):
    from pathlib import Path
    return FailedTask('no such codec') if Path(task.key + '.bad').exists() else task
"""
BAD = ("in/0.txt", "in/2.txt")


def attempt(tolerate: int = 0) -> AttemptResult:
    """Make one more attempt at `pipeline.yaml`."""
    quarantine = Quarantine(tolerate=tolerate)
    plan = read_manifest(Path("pipeline.yaml"), ()).plan
    volume = Path("strandline-data")
    return run_attempt(AttemptConfig(plan, volume, engine="inline", quarantine=quarantine))


def repair(key: str) -> None:
    Path(f"{key}.bad").unlink()


@pytest.fixture
def failing(project: Project) -> Project:
    """Make two of three sources fail."""
    project.add_stage(STAGE)
    for key in BAD:
        Path(f"{key}.bad").touch()
    return project


@pytest.fixture
def quarantined(failing: Project) -> Project:
    """Run until two sources have failed three times."""
    codes = [attempt().code for _ in range(3)]
    assert [ExitCode.SOURCES_FAILED, ExitCode.SOURCES_FAILED, ExitCode.QUARANTINE_EXCEEDED] == codes
    return failing


def announce(call: Call, *words: str) -> str:
    """Return the output of a `quarantine` command, which must succeed."""
    result = call("ledger", "quarantine", *words)
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def list_keys(call: Call) -> list[str]:
    lines = announce(call, "list", "pipeline.yaml", "--json").splitlines()
    return sorted(json.loads(line)["key"] for line in lines)


def release(call: Call, *words: str) -> Result:
    return call("ledger", "quarantine", "release", "pipeline.yaml", *words)


def test_the_list_shows_failures_with_counts_and_causes(quarantined: Project, call: Call) -> None:
    assert sorted(announce(call, "list", "pipeline.yaml").splitlines()) == [
        "   3     3  in/0.txt: ApplicationError: own: no such codec",
        "   3     3  in/2.txt: ApplicationError: own: no such codec",
    ]


def test_the_list_for_scripts(quarantined: Project, call: Call) -> None:
    rows = [
        json.loads(line) for line in announce(call, "list", "pipeline.yaml", "--json").splitlines()
    ]
    (row,) = [row for row in rows if row["key"] == "in/0.txt"]
    version = row.pop("version")
    assert 16 == len(version)
    assert row == {
        "key": "in/0.txt",
        "state": "quarantined",
        "attempt": 3,
        "outputs": [],
        "stage": "own",
        "message": "no such codec",
        "times": 3,
        "cause": "ApplicationError",
    }


def test_a_source_that_killed_processes_has_no_stage(project: Project, call: Call) -> None:
    (project.folder / "ledger").mkdir(parents=True)
    store = Store(project.folder / "ledger")
    entry = QuarantinedSource(
        "in/0\n.txt", b"v" * 8, 12, "OOMKilled", "", "a process died over it", 4
    )
    store.write(Change(quarantine=[(digest_key(entry.key), entry)]))
    store.close()
    line = "   4    12  in/0\\n.txt: OOMKilled: a process died over it\n"
    assert line == announce(call, "list", "pipeline.yaml")


def test_the_other_commands_know_the_state(quarantined: Project, call: Call) -> None:
    facts = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    assert (1, 0, 0, 2) == tuple(
        facts[name] for name in ("finished", "failed", "inflight", "quarantined")
    )
    assert "quarantined        2" in call("ledger", "stats", "pipeline.yaml").stdout.splitlines()
    text = call("ledger", "sources", "pipeline.yaml", "--state", "quarantined").stdout
    assert sorted(text.splitlines()) == [
        "quarantined     3     0  in/0.txt: ApplicationError: own: no such codec",
        "quarantined     3     0  in/2.txt: ApplicationError: own: no such codec",
    ]


def test_an_export_has_the_cause(quarantined: Project, call: Call) -> None:
    lines = call("ledger", "export", "pipeline.yaml").stdout.splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    causes = {row["key"]: row["cause"] for row in rows}
    assert {"in/0.txt": "ApplicationError", "in/1.txt": None, "in/2.txt": "ApplicationError"} == (
        causes
    )
    assert 0 == call("ledger", "export", "pipeline.yaml", "--to", "all.parquet").exit_code
    assert pq.read_table("all.parquet").to_pylist() == rows


def test_quarantined_sources_are_not_tried_and_can_be_tolerated(quarantined: Project) -> None:
    for key in BAD:
        repair(key)
    outcome = attempt(tolerate=2)
    assert ExitCode.COMPLETE == outcome.code
    assert (0, 2) == (outcome.standing.finished, outcome.standing.quarantined)


def test_a_released_source_is_tried_by_the_next_run(quarantined: Project, call: Call) -> None:
    result = release(call, "in/0.txt")
    assert (0, "") == (result.exit_code, result.stderr)
    assert "1 source released, to be tried by the next run\n" == result.stdout
    assert ["in/2.txt"] == list_keys(call)
    repair("in/0.txt")
    outcome = attempt(tolerate=1)
    assert ExitCode.COMPLETE == outcome.code
    assert (1, 1) == (outcome.standing.finished, outcome.standing.quarantined)
    assert 0 == call("verify", "pipeline.yaml").exit_code


def test_a_released_source_has_all_its_tries_again(quarantined: Project, call: Call) -> None:
    release(call, "--all")
    assert [2, 2, 0] == [attempt().standing.failed for _ in range(3)]
    assert list(BAD) == list_keys(call)


def test_all_are_released_at_once(quarantined: Project, call: Call) -> None:
    assert "2 sources released, to be tried by the next run\n" == release(call, "--all").stdout
    assert [] == list_keys(call)
    assert "nothing is quarantined\n" == announce(call, "list", "pipeline.yaml")
    assert "nothing is quarantined\n" == release(call, "--all").stdout
    for key in BAD:
        repair(key)
    assert ExitCode.COMPLETE == attempt().code


def test_a_release_for_scripts(quarantined: Project, call: Call) -> None:
    words = ("in/2.txt", "in/0.txt", "in/2.txt", "--json")
    assert {"released": list(BAD)} == json.loads(release(call, *words).stdout)
    assert {"released": []} == json.loads(release(call, "--all", "--json").stdout)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("in/0.txt", "in/7.txt", "in/1.txt"),
            64,
            "not in quarantine: 'in/1.txt', 'in/7.txt'; no source was released",
        ),
        (
            (),
            64,
            "name the keys to release, or use --all; "
            "see `strandline ledger quarantine release --help`",
        ),
        (
            ("in/0.txt", "--all"),
            64,
            "--all can't be combined with keys; see `strandline ledger quarantine release --help`",
        ),
    ],
)
def test_a_bad_release_gets_one_sentence_and_changes_nothing(
    words: tuple[str, ...], code: int, sentence: str, quarantined: Project, call: Call
) -> None:
    result = release(call, *words)
    assert (code, "", sentence) == (result.exit_code, result.stdout, read_errors(result))
    assert list(BAD) == list_keys(call)


@pytest.mark.parametrize(
    "words", [("list", "pipeline.yaml"), ("release", "pipeline.yaml", "--all")]
)
def test_a_pipeline_without_runs_has_no_quarantine(
    words: tuple[str, ...], project: Project, call: Call
) -> None:
    result = call("ledger", "quarantine", *words)
    assert (65, "") == (result.exit_code, result.stdout)
    assert "there is no ledger here" in read_errors(result)
    assert not project.folder.exists()


def test_a_changed_source_leaves_the_quarantine(quarantined: Project, call: Call) -> None:
    Path("in/0.txt").write_text("other words than before")
    repair("in/0.txt")
    assert 1 == attempt().standing.quarantined
    assert ["in/2.txt"] == list_keys(call)


@pytest.fixture
def driver(quarantined: Project) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that the lease names as the driver of the last attempt."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    found = find_process(process.pid)
    assert found is not None
    store = Store(quarantined.folder / "ledger")
    lease = store.read_meta("lease") | {"pid": found.pid, "started": found.started, "ended": False}
    store.write(Change(meta={"lease": lease | {"boot": read_boot_id()}}))
    store.close()
    yield process
    process.kill()
    process.wait()


def test_nothing_is_released_while_a_driver_lives(
    driver: subprocess.Popen[bytes], call: Call
) -> None:
    result = release(call, "--all")
    assert (69, "") == (result.exit_code, result.stdout)
    told = f"attempt 3 is still running as process {driver.pid}; stop it first"
    assert told == read_errors(result)
    assert list(BAD) == list_keys(call)
    driver.kill()
    driver.wait()
    assert 0 == release(call, "--all").exit_code
    assert [] == list_keys(call)


def test_a_driver_that_starts_while_a_release_waits_is_detected(
    quarantined: Project, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def refuse(*_: object, **__: object) -> None:
        asked.append(is_locked(PipelineFolder(quarantined.folder).writers_lock))
        if len(asked) > 1:
            told = "attempt 4 is still running as process 1; stop it first"
            raise LedgerInUseError(told)

    monkeypatch.setattr("strandline.ledger.access.session.refuse_live_driver", refuse)
    assert 69 == release(call, "--all").exit_code
    assert [False, True] == asked
    assert list(BAD) == list_keys(call)


def is_locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_a_release_takes_no_lease(quarantined: Project, call: Call) -> None:
    """The next attempt gets the next number, and the record of the last attempt's end is kept."""
    before = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    release(call, "--all")
    after = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    assert (3, True) == (after["attempt"], after["ended"])
    assert (2, 0) == (after["inflight"], after["quarantined"])
    assert before["finished"] == after["finished"]
    assert 4 == attempt().attempt


@pytest.mark.parametrize("words", [("list",), ("release", "--all")])
def test_a_bad_manifest_gets_its_own_sentence(
    words: tuple[str, ...], project: Project, call: Call
) -> None:
    project.write("kind: Other")
    name, *rest = words
    result = call("ledger", "quarantine", name, "pipeline.yaml", *rest)
    assert 64 == result.exit_code
    assert read_errors(result)
