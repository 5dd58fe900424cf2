"""Requests to a run on a cluster, the end of the run, and where its log is."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_objects import (
    end_pod,
    make_pod,
    read_attempt_object,
    read_pipeline_object,
)
from strandline.cli.cluster.objects import ClusterPipeline, read_cluster_pipeline
from strandline.cli.cluster.requests import (
    RequestRefusedError,
    ask_cancel,
    ask_retry,
    ask_suspension,
)
from strandline.cli.cluster.waiting import RunVerdict, choose_log, judge_run, read_pod
from strandline_api.status.handled_tokens import HandledTokens

NOW = 1_795_000_000.5
RUNNING = {"phase": "Running"}


def annotate(name: str, value: str, **status: Any) -> ClusterPipeline:
    document: dict[str, Any] = {
        "metadata": {
            "name": "corpus",
            "namespace": "team",
            "uid": "uid-p",
            "generation": 2,
            "annotations": {f"strandline.dev/{name}": value},
        },
        "status": {"observedGeneration": 2, "attempt": 1} | status,
    }
    return read_cluster_pipeline(document)


def read_value(patch: dict[str, Any] | None, name: str) -> str:
    assert patch is not None
    value = patch["metadata"]["annotations"][f"strandline.dev/{name}"]
    assert isinstance(value, str)
    return value


def test_each_request_has_a_new_value() -> None:
    first = read_value(ask_retry(read_pipeline_object(), None, NOW).patch, "retry")
    again = read_value(ask_retry(annotate("retry", first), None, NOW).patch, "retry")
    later = read_value(ask_retry(annotate("retry", first), None, NOW + 1e-3).patch, "retry")
    assert len({first, again, later}) == 3
    assert first.startswith("2026-11-18T")


def test_a_user_name_is_escaped_and_truncated_in_the_value() -> None:
    """The operator stores a value of more than 256 characters only as a digest."""
    user = f"eve\nby root {'x' * 300}"
    patch = ask_retry(read_pipeline_object(), None, NOW, user).patch
    value = read_value(patch, "retry")
    assert "Z by eve\\nby root x" in value
    assert HandledTokens.from_annotations({"strandline.dev/retry": value}).retry == value
    again = read_value(ask_retry(annotate("retry", value), None, NOW, user).patch, "retry")
    assert again != value
    assert HandledTokens.from_annotations({"strandline.dev/retry": again}).retry == again


def test_a_retry_is_refused_during_an_attempt() -> None:
    with pytest.raises(RequestRefusedError, match=r"^attempt 1 of corpus is running"):
        ask_retry(read_pipeline_object(), read_attempt_object(1, **RUNNING), NOW)
    ended = read_attempt_object(1, phase="TearingDown", endTime="2026-11-24T10:00:00Z")
    assert ask_retry(read_pipeline_object(), ended, NOW).patch is not None


def test_a_suspended_pipeline_is_resumed_not_retried() -> None:
    with pytest.raises(RequestRefusedError, match="kubectl strandline resume corpus"):
        ask_retry(read_pipeline_object(suspend=True), None, NOW)


def test_an_ended_run_cannot_be_cancelled() -> None:
    over = ask_cancel(read_pipeline_object(), read_attempt_object(), NOW)
    assert over == (None, "corpus has nothing to cancel: it is Succeeded")
    running = ask_cancel(
        read_pipeline_object(phase="Running"), read_attempt_object(1, **RUNNING), NOW
    )
    assert read_value(running.patch, "cancel")
    waiting = read_pipeline_object(phase="Waiting", nextAttemptTime="2026-11-24T10:00:00Z")
    assert ask_cancel(waiting, read_attempt_object(), NOW).patch is not None


@pytest.mark.parametrize("is_wanted", [True, False])
def test_suspension_is_requested_once(is_wanted: bool) -> None:
    changed = ask_suspension(read_pipeline_object(suspend=not is_wanted), None, is_wanted=is_wanted)
    assert changed.patch == {"spec": {"suspend": is_wanted}}
    assert (
        ask_suspension(read_pipeline_object(suspend=is_wanted), None, is_wanted=is_wanted).patch
        is None
    )


def condition(type_: str) -> list[dict[str, str]]:
    return [
        {
            "type": type_,
            "status": "True",
            "reason": "A",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]


@pytest.mark.parametrize(
    ("status", "attempt", "expected"),
    [
        ({"conditions": condition("Succeeded")}, {}, 0),
        ({"conditions": condition("Stalled")}, {"outcome": {"exitCode": 4}}, 4),
        ({"conditions": condition("Stalled")}, {"phase": "Failed"}, 1),
        ({"conditions": condition("Suspended")}, {}, 75),
        ({"conditions": condition("Succeeded"), "observedGeneration": 1}, {}, None),
        ({"phase": "Running"}, {}, None),
    ],
)
def test_conditions_show_the_end_of_a_run(
    status: dict[str, Any], attempt: dict[str, Any], expected: int | None
) -> None:
    end = judge_run(read_pipeline_object(**status), read_attempt_object(1, **attempt))
    assert (None if end is None else end.code) == expected


def test_an_end_before_the_request_is_ignored() -> None:
    asked = annotate("retry", "2", conditions=condition("Stalled"), state="failed")
    assert judge_run(asked, None) is None
    handled = annotate(
        "retry", "2", conditions=condition("Stalled"), state="failed", handled={"retry": "2"}
    )
    assert judge_run(handled, None) == RunVerdict(1, "corpus: failed")


def with_state(pod: dict[str, Any], container: str, **state: Any) -> dict[str, Any]:
    return {**pod, "status": {"containerStatuses": [{"name": container, "state": state}]}}


def test_the_log_is_in_the_pod_that_submits_the_driver() -> None:
    name = "ray-job-submitter"
    submitter = with_state(make_pod("submits", role="submitter"), name, running={})
    head = make_pod("head", role="head")
    assert choose_log([head, submitter], 1) == ("submits", name)
    assert choose_log([with_state(head, name, terminated={})], 1) == ("head", name)
    assert choose_log([head, with_state(submitter, name, waiting={})], 1) is None
    assert choose_log([submitter], 2) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (False, None, "")),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}],
            },
            (False, None, "no node"),
        ),
        (
            {
                "initContainerStatuses": [
                    {
                        "name": "strandline-code",
                        "state": {"terminated": {"exitCode": 64, "message": "no such archive"}},
                    }
                ],
                "phase": "Failed",
            },
            (False, 1, "container strandline-code failed: no such archive"),
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            (False, 1, "pod a failed before its command ran: low on memory"),
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "strandline",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}},
                    }
                ]
            },
            (False, None, "ErrImagePull: not found"),
        ),
        (
            {"containerStatuses": [{"name": "strandline", "state": {"running": {}}}]},
            (True, None, ""),
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "strandline",
                        "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                    }
                ]
            },
            (True, 137, "the command was killed in pod a: OOMKilled"),
        ),
    ],
)
def test_the_progress_of_a_pod_is_read(status: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert read_pod({"metadata": {"name": "a"}, "status": status}, "strandline") == expected


def test_the_error_of_a_command_is_kept() -> None:
    assert read_pod(end_pod("a", 65, " bad\n"), "strandline") == (True, 65, "bad")
