"""Statuses of any version can be read, and are written in a form that the API server accepts."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline_documents import with_change
from status_documents import ATTEMPT_STATUS, PIPELINE_STATUS, junk, like
from strandline_api.documents.documents import parse_pipeline
from strandline_api.law.retry import Spent
from strandline_api.objects.attempt import AttemptStatus, parse_attempt_status
from strandline_api.outcome.causes import Cause
from strandline_api.status.enums import AttemptPhase, PipelinePhase, Trigger
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.pipeline_status import (
    Condition,
    PastAttemptRecord,
    PipelineStatus,
    Progress,
    ProgressCounts,
    parse_status,
)
from strandline_api.status.records import MAX_COUNT
from strandline_api.status.usage.retry_counts import RetryCounts
from structural_fit import fits

FULL: dict[str, Any] = {
    "observedGeneration": 4,
    "conditions": [
        {
            "type": "Succeeded",
            "status": "Unknown",
            "observedGeneration": 4,
            "lastTransitionTime": "2026-11-21T10:30:05Z",
            "reason": "WaitingToRetry",
            "message": "attempt 2 of 4 follows",
        }
    ],
    "phase": "Waiting",
    "run": "first",
    "requestedRun": "first",
    "schedule": {
        "rule": "0 3 * * * UTC",
        "lastTime": "2026-11-21T03:00:00Z",
        "nextTime": "2026-11-22T03:00:00Z",
        "missed": 1,
        "lastMissedTime": "2026-11-20T03:00:00Z",
    },
    "runStartTime": "2026-11-21T09:00:00Z",
    "runClock": {"pausedSeconds": 90.5, "pausedSince": "2026-11-21T10:30:30Z"},
    "preflight": {
        "key": "0123456789abcdef",
        "verdict": "Failed",
        "message": "stages[0].with.wrods: Extra inputs are not permitted",
        "image": "strandline/runtime@sha256:00",
        "generation": 3,
        "time": "2026-11-21T10:00:05Z",
    },
    "attempt": 7,
    "state": "retry 1 of 3 at 10:31:05 after OOMKilled",
    "retries": {"attempts": 7, "retries": 1, "disruptions": 3, "cause": "OOMKilled", "through": 7},
    "incidents": 2,
    "work": {
        "seconds": 120.5,
        "lost": {"node": 12.5, "memory": 0.0, "kill": 0.0, "timeout": 0.0, "stop": 1.0},
    },
    "summary": "retry 1 of 3 at 10:31:05 after OOMKilled",
    "nextAttemptTime": "2026-11-21T10:31:05.250Z",
    "nextStartTime": "2026-11-21T10:31:05.250Z",
    "retryCause": "OOMKilled",
    "retryTrigger": "Retry",
    "memory": {"head": "6Gi", "big": 1024},
    "memoryRequested": {"head": "4Gi", "big": 512},
    "spot": [
        {
            "name": "head",
            "disruptions": 2,
            "onDemandSince": "2026-11-21T10:31:05Z",
            "reason": "lost its node 2 times",
        }
    ],
    "progress": {
        "total": 1000,
        "finished": 20,
        "failed": 1,
        "quarantined": 2,
        "skipped": 100,
        "unfinished": 877,
        "ratePerSecond": 1.5,
        "secondsLeft": 584.7,
        "time": "2026-11-21T10:30:00Z",
        "text": "120/1000",
    },
    "latest": "attempts/0007/p0003",
    "volumeClaim": "corpus-ledger",
    "attempts": [
        {
            "number": 7,
            "name": "corpus-7",
            "run": "first",
            "cause": "OOMKilled",
            "startTime": "2026-11-21T10:00:00Z",
            "endTime": "2026-11-21T10:30:05Z",
            "finished": 20,
            "lineage": "Sent",
        }
    ],
    "completedRuns": ["zeroth"],
    "inputs": [
        {
            "pipeline": "raw",
            "uid": "0f4e3a52-7d5d-4a52-9bb2-2c0b7f1f0a11",
            "run": "first",
            "generation": 3,
            "published": "attempts/0003/p0007",
            "output": "/var/lib/strandline-inputs/raw-ledger/team/raw/output",
            "outputClaim": "raw-ledger",
            "ledgerClaim": "raw-ledger",
        }
    ],
    "handled": {"retry": "1", "cancel": "2"},
    "lastAttemptTime": "2026-11-21T10:00:00Z",
    "defaults": {
        "digest": "0f4e3a527d5d4a52",
        "missingSince": "2026-11-21T10:00:00Z",
        "output": {"url": "s3://team/clean", "claimName": "shared"},
    },
}


# --- Reading


@given(like(PIPELINE_STATUS))
def test_any_pipeline_status_can_be_read_and_written(
    document: object,
) -> None:
    status = parse_status(document)
    assert fits(PIPELINE_STATUS, status.to_json())
    assert parse_status(json.loads(json.dumps(status.to_json()))) == status


@given(like(ATTEMPT_STATUS))
def test_any_attempt_status_can_be_read_and_written(
    document: object,
) -> None:
    status = parse_attempt_status(document)
    assert fits(ATTEMPT_STATUS, status.to_json())
    assert parse_attempt_status(json.loads(json.dumps(status.to_json()))) == status


@given(st.sampled_from(sorted(FULL)), junk)
def test_an_unreadable_field_does_not_affect_others(name: str, value: object) -> None:
    read = dict(parse_status({**FULL, name: value}))
    whole = dict(parse_status(FULL))
    assert [field for field in whole if read[field] != whole[field]] in (
        [],
        [field for field, info in PipelineStatus.model_fields.items() if info.alias == name],
    )


def test_a_full_status_is_read_and_written_unchanged() -> None:
    assert fits(PIPELINE_STATUS, FULL)
    assert FULL.keys() == PIPELINE_STATUS["properties"].keys()
    assert parse_status(FULL).to_json() == FULL


def test_unknown_strings_of_another_version_become_defaults() -> None:
    status = parse_status(
        {"phase": "Paused", "retryCause": "Vaporised", "retryTrigger": "Moon", "run": "first"}
    )
    assert status.phase is PipelinePhase.PENDING
    assert status.retry_cause is Cause.UNKNOWN
    assert status.retry_trigger is Trigger.RETRY
    assert status.run == "first"
    assert parse_attempt_status({"phase": "Paused"}).phase is AttemptPhase.PENDING


def test_readable_items_of_a_list_are_kept() -> None:
    entries = [*FULL["conditions"], "junk", {"status": "True"}, {"type": "New", "later": 1}]
    assert [each.type for each in parse_status({"conditions": entries}).conditions] == [
        *("Succeeded", "New")
    ]


def test_readable_entries_of_a_map_are_kept() -> None:
    assert parse_status({"memory": {"head": "6Gi", "big": "much", "w": 7}}).memory == {
        "head": "6Gi",
        "w": 7,
    }


def test_a_missing_status_is_that_of_a_new_pipeline() -> None:
    assert parse_status(None) == parse_status({}) == PipelineStatus()
    assert PipelineStatus().to_json() == {"phase": "Pending", "attempt": 0, "incidents": 0}
    assert PipelineStatus().spent == Spent()


@pytest.mark.parametrize("status", [FULL, {"phase": "Paused", "new": 1}, 5, "x", [], None])
def test_a_manifest_may_have_any_status(status: object) -> None:
    pipeline = parse_pipeline(with_change("status", status))
    assert pipeline.status == parse_status(status)
    assert pipeline.spec == parse_pipeline(with_change("metadata.name", "corpus")).spec


# --- Making


def test_a_wrong_value_is_an_error_at_construction() -> None:
    with pytest.raises(ValidationError):
        PipelineStatus(attempt=-1)
    with pytest.raises(ValidationError):
        Progress(finished=MAX_COUNT + 1)
    with pytest.raises(ValidationError):
        Progress(rate_per_second=math.nan)


def test_long_texts_are_cut() -> None:
    status = AttemptStatus(message="m" * 5000, log_tail=tuple(f"{n:04}" * 200 for n in range(99)))
    assert (len(status.message), status.message[-4:]) == (1024, "m...")
    assert [line[:4] for line in status.log_tail] == [f"{n:04}" for n in range(89, 99)]
    assert {len(line) for line in status.log_tail} == {400}
    assert fits(ATTEMPT_STATUS, status.to_json())


def test_the_newest_attempts_and_the_first_conditions_are_kept() -> None:
    status = PipelineStatus(
        attempts=tuple(PastAttemptRecord(number=number) for number in range(1, 200)),
        conditions=tuple(Condition(type=f"T{number}") for number in range(99)),
    )
    assert [attempt.number for attempt in status.attempts] == list(range(100, 200))
    assert [condition.type for condition in status.conditions] == [f"T{n}" for n in range(16)]


def test_odd_bytes_can_be_written() -> None:
    assert AttemptStatus(message="caf\udce9").to_json()["message"] == "caf\\udce9"


def test_an_empty_condition_is_written_in_full() -> None:
    assert Condition(type="Stalled").to_json() == {
        "type": "Stalled",
        "status": "Unknown",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
        "reason": "Unknown",
        "message": "",
    }


@given(st.floats(0, 4e9))
def test_a_time_is_stored_with_the_precision_of_reading(seconds: float) -> None:
    status = PipelineStatus(next_attempt_time=seconds)
    assert parse_status(status.to_json()) == status
    assert status.next_attempt_time == pytest.approx(seconds, abs=0.00051)


def test_a_changed_copy_is_checked_and_cut_too() -> None:
    status = PipelineStatus(run="first", attempt=3)
    assert status.model_copy(update={"attempt": 4, "state": "s" * 2000}).to_json() == {
        "phase": "Pending",
        "run": "first",
        "attempt": 4,
        "state": "s" * 1021 + "...",
        "incidents": 0,
    }
    with pytest.raises(ValidationError):
        status.model_copy(update={"attempt": -1})


# --- Parts


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"total": 1000, "finished": 20, "skipped": 100}, "120/1000"),
        ({"finished": 3}, "3/?"),
        ({"total": 0}, "0/0"),
        ({"total": 5, "finished": 1, "text": "old"}, "1/5"),
    ],
)
def test_progress_shows_finished_and_total_sources(counts: dict[str, Any], text: str) -> None:
    assert Progress.parse(counts).text == text
    changed = Progress.parse(counts).model_copy(update={"skipped": 7, "finished": 0})
    assert changed.text.startswith("7/")


def test_a_drivers_progress_is_read_as_tolerantly() -> None:
    said = {"total": 9, "finished": 10**30, "failed": "many", "ratePerSecond": math.inf}
    assert Progress.parse(said) == Progress(total=9)
    assert ProgressCounts.parse("nothing") == ProgressCounts()


@given(
    st.builds(
        Spent,
        st.integers(0, 999),
        st.integers(0, 99),
        st.integers(0, 99),
        st.none() | st.sampled_from(Cause),
        st.integers(0, 99),
    )
)
def test_spent_retries_survive_the_status(spent: Spent) -> None:
    status = PipelineStatus(retries=RetryCounts.from_spent(spent, through=7))
    assert parse_status(status.to_json()).spent == spent


def test_conditions_are_found_by_type() -> None:
    status = parse_status(FULL)
    found = status.find_condition("Succeeded")
    assert found is not None
    assert found.reason == "WaitingToRetry"
    assert status.find_condition("Stalled") is None
    assert parse_attempt_status({}).find_condition("Frozen") is None


@given(st.dictionaries(st.sampled_from(["strandline.dev/retry", "other"]), st.text()))
def test_a_handled_request_is_recognized_after_a_restart(
    annotations: dict[str, str],
) -> None:
    seen = HandledTokens.from_annotations(annotations)
    assert (HandledTokens.parse(seen.to_json()), seen.cancel) == (seen, "")


def test_long_requests_with_equal_prefixes_differ() -> None:
    requests = {
        HandledTokens.from_annotations({"strandline.dev/cancel": "x" * length}).cancel
        for length in (0, 1, 256, 257, 258)
    }
    assert len(requests) == 5
    assert all(len(request) <= 256 for request in requests)


def test_an_unchanged_copy_is_the_same_object_and_changes_are_validated() -> None:
    status = PipelineStatus(attempt=1, state="it runs")
    assert status.model_copy(update={"attempt": 1, "state": "it runs"}) is status
    assert status.model_copy(update={}) is status
    assert status.model_copy(update={"attempt": 2}).attempt == 2
    for almost in (True, 1.0, "1"):
        with pytest.raises(ValidationError):
            status.model_copy(update={"attempt": almost})
    assert status.model_copy(deep=True) == status
