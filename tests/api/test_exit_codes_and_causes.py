"""Exit codes and causes, on which other programs rely, never change by accident."""

import pytest

from strandline_api.outcome.causes import RETRYABLE_CAUSES, Cause, Treatment
from strandline_api.outcome.exit_codes import ExitCode

CODES = {
    "COMPLETE": 0,
    "APPLICATION_ERROR": 1,
    "SOURCES_FAILED": 3,
    "QUARANTINE_EXCEEDED": 4,
    "REQUIREMENTS_NOT_MET": 5,
    "BUDGET_SPENT": 6,
    "BAD_SPEC": 64,
    "LEDGER_MISMATCH": 65,
    "LEDGER_IN_USE": 69,
    "NOT_DETERMINISTIC": 70,
    "VOLUME_UNUSABLE": 73,
    "INTERRUPTED": 75,
}
WAITED = {"QuotaExceeded"}
DISRUPTIONS = {
    "Preempted",
    "Evicted",
    "NodeLost",
    "LedgerInUse",
    "Interrupted",
}
RETRIED = {
    "OOMKilled",
    "Timeout",
    "Killed",
    "ImagePullFailure",
    "SchedulingTimeout",
    "SubmissionFailed",
    "RayNotStarted",
    "Stalled",
    "ModelUnavailable",
    "SourcesFailed",
    "ApplicationError",
    "Unknown",
}
NEVER = {
    "UserCancelled",
    "InvalidSpec",
    "NonDeterministic",
    "LedgerMismatch",
    "VolumeUnusable",
    "QuarantineExceeded",
    "RequirementsNotMet",
    "BudgetSpent",
    "DeadlineExceeded",
}


def test_exit_codes_are_the_published_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == CODES


@pytest.mark.parametrize("code", list(ExitCode))
def test_each_exit_code_has_one_sentence(code: ExitCode) -> None:
    assert code.meaning.endswith(".")
    assert code.meaning.count(".") == 1
    assert code.meaning[0].isupper()


def test_exit_codes_have_different_meanings() -> None:
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)


@pytest.mark.parametrize(
    ("treatment", "names"),
    [
        (Treatment.DISRUPTION, DISRUPTIONS),
        (Treatment.RETRIED, RETRIED),
        (Treatment.WAITED, WAITED),
        (Treatment.NEVER, NEVER),
    ],
)
def test_causes_have_the_published_treatment(treatment: Treatment, names: set[str]) -> None:
    assert {str(cause) for cause in Cause if cause.treatment is treatment} == names


def test_all_causes_except_final_ones_are_retryable() -> None:
    assert {str(cause) for cause in RETRYABLE_CAUSES} == DISRUPTIONS | RETRIED | WAITED
