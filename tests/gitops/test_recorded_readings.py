"""Flux and Argo CD read every status of every recording correctly, with their own libraries."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from reading_law import (
    GONE,
    UNSEEN,
    Pair,
    Sight,
    expect_attempt,
    expect_rayjob,
    read_sights,
)
from readings import Reader, Reading
from recordings import list_recordings, read_recording

Body = dict[str, Any]
Change = Callable[[Body], Body]

OWNER = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationAttempt", "name": "corpus-1"}
# First letters: Flux waits, is satisfied while the run is in progress, and reports a failure.
FLUX_ORDER = re.compile(r"I*C*F*")
ARGO_ORDER = re.compile(r"P*(H*|D*)")
everywhere = pytest.mark.parametrize("scenario", list_recordings())


@cache
def read_all(reader: Reader) -> dict[str, Reading]:
    return reader.read({sight.name: sight.body for sight in list_sights()})


@cache
def list_sights() -> tuple[Sight, ...]:
    return tuple(sight for name in list_recordings() for sight in read_sights(name))


def read_changed(reader: Reader, change: Change) -> dict[str, Pair]:
    """Return the readings of all statuses after a change, by name."""
    changed = {sight.name: change(sight.body) for sight in list_sights()}
    return {name: reading.pair for name, reading in reader.read(changed).items()}


def with_metadata(body: Body, **metadata: Any) -> Body:
    return {**body, "metadata": {**body["metadata"], **metadata}}


def edit(body: Body) -> Body:
    return with_metadata(body, generation=body["metadata"]["generation"] + 1)


def delete(body: Body) -> Body:
    return with_metadata(body, deletionTimestamp="2026-01-02T00:00:00Z")


def test_every_recording_has_statuses_of_both_kinds() -> None:
    for name in list_recordings():
        kinds = {sight.body["kind"] for sight in read_sights(name)}
        assert kinds == {"CurationPipeline", "CurationAttempt"}


def test_the_law_covers_every_recorded_state() -> None:
    seen = {(sight.body["kind"], *sight.expected) for sight in list_sights()}
    assert seen >= {
        ("CurationPipeline", "InProgress", "Progressing"),
        ("CurationPipeline", "Current", "Progressing"),
        ("CurationPipeline", "Current", "Healthy"),
        ("CurationPipeline", "Failed", "Degraded"),
        ("CurationAttempt", "Current", "Progressing"),
        ("CurationAttempt", "Current", "Healthy"),
    }


def test_a_queued_attempt_is_suspended_for_argo(reader: Reader) -> None:
    """Derive queued attempts from starting attempts, because the recordings have no queue."""
    starting = {
        sight.name: wait_in_queue(sight.body)
        for sight in list_sights()
        if sight.body["kind"] == "CurationAttempt" and sight.body["status"]["phase"] == "Starting"
    }
    assert starting
    readings = {name: reading.pair for name, reading in reader.read(starting).items()}
    assert set(readings.values()) == {expect_attempt({"phase": "Queued"})}


def wait_in_queue(body: Body) -> Body:
    status = body["status"]
    conditions = [
        {**each, "reason": "Queued"} if each["type"] == "Succeeded" else each
        for each in status["conditions"]
    ]
    return {**body, "status": {**status, "phase": "Queued", "conditions": conditions}}


@everywhere
def test_every_status_is_read_like_the_fields_for_people(reader: Reader, scenario: str) -> None:
    sights = [sight for sight in list_sights() if sight.name.startswith(f"{scenario} ")]
    readings = read_all(reader)
    wrong = [
        (sight.name, sight.expected, readings[sight.name])
        for sight in sights
        if readings[sight.name].pair != sight.expected
    ]
    assert sights
    assert wrong == []


@everywhere
def test_no_ended_pipeline_resumes(reader: Reader, scenario: str) -> None:
    sights = [sight for sight in read_sights(scenario) if sight.body["kind"] == "CurationPipeline"]
    readings = [read_all(reader)[sight.name] for sight in sights]
    assert FLUX_ORDER.fullmatch("".join(reading.flux[0] for reading in readings))
    assert ARGO_ORDER.fullmatch("".join(reading.argo[0] for reading in readings))


def test_a_failure_is_read_with_its_cause(reader: Reader) -> None:
    readings, failed = read_all(reader), 0
    for sight in list_sights():
        status, told = sight.body["status"], readings[sight.name].argo_message
        if sight.body["kind"] == "CurationAttempt" and status["isFrozen"] and "cause" in status:
            assert told.startswith(f"Ended with {status['cause']}: {status['message']}")
            failed += 1
        else:
            assert told in {each["message"] for each in status["conditions"]}
    assert failed > 20


def test_an_unprocessed_edit_is_awaited(reader: Reader) -> None:
    assert set(read_changed(reader, edit).values()) == {UNSEEN}


def test_a_deletion_is_awaited(reader: Reader) -> None:
    assert set(read_changed(reader, delete).values()) == {GONE}


@pytest.mark.parametrize("is_owned", [True, False], ids=["ours", "anybody's"])
def test_every_recorded_rayjob_is_read_correctly(reader: Reader, is_owned: bool) -> None:
    bodies: dict[str, Body] = {}
    expected: dict[str, str] = {}
    for scenario in list_recordings():
        is_suspended = False
        steps = [one for one in read_recording(scenario).steps if one.kind == "RayJob"]
        for number, step in enumerate(steps):
            is_suspended = is_suspended if step.suspend is None else step.suspend
            name = f"{scenario} {number}"
            bodies[name] = spell_rayjob(step.status, is_suspended, is_owned)
            words = (step.status.get("jobDeploymentStatus", ""), step.status.get("jobStatus", ""))
            expected[name] = expect_rayjob(*words, is_suspended=is_suspended, is_owned=is_owned)
    assert set(expected.values()) >= {"Progressing", "Suspended", "Healthy"}
    assert ("Degraded" in expected.values()) == (not is_owned)
    assert {name: reading.argo for name, reading in reader.read(bodies).items()} == expected


def spell_rayjob(status: Body, is_suspended: bool, is_owned: bool) -> Body:
    owners = {"ownerReferences": [OWNER]} if is_owned else {}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "corpus-1", "namespace": "team", "generation": 1, **owners},
        "spec": {"suspend": True} if is_suspended else {},
        "status": status,
    }
