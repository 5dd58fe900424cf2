"""`strandline attempts` shows the chain as a table or as JSON, or one attempt in full."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from cli_project import Call, Project, read_errors
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.run.insight.records import AttemptRecord, Witness
from strandline.run.supervise.record_writing import write_record
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.volume.locks import Process, find_process, read_boot_id
from strandline.storage.volume.publications import publish
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.status.enums import Trigger

NOON = 1_700_000_000.0 - 1_700_000_000.0 % 86_400 + 43_200
GONE = Process(2**22 + 1, 1)  # larger than any pid
OOM = Evidence(Cause.OOM_KILLED, "the kernel killed a process of this cgroup", "cgroup")
KILLED = DriverOutcome(
    exit_code=137,
    message="the kernel killed a process of this cgroup for memory",
    attempt=1,
    sources=SourceCounts(finished=1234),
    remaining=5000,
    evidence=(OOM, *filter(None, [read_exit(-9)])),
    memory_kills=1,
)
COMPLETE = DriverOutcome(
    message="complete: all 5,000 sources are finished",
    exit_code=0,
    attempt=2,
    sources=SourceCounts(total=5000, finished=3766, skipped=1234),
    remaining=3766,
)


@pytest.fixture
def folder(project: Project) -> PipelineFolder:
    return PipelineFolder(project.folder)


def make_record(number: int, process: Process = GONE, **changes: Any) -> AttemptRecord:
    record = AttemptRecord(
        number=number,
        run="first",
        trigger=Trigger.RETRY if number > 1 else Trigger.RUN,
        previous=number - 1 or None,
        ledger="0123abcd",
        boot="boot-1",
        pid=process.pid,
        process_started=process.started,
        started=NOON + 1000 * number,
    )
    return record.model_copy(update=changes)


@pytest.fixture
def chain(folder: PipelineFolder) -> list[AttemptRecord]:
    """Record a killed attempt, a complete one with two publications, and a lost manual one."""
    records = [
        make_record(1).end(KILLED, NOON + 1090, Witness.SUPERVISOR),
        make_record(2).end(COMPLETE, NOON + 9200.5, Witness.DRIVER),
        make_record(3, trigger=Trigger.MANUAL, run="second\n", boot=read_boot_id()),
    ]
    for record in records:
        write_record(folder, record)
    for _ in range(2):
        publish(folder, 2, {}, {})
    folder.publication(2, 3).mkdir()  # an incomplete publication
    return records


@pytest.mark.usefixtures("chain")
def test_the_chain_is_a_table(call: Call, golden: Callable[[str, str], None]) -> None:
    result = call("attempts", "pipeline.yaml")
    assert (0, "") == (result.exit_code, result.stderr)
    golden("cli/attempts.txt", result.stdout)
    assert result.stdout == call("attempts", "list", "pipeline.yaml").stdout


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_attempt_is_shown_in_full(
    number: int, call: Call, golden: Callable[[str, str], None]
) -> None:
    result = call("attempts", "show", "pipeline.yaml", str(number))
    assert (0, "") == (result.exit_code, result.stderr)
    golden(f"cli/attempt_{number}.txt", result.stdout.replace(read_boot_id(), "BOOT"))


@pytest.mark.usefixtures("chain")
def test_scripts_get_an_object_per_attempt(call: Call) -> None:
    result = call("attempts", "pipeline.yaml", "--json")
    first, second, third = (json.loads(line) for line in result.stdout.splitlines())
    assert first == {
        "attempt": 1,
        "run": "first",
        "trigger": "Run",
        "previous": None,
        "started": "2023-11-14T12:16:40Z",
        "ended": "2023-11-14T12:18:10Z",
        "seconds": 90.0,
        "finished": 1234,
        "state": "ended",
        "cause": "OOMKilled",
        "exitCode": 137,
        "message": "the kernel killed a process of this cgroup for memory",
    }
    assert ("completed", None, 0, 7200.5) == (
        second["state"],
        second["cause"],
        second["exitCode"],
        second["seconds"],
    )
    assert ("gone", None, None, None) == (
        third["state"],
        third["ended"],
        third["seconds"],
        third["exitCode"],
    )


@pytest.mark.usefixtures("chain")
def test_scripts_get_one_attempt_in_full(call: Call) -> None:
    killed, complete, gone = (
        json.loads(call("attempts", "show", "pipeline.yaml", number, "--json").stdout)
        for number in "123"
    )
    listed = json.loads(call("attempts", "pipeline.yaml", "--json").stdout.splitlines()[0])
    assert listed == {name: killed[name] for name in listed}
    assert {name: value for name, value in killed.items() if name not in listed} == {
        "sources": {
            "total": None,
            "finished": 1234,
            "failed": 0,
            "quarantined": 0,
            "skipped": 0,
            "unfinished": 0,
        },
        "remaining": 5000,
        "memoryKills": 1,
        "evidence": [each.to_json() for each in KILLED.evidence],
        "witness": "supervisor",
        "process": {"pid": GONE.pid, "started": 1, "boot": "boot-1"},
        "ledger": "0123abcd",
        "publications": [],
    }
    assert ["0002/p0001", "0002/p0002"] == complete["publications"]
    assert (None, [], None) == (gone["sources"], gone["evidence"], gone["witness"])


def see(call: Call) -> tuple[str, float | None, int, str]:
    result = json.loads(call("attempts", "pipeline.yaml", "--json").stdout)
    return result["state"], result["seconds"], result["finished"], result["message"]


def test_an_attempt_without_an_end_is_running_gone_or_unknown(
    folder: PipelineFolder, call: Call
) -> None:
    own = find_process(os.getpid())
    assert own is not None
    make_folder(folder.ledger)
    with closing(Store(folder.ledger)) as store:
        store.write(Change(meta={"progress": {"attempt": 1, "finished": 7, "remaining": 9}}))
    write_record(folder, make_record(1, own, boot=read_boot_id()))
    state, seconds, finished, message = see(call)
    assert ("running", 7, "") == (state, finished, message)
    assert seconds is not None
    assert seconds > 1e6  # the attempt began in 2023
    write_record(folder, make_record(1, own._replace(started=1), boot=read_boot_id()))
    told = "its end was not observed; the next attempt records what is known"
    assert ("gone", None, 7, told) == see(call)
    write_record(folder, make_record(1, own))
    told = "it is running on another host or in another container, or its end was not observed"
    assert ("unknown", None, 7, told) == see(call)


def test_missing_attempts_are_reported(project: Project, call: Call) -> None:
    assert "there is no attempt yet\n" == call("attempts", "pipeline.yaml").stdout
    assert "" == call("attempts", "pipeline.yaml", "--json").stdout
    result = call("attempts", "show", "pipeline.yaml", "1")
    assert 64 == result.exit_code
    assert "there is no attempt 1: the pipeline has no attempts yet" == read_errors(result)
    assert not project.folder.exists()


def test_an_unknown_attempt_gets_one_sentence(folder: PipelineFolder, call: Call) -> None:
    write_record(folder, make_record(4))
    result = call("attempts", "show", "pipeline.yaml", "9")
    assert 64 == result.exit_code
    assert "there is no record of attempt 9; recorded are only 4" == read_errors(result)
    write_record(folder, make_record(7))
    result = call("attempts", "show", "pipeline.yaml", "9")
    assert "there is no record of attempt 9; recorded are 4 to 7" == read_errors(result)


@pytest.mark.parametrize("words", [("show", "pipeline.yaml"), ("show", "pipeline.yaml", "0"), ()])
@pytest.mark.usefixtures("project")
def test_a_wrong_command_line_exits_as_such(words: tuple[str, ...], call: Call) -> None:
    assert 64 == call("attempts", *words).exit_code


def test_another_pipelines_attempts_are_not_shown(chain: list[AttemptRecord], call: Call) -> None:
    result = call("attempts", "pipeline.yaml", "--set", "metadata.name=other")
    assert "there is no attempt yet\n" == result.stdout
    result = call("attempts", "pipeline.yaml", "--volume", "elsewhere")
    assert "there is no attempt yet\n" == result.stdout
    assert 3 == len(chain)


def test_a_missing_stage_hides_no_attempt(
    project: Project, folder: PipelineFolder, call: Call
) -> None:
    write_record(folder, make_record(1))
    project.spec["stages"].append({"use": "gone_module:Gone"})
    project.save()
    assert 2 == len(call("attempts", "pipeline.yaml").stdout.splitlines())
