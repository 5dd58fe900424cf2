"""Evidence has a fixed format, exit codes have a meaning, and a ranking determines the cause."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.evidence import (
    PRECEDENCE,
    Evidence,
    find_signal,
    name_cause,
    read_exit,
    to_exit_code,
)
from strandline_api.outcome.exit_codes import ExitCode

# The published ranking. A cause takes precedence over all causes of later lines.
RANKS = [
    {"UserCancelled"},
    {"DeadlineExceeded"},
    {"InvalidSpec", "LedgerMismatch", "NonDeterministic", "VolumeUnusable"},
    {"Preempted", "Evicted", "NodeLost", "Interrupted"},
    {"OOMKilled"},
    {"Killed"},
    {"SubmissionFailed", "ImagePullFailure", "SchedulingTimeout"},
    {"ApplicationError", "SourcesFailed"},
    {"Unknown"},
]
# Causes that are not in the published ranking, each with the causes before and after it.
BETWEEN = {
    "QuarantineExceeded": ("DeadlineExceeded", "Preempted"),
    "RequirementsNotMet": ("DeadlineExceeded", "Preempted"),
    "QuotaExceeded": ("DeadlineExceeded", "Preempted"),
    "BudgetSpent": ("DeadlineExceeded", "Preempted"),
    # A ledger is refused independently of the pod's fate.
    "LedgerInUse": ("DeadlineExceeded", "OOMKilled"),
    "Stalled": ("OOMKilled", "Killed"),
    # The exit code alone would give ApplicationError.
    "ModelUnavailable": ("SubmissionFailed", "ApplicationError"),
}

details = st.dictionaries(st.text(), st.text() | st.integers(), max_size=4)
pieces = st.builds(Evidence, st.sampled_from(Cause), st.text(), st.text(), details)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def seen(cause: Cause, message: str = "") -> Evidence:
    return Evidence(cause, message, "test")


# --- Precedence


def test_every_cause_has_exactly_one_rank() -> None:
    assert sorted(PRECEDENCE) == sorted(Cause)


@pytest.mark.parametrize(("above", "below"), [*combinations(range(len(RANKS)), 2)])
def test_an_earlier_rank_wins_in_any_order(above: int, below: int) -> None:
    for winner in RANKS[above]:
        for loser in RANKS[below]:
            pair = [seen(Cause(winner)), seen(Cause(loser))]
            assert name_cause(pair).cause == winner
            assert name_cause(reversed(pair)).cause == winner


@pytest.mark.parametrize("name", BETWEEN)
def test_the_other_causes_rank_between_their_neighbors(name: str) -> None:
    above, below = BETWEEN[name]
    assert name_cause([seen(Cause(name)), seen(Cause(above))]).cause == above
    assert name_cause([seen(Cause(below)), seen(Cause(name))]).cause == name


def test_pod_evidence_of_a_disruption_precedes_the_drivers() -> None:
    for cause in (Cause.PREEMPTED, Cause.EVICTED, Cause.NODE_LOST):
        assert name_cause([seen(Cause.INTERRUPTED), seen(cause)]).cause is cause


def test_a_retryable_cause_does_not_hide_a_final_cause() -> None:
    final = [cause for cause in PRECEDENCE if cause.treatment is Treatment.NEVER]
    assert tuple(final) == PRECEDENCE[: len(final)]


@given(st.lists(pieces, min_size=1))
def test_the_first_of_equally_ranked_evidence_is_named(evidence: list[Evidence]) -> None:
    named = name_cause(iter(evidence))
    rank = PRECEDENCE.index(named.cause)
    at = next(at for at, piece in enumerate(evidence) if piece is named)
    assert all(PRECEDENCE.index(piece.cause) > rank for piece in evidence[:at])
    assert all(PRECEDENCE.index(piece.cause) >= rank for piece in evidence[at:])


def test_without_evidence_the_cause_is_unknown() -> None:
    assert name_cause([]) == Evidence(
        Cause.UNKNOWN, "no evidence explains why the attempt ended", ""
    )


# --- Exit codes


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (1, Cause.APPLICATION_ERROR),
        (3, Cause.SOURCES_FAILED),
        (4, Cause.QUARANTINE_EXCEEDED),
        (5, Cause.REQUIREMENTS_NOT_MET),
        (6, Cause.BUDGET_SPENT),
        (64, Cause.INVALID_SPEC),
        (65, Cause.LEDGER_MISMATCH),
        (70, Cause.NON_DETERMINISTIC),
        (73, Cause.VOLUME_UNUSABLE),
        (75, Cause.INTERRUPTED),
    ],
)
def test_a_documented_exit_code_yields_its_cause(code: int, cause: Cause) -> None:
    message = f"exit code {code}: {ExitCode(code).meaning}"
    assert read_exit(code) == Evidence(cause, message, "exit code", {"exitCode": code})


def test_success_is_no_evidence() -> None:
    assert read_exit(0) is None


@pytest.mark.parametrize("code", [c for c in ExitCode if c is not ExitCode.COMPLETE])
def test_every_documented_exit_code_has_evidence(code: ExitCode) -> None:
    evidence = read_exit(code)
    assert evidence is not None
    assert code.meaning in evidence.message


@pytest.mark.parametrize(
    ("code", "cause", "message", "details"),
    [
        (
            137,
            Cause.KILLED,
            "killed by signal 9 (SIGKILL)",
            {"exitCode": 137, "signal": "SIGKILL"},
        ),
        (
            143,
            Cause.KILLED,
            "killed by signal 15 (SIGTERM)",
            {"exitCode": 143, "signal": "SIGTERM"},
        ),
        (130, Cause.KILLED, "killed by signal 2 (SIGINT)", {"exitCode": 130, "signal": "SIGINT"}),
        (
            139,
            Cause.APPLICATION_ERROR,
            "crashed with signal 11 (SIGSEGV)",
            {"exitCode": 139, "signal": "SIGSEGV"},
        ),
        (
            134,
            Cause.APPLICATION_ERROR,
            "crashed with signal 6 (SIGABRT)",
            {"exitCode": 134, "signal": "SIGABRT"},
        ),
        (168, Cause.KILLED, "killed by signal 40", {"exitCode": 168, "signal": "40"}),
    ],
)
def test_a_signal_is_read_from_both_notations(
    code: int, cause: Cause, message: str, details: dict[str, str | int]
) -> None:
    expected = Evidence(cause, message, "signal", details)
    assert read_exit(code) == expected
    assert read_exit(128 - code) == expected


@pytest.mark.parametrize("code", [2, 74, 127, 128, 193, 255])
def test_any_other_code_is_an_application_error(code: int) -> None:
    assert read_exit(code) == Evidence(
        Cause.APPLICATION_ERROR, f"exit code {code}", "exit code", {"exitCode": code}
    )


@given(st.integers())
def test_any_number_yields_evidence(code: int) -> None:
    evidence = read_exit(code)
    assert (evidence is None) == (code == 0)
    assert find_signal(code) == find_signal(to_exit_code(code)) or code < -64


@pytest.mark.parametrize(("returncode", "code"), [(0, 0), (75, 75), (-9, 137), (-15, 143)])
def test_a_returncode_is_converted_as_in_a_shell(returncode: int, code: int) -> None:
    assert to_exit_code(returncode) == code


# --- As JSON


def test_evidence_is_serialized_with_documented_names() -> None:
    evidence = Evidence(Cause.OOM_KILLED, "killed", "cgroup", {"pod": "head", "exitCode": 137})
    assert evidence.to_json() == {
        "cause": "OOMKilled",
        "message": "killed",
        "source": "cgroup",
        "details": {"pod": "head", "exitCode": 137},
    }
    assert "details" not in seen(Cause.KILLED).to_json()


@given(pieces)
def test_evidence_survives_json(evidence: Evidence) -> None:
    assert Evidence.from_json(json.loads(json.dumps(evidence.to_json()))) == evidence


@given(json_values)
def test_evidence_of_any_version_can_be_read(written: object) -> None:
    for value in (written, {"cause": written, "message": written, "details": {"pod": written}}):
        read = Evidence.from_json(value)
        assert Evidence.from_json(read.to_json()) == read


def test_fields_of_a_later_version_are_ignored() -> None:
    written = {
        "cause": "MeteorStrike",
        "message": "gone",
        "weight": 3,
        "details": {"pod": "head", "share": 0.5, "is": True, "tree": [1], "none": None},
    }
    assert Evidence.from_json(written) == Evidence(
        Cause.UNKNOWN, "gone", "", {"pod": "head", "share": "0.5", "is": "True"}
    )
    assert Evidence.from_json({}) == Evidence(Cause.UNKNOWN, "", "")
