"""Driver and operator report the same IDs and ends, so that a lineage listener sees one run."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.lineage import (
    RunEnd,
    is_wanted,
    name_attempt_run,
    name_end,
    name_parent_run,
)

UID = "8f9a2b7c-1d3e-4f50-9a6b-7c8d9e0f1a2b"
ABORTED = {
    "Preempted", "Evicted", "NodeLost", "LedgerInUse", "Interrupted", "QuotaExceeded",
    "UserCancelled", "DeadlineExceeded",
}  # fmt: skip
identities = st.tuples(st.uuids().map(str), st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OPENLINEAGE_URL": "http://localhost:5000"}, True),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_URL": "http://localhost", "OPENLINEAGE_DISABLED": "True"}, False),
    ],
)
def test_the_environment_enables_reporting(environment: dict[str, str], expected: bool) -> None:
    assert is_wanted(environment) is expected


@pytest.mark.parametrize("cause", Cause)
def test_an_external_stop_is_an_abort_and_other_ends_are_failures(cause: Cause) -> None:
    through = RunEnd.COMPLETE if cause is Cause.SOURCES_FAILED else RunEnd.FAIL
    assert name_end(cause) is (RunEnd.ABORT if cause in ABORTED else through)


def test_an_end_without_a_cause_is_complete() -> None:
    assert name_end(None) is RunEnd.COMPLETE


def test_ids_never_change() -> None:
    """IDs are fixed, because a newer operator computes the IDs of a running driver."""
    assert name_attempt_run(UID, "first", 3) == "673d21f5-629f-5745-8d29-8d3b755b39de"
    assert name_parent_run(UID, "first") == "aa2e4a0c-88b5-5289-8dec-64e80f7f7ef9"


@given(identities, identities, st.integers(1, 50), st.integers(1, 50))
def test_two_attempts_never_share_a_run(
    one: tuple[str, str], other: tuple[str, str], number: int, another: int
) -> None:
    ids = {name_attempt_run(*one, number), name_attempt_run(*other, another)}
    assert len(ids) == len({(*one, number), (*other, another)})
    assert {uuid.UUID(each).version for each in ids} == {5}
    assert name_parent_run(*one) not in ids
