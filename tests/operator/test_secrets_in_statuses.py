"""No status, condition, event, or log line of the operator shows a likely secret."""

from __future__ import annotations

import json
import logging
from typing import Any, Final

import pytest

from operator_bodies import NAMESPACE
from simulated_cluster import SimulatedCluster
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.outcome.driver_outcome import DriverOutcome, find_outcome_line
from strandline_api.outcome.driver_outcome import format_outcome_line as format_line
from strandline_api.texts import SECRET
from strandline_operator.metrics.log_lines import JsonLines, TextLines
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import EventDraft, Resource
from strandline_operator.model.view import Refusal
from strandline_operator.reconcile.enact import render_event
from test_driver_talk import Scene

# Split the keys to avoid findings of secret scanners.
AWS_KEY: Final = "AKIA" + "IOSFODNN7EXAMPLE"
PASSWORD: Final = "hunter2"  # noqa: S105 - made up
BEARER: Final = "0a1b2c3d4e5f6a7b"
LEAKS = (
    f"botocore: can't sign with {AWS_KEY}",
    f"OSError: s3://jo:{PASSWORD}@store.example.com/corpus is not there",
    f"sent Authorization: Bearer {BEARER}",
)
HIDDEN = (AWS_KEY, PASSWORD, BEARER)
META = Meta("corpus", NAMESPACE, "uid")


def check(shown: Any) -> None:
    """Check that the text marks a removed secret and contains no secret."""
    text = json.dumps(shown)
    assert not [secret for secret in HIDDEN if secret in text]
    assert SECRET in text


def list_statuses(cluster: SimulatedCluster) -> list[Any]:
    attempts = [status.to_json() for _, status in cluster.attempts.values()]
    return [cluster.status.to_json(), *attempts]


@pytest.mark.parametrize("leak", LEAKS)
def test_the_drivers_last_lines_are_scrubbed(leak: str) -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    outcome = DriverOutcome(exit_code=1, message=leak)
    scene.api.logs[NAMESPACE, "submit"] = f"begun\n{leak}\n{format_line(outcome)}\n"
    view, _ = scene.listen(100.0)
    check(AttemptStatus().model_copy(update={"log_tail": view.log_tail}).to_json())
    # Decisions use the driver's outcome with the secret.
    assert view.log_outcome == outcome == find_outcome_line(format_line(outcome))


def test_a_multi_line_key_is_scrubbed() -> None:
    body = ["MIIEpAIBAAKCAQEA0123456789abcdef"] * 20
    scene = Scene()
    scene.end(jobStatus="FAILED")
    lines = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----", "last"]
    for kept in (lines, lines[5:]):
        scene.api.logs[NAMESPACE, "submit"] = "\n".join(kept)
        view, _ = Scene.listen(scene, 100.0 + len(kept) * 10)
        assert view.log_tail == (SECRET, "last")


@pytest.mark.parametrize("leak", LEAKS)
def test_log_lines_repeated_by_kuberay_are_scrubbed(leak: str) -> None:
    cluster = SimulatedCluster.running()
    cluster.fail_attempt(leak)
    check(list_statuses(cluster))


@pytest.mark.parametrize("leak", LEAKS)
def test_the_drivers_message_is_scrubbed(leak: str) -> None:
    cluster = SimulatedCluster.running()
    cluster.finish(1, message=leak)
    check(list_statuses(cluster))


@pytest.mark.parametrize("leak", LEAKS)
def test_messages_of_waiting_containers_are_scrubbed(leak: str) -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    cluster.bind_claim()
    waiting = {"waiting": {"reason": "CreateContainerError", "message": leak}}
    cluster.start_rayjob()
    cluster.end_rayjob("Initializing", "")
    cluster.set_pod("-head", containerStatuses=[{"name": "ray-head", "state": waiting}])
    cluster.advance(60.0)
    check(list_statuses(cluster))


@pytest.mark.parametrize("leak", LEAKS)
def test_rejections_by_the_api_server_are_scrubbed(leak: str) -> None:
    cluster = SimulatedCluster()
    cluster.refused[Resource.RAYJOB] = Refusal(Resource.RAYJOB, "corpus-1", 422, leak)
    cluster.settle()
    cluster.bind_claim()
    cluster.settle()
    check(list_statuses(cluster))


@pytest.mark.parametrize("leak", LEAKS)
def test_a_scrubbed_status_is_not_written_again(leak: str) -> None:
    cluster = SimulatedCluster.running()
    cluster.fail_attempt(leak)
    cluster.settle()
    plan = cluster.pass_once()
    assert (plan.pipeline, dict(plan.attempts)) == (None, {})


@pytest.mark.parametrize("leak", LEAKS)
def test_events_are_scrubbed(leak: str) -> None:
    check(render_event(EventDraft("AttemptFailed", leak), META, "", 0.0))


@pytest.mark.parametrize("form", [JsonLines(), TextLines()], ids=["json", "text"])
@pytest.mark.parametrize("leak", LEAKS)
def test_lines_of_the_operators_log_are_scrubbed(form: logging.Formatter, leak: str) -> None:
    error = ValueError(leak)
    record = logging.LogRecord(
        "x", logging.ERROR, "x.py", 1, "refused: %s", (leak,), (ValueError, error, None)
    )
    check(form.format(record))
