"""The check before a cluster is made: mistakes end the run, failures of the check itself do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.names import PIPELINE_LABEL, PREFLIGHT_LABEL, name_preflight
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_api.spec.pod_paths import MESH_KEYS
from strandline_api.status.enums import PipelinePhase
from strandline_api.status.preflight import Preflight, PreflightVerdict
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import Refusal

JOB = "corpus-preflight"
LONGEST = Limits().preflight_longest
SENTENCE = "spec.stages[0].with.folders: unknown parameter; did you mean 'folder'?"
WRONG = format_outcome_line(DriverOutcome(exit_code=64, message=SENTENCE))


def make(**fields: Any) -> SimulatedCluster:
    """Return a pipeline with an enabled check, after its Job was made."""
    cluster = SimulatedCluster(limits=Limits(preflight=True))
    cluster.edit(**fields)
    cluster.settle()
    cluster.bind_claim()
    return cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a pipeline whose check is running."""
    cluster = make()
    assert find_job(cluster) is not None
    return cluster


def find_job(cluster: SimulatedCluster) -> dict[str, Any] | None:
    return cluster.objects.get((Resource.JOB, JOB))


def list_checks(cluster: SimulatedCluster) -> int:
    """Return the number of Jobs that were made."""
    actions = [action for plan in cluster.plans for action in plan.actions]
    return sum(isinstance(each, Create) and each.resource is Resource.JOB for each in actions)


def end(cluster: SimulatedCluster, code: int = 0, message: str = "", **more: Any) -> None:
    """End the pod of the Job."""
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
    state = {
        "name": "strandline-preflight",
        "state": {"terminated": ended},
        "imageID": "i@sha256:1",
    }
    phase = "Failed" if code else "Succeeded"
    show(cluster, phase=phase, containerStatuses=[state], **more)
    cluster.advance(1)
    sweep(cluster)


def show(cluster: SimulatedCluster, **status: Any) -> None:
    cluster.job_pods = [{"metadata": {"name": f"{JOB}-x7k2p"}, "status": status}]


def sweep(cluster: SimulatedCluster) -> None:
    """Remove the Job if its deletion was requested."""
    job = find_job(cluster)
    if job is not None and "deletionTimestamp" in job["metadata"]:
        del cluster.objects[Resource.JOB, JOB]
        cluster.job_pods = []


def read(cluster: SimulatedCluster, type_: ConditionType) -> tuple[str, str]:
    found = cluster.status.find_condition(type_)
    return ("", "") if found is None else (found.status, found.reason)


def record(cluster: SimulatedCluster) -> Preflight:
    assert cluster.status.preflight is not None
    return cluster.status.preflight


# --- When a check runs, and its input


def test_no_attempt_is_made_before_the_check_has_passed(cluster: SimulatedCluster) -> None:
    assert (cluster.attempts, list_checks(cluster)) == ({}, 1)
    assert read(cluster, ConditionType.SUCCEEDED) == ("Unknown", Reason.PREFLIGHT)
    assert read(cluster, ConditionType.SPEC_APPLIED) == ("Unknown", Reason.PREFLIGHT)
    assert cluster.status.phase is PipelinePhase.PENDING
    assert not [event for event in cluster.events if event.is_warning]
    end(cluster)
    assert list(cluster.attempts) == ["corpus-1"]
    assert read(cluster, ConditionType.SPEC_APPLIED) == ("True", Reason.APPLIED)
    known = record(cluster)
    assert (known.verdict, known.image) == (PreflightVerdict.PASSED, "i@sha256:1")
    assert find_job(cluster) is None


def test_a_check_is_polled_soon(cluster: SimulatedCluster) -> None:
    """The pass sets a wake-up time, because no watch reports the Job."""
    wake = cluster.plans[-1].wake_at
    assert wake is not None
    assert wake - cluster.time <= cluster.limits.settle


def test_a_mistake_ends_the_run_with_its_sentence(cluster: SimulatedCluster) -> None:
    end(cluster, 64, WRONG)
    cluster.advance(100_000)
    assert (cluster.attempts, list_checks(cluster)) == ({}, 1)
    told = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert told is not None
    assert (told.status, told.reason, told.message) == ("False", "InvalidSpec", SENTENCE)
    assert read(cluster, ConditionType.STALLED) == ("True", "InvalidSpec")
    told = cluster.status.find_condition(ConditionType.SPEC_APPLIED)
    assert told is not None
    assert (told.status, told.reason) == ("False", Reason.PREFLIGHT_FAILED)
    assert SENTENCE in told.message
    assert [event.message for event in cluster.events if event.is_warning] == [SENTENCE]
    assert cluster.status.next_attempt_time is None
    assert find_job(cluster) is None
    assert cluster.pipeline["metadata"]["finalizers"] == []


