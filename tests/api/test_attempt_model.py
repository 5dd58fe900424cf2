"""The attempt's model requires an identity, preserves the status, and matches its CRD."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from status_documents import ATTEMPT_STATUS, junk
from strandline_api.names import name_attempt
from strandline_api.objects.attempt import (
    AttemptOutcome,
    AttemptSpec,
    AttemptStatus,
    CurationAttempt,
    EvidenceRecord,
    PipelineReference,
    parse_attempt_status,
)
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import Evidence, name_cause
from strandline_api.schema.crd import attempt_definition
from strandline_api.status.enums import Trigger
from strandline_api.status.pipeline_status import ProgressCounts
from structural_fit import fits

SCHEMA = attempt_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SMALLEST: dict[str, Any] = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationAttempt",
    "metadata": {"name": "corpus-2", "uid": "u2", "resourceVersion": "7"},
    "spec": {
        "pipeline": "corpus",
        "pipelineUid": "u1",
        "run": "first",
        "number": 2,
        "trigger": "Retry",
    },
}
FULL_SPEC: dict[str, Any] = {
    **SMALLEST["spec"],
    "previous": 1,
    "retryCause": "OOMKilled",
    "fingerprint": "0f" * 16,
    "memory": {"head": "6Gi", "big": 3 * 2**30},
    "onDemand": ["head"],
    "inputs": [{"pipeline": "raw", "run": "first", "output": "s3://corpus/raw"}],
}
FULL_STATUS: dict[str, Any] = {
    "noRoomSince": {"head": "2026-11-21T09:31:05Z"},
    "startLosses": 2,
    "lostHead": "u4",
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Frozen",
            "status": "True",
            "lastTransitionTime": "2026-11-21T10:31:05Z",
            "reason": "EvidenceComplete",
            "message": "",
        }
    ],
    "phase": "Failed",
    "rayJob": {"name": "corpus-2", "uid": "u3"},
    "rayCluster": "corpus-2-x7k2p",
    "config": {"name": "corpus-2", "digest": "0123456789abcdef0123456789abcdef"},
    "startTime": "2026-11-21T10:00:00Z",
    "runningTime": "2026-11-21T10:01:00Z",
    "jobStartTime": "2026-11-21T10:00:58Z",
    "endTime": "2026-11-21T10:31:00Z",
    "driverEndTime": "2026-11-21T10:30:59Z",
    "losses": [
        {
            "cause": "Preempted",
            "message": "spot node node-1 was taken back",
            "source": "pod",
            "details": {"pod": "corpus-2-v", "podUid": "u5"},
            "time": "2026-11-21T10:20:00Z",
            "absorbedTime": "2026-11-21T10:21:00Z",
        }
    ],
    "heldUntil": "2026-11-21T11:01:00Z",
    "cause": "OOMKilled",
    "message": "container ray-worker of pod corpus-2-w was killed for memory",
    "evidence": [
        {
            "cause": "OOMKilled",
            "message": "killed for memory",
            "source": "pod",
            "details": {"pod": "corpus-2-w", "exitCode": 137},
            "time": "2026-11-21T10:30:59Z",
        }
    ],
    "progress": {
        "total": 9,
        "finished": 1,
        "failed": 0,
        "quarantined": 0,
        "skipped": 2,
        "unfinished": 6,
        "text": "3/9",
    },
    "outcome": {
        "exitCode": 137,
        "outcome": "KILLED",
        "message": "killed by signal 9",
        "sources": {
            "total": 9,
            "finished": 1,
            "failed": 0,
            "quarantined": 0,
            "skipped": 2,
            "unfinished": 6,
        },
        "remaining": 7,
    },
    "latest": "0002/p0004",
    "incidents": 1,
    "logTail": ["one", "two"],
    "logFile": "logs/20251125T071100.123Z.log",
    "isFrozen": True,
}


def with_spec(**changes: object) -> dict[str, Any]:
    document = copy.deepcopy(SMALLEST)
    document["spec"] |= changes
    return document


# --- The object


def test_the_smallest_attempt_is_read() -> None:
    spec = AttemptSpec.parse(SMALLEST["spec"])
    assert SMALLEST["metadata"]["name"] == name_attempt(spec.pipeline, spec.number)
    assert (spec.trigger, spec.previous) == (Trigger.RETRY, None)
    assert parse_attempt_status(None) == AttemptStatus()
    assert fits(SCHEMA, SMALLEST)


def test_a_full_attempt_is_read_and_written_unchanged() -> None:
    document = {**SMALLEST, "spec": FULL_SPEC, "status": FULL_STATUS}
    assert fits(SCHEMA, document)
    assert FULL_STATUS.keys() == ATTEMPT_STATUS["properties"].keys()
    assert FULL_SPEC.keys() == SCHEMA["properties"]["spec"]["properties"].keys()
    assert AttemptSpec.parse(FULL_SPEC).to_json() == FULL_SPEC
    assert parse_attempt_status(FULL_STATUS).to_json() == FULL_STATUS


def test_raised_memory_is_in_bytes() -> None:
    spec = AttemptSpec.parse(FULL_SPEC)
    assert spec.memory_bytes == {"head": 6 * 2**30, "big": 3 * 2**30}


unknown_names = st.text(max_size=4).filter(
    lambda name: name not in SCHEMA["properties"]["spec"]["properties"] | SCHEMA["properties"]
)


@given(st.dictionaries(unknown_names, junk), junk)
def test_fields_of_another_version_are_ignored(added: dict[str, object], value: object) -> None:
    document = with_spec(**added, retryCause=value, memory=value, trigger=value)
    spec = AttemptSpec.parse(document["spec"])
    assert (spec.pipeline, spec.number) == ("corpus", 2)
    assert spec.trigger is Trigger.RETRY
    assert isinstance(parse_attempt_status(value), AttemptStatus)


def test_a_cause_of_another_version_costs_a_retry_and_is_unknown() -> None:
    spec = AttemptSpec.parse(with_spec(trigger="Moon", retryCause="Vaporised")["spec"])
    assert (spec.trigger, spec.retry_cause) == (Trigger.RETRY, Cause.UNKNOWN)


@pytest.mark.parametrize(
    "changes", [{"number": 0}, {"pipelineUid": ""}, {"pipeline": None}, {"run": None}]
)
def test_an_attempt_without_an_identity_is_rejected(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AttemptSpec.parse(with_spec(**changes)["spec"])


@pytest.mark.parametrize(
    "changes",
    [{"number": 0}, {"number": "2"}, {"run": "First"}, {"memory": {"head": "2GB"}}, {"later": 1}],
)
def test_the_schema_rejects_invalid_attempts(changes: dict[str, object]) -> None:
    assert not fits(SCHEMA, with_spec(**changes))


def test_a_constructed_spec_is_validated() -> None:
    made = AttemptSpec(
        pipeline="corpus", pipeline_uid="u1", run="first", number=1, trigger=Trigger.RUN
    )
    assert made.to_json() == {
        "pipeline": "corpus",
        "pipelineUid": "u1",
        "run": "first",
        "number": 1,
        "trigger": "Run",
    }
    with pytest.raises(ValidationError):
        made.model_copy(update={"number": 0})


def test_the_definition_is_generated_from_the_model() -> None:
    assert SCHEMA["properties"].keys() == {
        str(field.alias) for field in CurationAttempt.model_fields.values()
    }


# --- Evidence

pieces = st.builds(
    Evidence,
    st.sampled_from(Cause),
    st.text(),
    st.text(),
    st.dictionaries(st.text(), st.text() | st.integers(), max_size=30),
)


@given(pieces, st.none() | st.floats(0, 4e9))
def test_any_evidence_can_be_stored_and_yields_the_same_cause(
    evidence: Evidence, time: float | None
) -> None:
    status = AttemptStatus(evidence=(EvidenceRecord.from_evidence(evidence, time),))
    assert fits(ATTEMPT_STATUS, status.to_json())
    (kept,) = parse_attempt_status(status.to_json()).observations
    assert name_cause([kept]).cause is evidence.cause
    assert kept.details.keys() <= evidence.details.keys()
    assert (status.evidence[0].time is None) == (time is None)


def test_short_evidence_is_stored_unchanged() -> None:
    evidence = Evidence(Cause.EVICTED, "node drained", "pod", {"pod": "p", "exitCode": 143})
    assert EvidenceRecord.from_evidence(evidence).evidence == evidence


def test_the_first_records_of_long_evidence_are_kept() -> None:
    records = tuple(EvidenceRecord(cause=Cause.KILLED, message=str(number)) for number in range(99))
    kept = AttemptStatus(evidence=records).evidence
    assert [record.message for record in kept] == [str(number) for number in range(20)]


def test_parts_are_constructed_with_python_names() -> None:
    status = AttemptStatus(
        ray_job=PipelineReference(name="corpus-2", uid="u3"),
        outcome=AttemptOutcome(exit_code=0, outcome="COMPLETE", sources=ProgressCounts(total=1)),
    )
    assert status.to_json()["rayJob"] == {"name": "corpus-2", "uid": "u3"}
    assert status.to_json()["outcome"]["exitCode"] == 0