@pytest.mark.parametrize("way", ["run", "retry"])
def test_a_repeated_request_after_a_mistake_is_checked_again(
    cluster: SimulatedCluster, way: str
) -> None:
    """The check repeats, because an image of the same name may have been fixed."""
    end(cluster, 64, WRONG)
    if way == "run":
        cluster.edit(runId="second")
    else:
        cluster.annotate("retry", "1")
    cluster.advance(1)
    assert (cluster.attempts, list_checks(cluster)) == ({}, 2)
    end(cluster)
    assert list(cluster.attempts) == ["corpus-1"]


def test_the_same_spec_is_checked_once(cluster: SimulatedCluster) -> None:
    end(cluster)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(137)  # the next attempt gets more memory
    cluster.run_next()
    cluster.finish(0)
    cluster.edit(runId="second")
    cluster.settle()
    assert (list(cluster.attempts), list_checks(cluster)) == (
        ["corpus-1", "corpus-2", "corpus-3"],
        1,
    )


@pytest.mark.parametrize(
    "edit",
    [
        {"stages": [{"use": "sample-rows"}]},
        {"ray": {"image": "mine:2", "workerGroups": [{"name": "cpu"}]}},
        {"ray": {"env": [{"name": "A", "value": "b"}], "workerGroups": [{"name": "cpu"}]}},
    ],
)
def test_another_spec_is_checked_again(cluster: SimulatedCluster, edit: dict[str, Any]) -> None:
    end(cluster)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(75)
    cluster.edit(**edit)
    cluster.time = cluster.status.next_attempt_time or 0
    cluster.settle()
    assert (list(cluster.attempts), list_checks(cluster)) == (["corpus-1"], 2)
    assert read(cluster, ConditionType.SPEC_APPLIED) == ("Unknown", Reason.PREFLIGHT)
    end(cluster)
    assert len(cluster.attempts) == 2


def test_an_edit_during_a_check_is_checked_instead(cluster: SimulatedCluster) -> None:
    cluster.edit(stages=[{"use": "sample-rows"}])
    cluster.settle()
    job = find_job(cluster)
    assert job is not None
    assert "deletionTimestamp" in job["metadata"]
    end(cluster, 64, WRONG)  # the result belongs to the old spec
    assert cluster.attempts == {}
    assert read(cluster, ConditionType.SUCCEEDED)[0] == "Unknown"
    cluster.advance(1)
    job = find_job(cluster)
    assert job is not None
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert "sample-rows" in container["command"][-1]
    end(cluster)
    assert len(cluster.attempts) == 1


@pytest.mark.parametrize(
    ("given", "default", "expected"),
    [
        (None, False, 0),
        (None, True, 1),
        (False, True, 0),
        (True, False, 1),
    ],
)
def test_a_pipelines_preflight_setting_overrides_the_default(
    given: bool | None, default: bool, expected: int
) -> None:
    cluster = SimulatedCluster(limits=Limits(preflight=default))
    if given is not None:
        cluster.edit(preflight=given)
    cluster.settle()
    assert list_checks(cluster) == expected
    assert len(cluster.attempts) == 1 - expected


def test_a_suspended_pipeline_starts_no_check() -> None:
    cluster = make(suspend=True)
    assert list_checks(cluster) == 0
    cluster.edit(suspend=False)
    cluster.settle()
    assert list_checks(cluster) == 1
    cluster.edit(suspend=True)
    cluster.settle()
    assert read(cluster, ConditionType.SPEC_APPLIED) == ("True", Reason.APPLIED)


def test_a_waiting_pipeline_starts_no_check() -> None:
    cluster = make(code={"configMap": "mystages"})
    assert list_checks(cluster) == 0
    assert read(cluster, ConditionType.SUCCEEDED)[1] == Reason.CODE_MISSING


def test_a_cancel_meanwhile_ends_the_run(cluster: SimulatedCluster) -> None:
    cluster.annotate("cancel", "enough")
    cluster.settle()
    assert read(cluster, ConditionType.SUCCEEDED) == ("False", "UserCancelled")
    assert read(cluster, ConditionType.SPEC_APPLIED) == ("True", Reason.APPLIED)


# --- Failures of the check itself do not delay the run


def waiting(reason: str, message: str) -> dict[str, Any]:
    state = {
        "name": "strandline-preflight",
        "state": {"waiting": {"reason": reason, "message": message}},
    }
    return {"phase": "Pending", "containerStatuses": [state]}


UNPLACED = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}


@pytest.mark.parametrize(
    ("status", "seconds", "told"),
    [
        (waiting("ImagePullBackOff", "no such image"), 1, "can't pull its image: no such image"),
        ({"phase": "Pending", "conditions": [UNPLACED]}, LONGEST + 1, "0/3 nodes are available"),
        (waiting("ContainerCreating", ""), LONGEST + 1, "ContainerCreating"),
        ({"phase": "Running"}, LONGEST + 1, f"pod {JOB}-x7k2p is Running"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, 1, "its pod failed: disk"),
        (None, LONGEST + 1, f"Job {JOB} has no pod"),
    ],
)
def test_a_check_without_a_result_does_not_stop_the_run(
    cluster: SimulatedCluster, status: dict[str, Any] | None, seconds: float, told: str
) -> None:
    if status is not None:
        show(cluster, **status)
    cluster.advance(seconds)
    assert list(cluster.attempts) == ["corpus-1"]
    condition = cluster.status.find_condition(ConditionType.SPEC_APPLIED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", Reason.PREFLIGHT_UNKNOWN)
    assert told in condition.message
    job = find_job(cluster)
    assert job is not None
    assert "deletionTimestamp" in job["metadata"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (64, "Error: No such command 'preflight'."),  # an older image
        (1, "Traceback"),
        (137, ""),
        (1, WRONG),
        (64, format_outcome_line(DriverOutcome(exit_code=1, message="a server is away"))),
        (127, "strandline: not found"),
    ],
)
def test_only_the_checks_own_message_counts(
    cluster: SimulatedCluster, code: int, message: str
) -> None:
    end(cluster, code, message)
    assert record(cluster).verdict is PreflightVerdict.UNKNOWN
    assert f"the check exited with code {code}" in record(cluster).message
    assert list(cluster.attempts) == ["corpus-1"]


PROXY = {"name": "istio-proxy", "state": {"running": {}}}
DEAD_PROXY = {"name": "a-log-agent", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}


@pytest.mark.parametrize("beside", [PROXY, DEAD_PROXY])
@pytest.mark.parametrize("code", [0, 64])
def test_sidecars_do_not_affect_the_check(
    cluster: SimulatedCluster, beside: dict[str, Any], code: int
) -> None:
    """The proxy never ends, so the pod never ends."""
    line = format_outcome_line(DriverOutcome(exit_code=code, message="no such stage"))
    ended = {"terminated": {"exitCode": code, "message": line if code else ""}}
    own = {"name": "strandline-preflight", "state": ended}
    show(cluster, phase="Running", containerStatuses=[beside, own])
    cluster.advance(1)
    expected = PreflightVerdict.FAILED if code else PreflightVerdict.PASSED
    assert record(cluster).verdict is expected


def test_code_that_can_never_be_fetched_is_a_mistake() -> None:
    cluster = make(code={"packages": ["no-such==1"]})
    ended = {"terminated": {"exitCode": 64, "message": WRONG}}
    show(
        cluster, phase="Failed", initContainerStatuses=[{"name": "strandline-code", "state": ended}]
    )
    cluster.advance(1)
    assert record(cluster).verdict is PreflightVerdict.FAILED


@pytest.mark.parametrize("what", ["refused", "unread", "taken", "job"])
def test_a_run_continues_if_its_check_job_can_not_be_made(what: str) -> None:
    cluster = SimulatedCluster(limits=Limits(preflight=True))
    words = 'jobs.batch is forbidden: User "operator" cannot create resource'
    if what == "refused":
        cluster.refused[Resource.JOB] = Refusal(Resource.JOB, JOB, 403, words)
    elif what == "unread":
        cluster.unread_job = words
    else:
        meta = {"name": JOB, "uid": "other", "labels": {}}
        cluster.objects[Resource.JOB, JOB] = {"metadata": meta}
    cluster.settle()
    cluster.advance(1)
    assert list(cluster.attempts) == ["corpus-1"]
    assert record(cluster).verdict is PreflightVerdict.UNKNOWN
    assert read(cluster, ConditionType.SUCCEEDED)[1] != Reason.PERMISSION_DENIED
    # The operator does not delete a Job of another owner.
    assert what in {"refused", "unread"} or "deletionTimestamp" not in find_job(cluster)["metadata"]  # type: ignore[index]


def test_a_pipeline_too_long_for_a_job_is_not_checked() -> None:
    cluster = make(source={"use": "files", "with": {"paths": ["x" * 100] * 700}})
    assert (list(cluster.attempts), list_checks(cluster)) == (["corpus-1"], 0)
    assert "too long" in record(cluster).message


def test_a_check_without_a_result_is_not_repeated_at_each_retry(cluster: SimulatedCluster) -> None:
    end(cluster, 137)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(75)
    cluster.run_next()
    assert list_checks(cluster) == 1
    cluster.finish(0)
    cluster.edit(runId="second")
    cluster.settle()
    assert list_checks(cluster) == 2


def test_a_check_without_a_result_is_not_repeated_during_an_obstacle(
    cluster: SimulatedCluster,
) -> None:
    cluster.refused[Resource.ATTEMPT] = Refusal(Resource.ATTEMPT, "corpus-1", 422, "a policy")
    end(cluster, 137)
    for _ in range(5):
        cluster.advance(60)
    assert (cluster.attempts, list_checks(cluster)) == ({}, 1)
    assert read(cluster, ConditionType.SUCCEEDED)[1] == Reason.OBJECT_REFUSED


STEPS = st.sampled_from(
    ["pass", "time", "lose", "stale", "wait", "unplaced", "edit", "delete", "stuck", "refuse"]
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_law_no_check_holds_a_run_forever(steps: list[str]) -> None:
    """An attempt starts in limited time, whatever happens to the Jobs and pods of the check."""
    cluster = make()
    edits = 1
    for number, step in enumerate(steps):
        job = find_job(cluster)
        if step == "lose":
            cluster.objects.pop((Resource.JOB, JOB), None)
            cluster.job_pods = []
        elif step == "stale" and job is not None:
            job["metadata"]["labels"][PREFLIGHT_LABEL] = "older"
        elif step == "stuck" and job is not None:
            job["metadata"]["deletionTimestamp"] = "1970-01-12T13:46:40Z"
        elif step in {"wait", "unplaced"}:
            show(cluster, phase="Pending")
        elif step == "edit":
            edits += 1
            cluster.edit(stages=[{"use": "sample-rows", "name": f"s{number}"}])
        elif step == "delete":
            sweep(cluster)
        elif step == "refuse":
            cluster.refused[Resource.JOB] = Refusal(Resource.JOB, JOB, 422, "a policy")
        cluster.advance(LONGEST / 2 if step == "time" else 1.0)
        assert len(cluster.attempts) <= 1
    for _ in range(3):
        cluster.advance(LONGEST)
    assert list(cluster.attempts) == ["corpus-1"]
    assert list_checks(cluster) <= 2 * (len(steps) + edits) + 3


# --- The Job


def test_the_checks_pod_is_the_heads_without_claims_and_labels() -> None:
    cluster = make(
        ray={
            "image": "mine:1",
            "env": [{"name": "TOKEN", "value": "t"}],
            "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
            "serviceAccountName": "curator",
            "head": {"podTemplate": {"spec": {"nodeSelector": {"pool": "small"}}}},
            "workerGroups": [{"name": "cpu"}],
        },
        storage={"output": {"claimName": "out"}},
        code={"packages": ["left-pad==1"]},
    )
    cluster.share_claim("out")
    cluster.settle()
    job = find_job(cluster)
    assert job is not None
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (0, 300)
    assert spec["activeDeadlineSeconds"] == LONGEST + 1
    (container,), (fetching,) = pod["containers"], pod["initContainers"]
    assert (container["image"], fetching["name"]) == ("mine:1", "strandline-code")
    assert pod["serviceAccountName"] == "curator"
    assert pod["nodeSelector"] == {"pool": "small"}
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    names = {volume["name"] for volume in pod["volumes"]}
    assert names == {"temporary", "cache", "code-fetched"}
    for each in (container, fetching):
        assert {mount["name"] for mount in each["volumeMounts"]} <= names
        own = {variable["name"] for variable in each["env"]}
        assert "TOKEN" in own
        assert not own & {"STRANDLINE_ATTEMPT", "STRANDLINE_READER", "STRANDLINE_LINEAGE_UID"}
    assert not {"ports", "lifecycle", "readinessProbe", "livenessProbe"} & container.keys()
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert set(labels) - set(MESH_KEYS) == {PREFLIGHT_LABEL}
    assert job["metadata"]["labels"][PIPELINE_LABEL] == "corpus"
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("CurationPipeline", "uid-p")
    assert name_preflight("corpus") == JOB


def test_a_check_gets_the_drivers_document(cluster: SimulatedCluster) -> None:
    job = find_job(cluster)
    assert job is not None
    program, command, text = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert (program, command) == ("strandline", "preflight")
    document = json.loads(text)
    assert document["metadata"]["annotations"] == {"strandline.dev/stored": "true"}
    assert document["spec"] == {"source": {"use": "files"}, "sink": {"use": "jsonl"}}
