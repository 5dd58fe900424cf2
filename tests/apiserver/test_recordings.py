"""The trimmed recordings keep the facts of the real runs, and are read correctly."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api_server import SMALL
from recordings import FOLDER, Json, apply_patch, list_recordings, read_recording, read_steps
from trim_recordings import make_patch, trim_container, trim_recording
from trim_watch_lines import Take, trim_lines

MEGABYTE = 1_000_000
# For each recording, the marks of its cause and the end of the RayJob.
TOLD: dict[str, tuple[str, ...]] = {
    "a-success": ("RayJob SUCCEEDED", "RayJob Complete"),
    "b-app-failure": ("RayJob FAILED", "RayJob AppFailed"),
    "c1-worker-task-oom-kernel": ("RayJob AppFailed", "worker OOMKilled"),
    "c2-worker-container-oom-kernel": ("worker OOMKilled", "RayJob AppFailed"),
    "c3-worker-task-oom-ray-monitor": ("RayJob RUNNING",),
    "c4-worker-task-oom-ray-monitor-no-retry": ("RayJob AppFailed",),
    "d1-driver-oom-kernel": ("RayJob FAILED", "RayJob AppFailed"),
    "d3-head-container-oom-kernel": ("head OOMKilled", "RayJob AppFailed"),
    "e1-submitter-oom": ("submitter OOMKilled", "RayJob SubmissionFailed"),
    "e2-submitter-deleted": ("submitter deleting", "RayJob Complete"),
    "f-worker-preempted": ("worker DisruptionTarget", "RayJob Complete"),
    "f2-head-preempted": ("head DisruptionTarget", "RayJob Complete"),
    "g1-head-evicted": ("evict", "head DisruptionTarget"),
    "g2-head-deleted": ("head deleting", "RayJob AppFailed"),
    "g4-head-evicted-submitter-backoff-0": ("RayJob SubmissionFailed",),
    "g5-head-evicted-httpmode": ("head DisruptionTarget", "RayJob PENDING"),
    "g6-node-taint": ("worker DisruptionTarget", "RayJob Complete"),
    "h-image-pull": ("head ErrImagePull", "RayJob PreRunningDeadlineExceeded"),
    "i-unschedulable": ("worker Unschedulable", "RayJob deleting"),
    "j-suspend-resume": ("RayJob Suspending", "RayJob Suspended", "RayJob Complete"),
    "j2-suspend-rejected": ("RayJob ValidationFailed",),
    "k-active-deadline": ("RayJob DeadlineExceeded",),
    "k2-active-deadline-shutdown": ("RayJob DeadlineExceeded", "RayCluster gone", "head gone"),
    "l-rayjob-deleted": ("RayJob deleting", "RayJob gone", "head gone"),
    "m-backoff-retry": ("RayJob Retrying", "RayJob Failed"),
    "s-exit-64": ("RayJob PreRunningDeadlineExceeded",),
    "s-head-container-oom": ("head OOMKilled", "RayJob AppFailed"),
    "s-head-deleted-before-ready": ("head deleting", "head gone", "RayJob Complete"),
    "s-k-exit-64": ("RayJob FAILED", "RayJob AppFailed", "head gone"),
    "s-k-head-and-submitter-evicted": ("submitter DisruptionTarget", "RayJob AppFailed"),
    "s-k-head-deleted": ("RayJob JobDeploymentStatusTransitionGracePeriodExceeded",),
    "s-k-head-deleted-linger": ("RayJob AppFailed", "head gone"),
    "s-k-head-preempted": ("head DisruptionTarget", "head gone"),
    "s-k-rayjob-deleted": ("RayJob gone", "head gone"),
    "s-k-submitter-lost": ("RayJob SubmissionFailed", "RayCluster gone", "head gone"),
    "s-k-success": ("RayJob Complete", "RayCluster gone", "head gone"),
    "s-suspend": ("RayJob Suspended", "head gone"),
    "s-worker-oom": ("worker OOMKilled", "RayJob Complete"),
    "s-worker-preempted": ("worker DisruptionTarget", "RayJob Complete"),
    "v-no-ray-version": ("head Running", "worker Running", "RayJob deleting"),
    "v-node-drained": ("drain", "head DisruptionTarget", "submitter gone", "head gone"),
    "v-quota-on-pods": ("RayCluster ReplicaFailure", "RayJob deleting"),
    "v-quota-on-submitter": ("head Ready", "RayJob Running", "RayJob deleting", "head gone"),
    "v-raycluster-deleted": ("RayJob RUNNING", "RayCluster gone", "RayCluster new"),
    "v-slow-start": ("head Ready", "RayJob Running", "RayJob RUNNING", "RayJob deleting"),
}


@pytest.mark.parametrize("name", TOLD)
def test_marks_of_the_cause_appear_in_order(name: str) -> None:
    marks = (mark for step in read_recording(name).steps for mark in sorted(step.marks))
    assert all(mark in marks for mark in TOLD[name])


@pytest.mark.parametrize(
    ("name", "starts"),
    [("f2-head-preempted", 2), ("g5-head-evicted-httpmode", 2), ("s-k-head-preempted", 1)],
)
def test_a_second_run_has_another_start_time_of_the_job(name: str, starts: int) -> None:
    steps = [step for step in read_recording(name).steps if step.kind == "RayJob"]
    seen = {step.status.get("rayJobInfo", {}).get("startTime") for step in steps}
    assert len(seen - {None}) == starts


def test_the_files_are_small_and_complete() -> None:
    files = list(FOLDER.glob("*.jsonl"))
    assert len(files) == 63
    assert sum(path.stat().st_size for path in files) < 1.5 * MEGABYTE


@pytest.mark.parametrize("name", list_recordings())
def test_every_object_appears_before_its_events_and_ends_with_its_removal(name: str) -> None:
    recording = read_recording(name)
    assert recording.scenario == name
    assert recording.mode in {"K8sJobMode", "SidecarMode", "HTTPMode"}
    there: set[str] = set()
    for before, step in zip((recording.steps[0], *recording.steps), recording.steps, strict=False):
        assert before.time <= step.time
        if step.new is not None:
            assert step.key not in there
            # The recording may report the RayJob late, but the RayJob exists from the start.
            assert step.new.owner in {*there, "RayJob/rj", ""}
            there.add(step.key)
        elif step.kind:
            assert step.key in there
        there -= {step.key} if step.is_gone else set()


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
def test_the_small_schemas_define_every_recorded_field(kind: str) -> None:
    path = SMALL / f"ray.io_{kind.lower()}s.yaml"
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    strange = {
        found
        for name in list_recordings()
        for step in read_recording(name).steps
        if step.kind == kind
        for found in list_strange(step.status, schema["properties"]["status"], "status")
    }
    assert strange == set()


def list_strange(value: Any, schema: Json, path: str) -> list[str]:
    """Return the fields of a value that the schema does not have."""
    if "x-kubernetes-preserve-unknown-fields" in schema:
        return []
    if isinstance(value, list):
        return [it for item in value for it in list_strange(item, schema["items"], path)]
    if not isinstance(value, dict):
        return []
    known, rest = schema.get("properties", {}), schema.get("additionalProperties")
    return [
        found
        for key, item in value.items()
        for found in (
            list_strange(item, known.get(key, rest), f"{path}.{key}")
            if key in known or rest
            else [f"{path}.{key}"]
        )
    ]


CONDITIONS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from("ABC"), "status": st.sampled_from("TF")}),
    unique_by=lambda condition: condition["type"],
)
VALUES = st.one_of(st.integers(0, 2), st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)))
STATUSES = st.dictionaries(
    st.sampled_from(["conditions", "phase", "info"]), st.one_of(CONDITIONS, VALUES)
)


@given(STATUSES, STATUSES)
def test_a_patch_leads_from_one_status_to_the_next(before: Json, after: Json) -> None:
    patch = make_patch(before, after)
    assert apply_patch(before, patch) == after
    assert patch == {} or before != after


def make_recording() -> Json:
    """Make a recording of a pod that warns, runs, and disappears, and of a pod of the recorder."""
    started = {"phase": "Running", "hostIP": "192.0.2.1", "containerStatuses": []}
    pod = {
        "metadata": {
            "labels": {"ray.io/node-type": "head", "batch.kubernetes.io/controller-uid": "1"},
            "ownerReferences": [{"kind": "RayCluster", "name": "rj-1"}],
            "spec": {"restartPolicy": "Never", "containers": [{"name": "ray-head"}]},
        },
        "timeline": [
            {"t": 1.0, "event": "ADDED", "status": {"phase": "Pending"}},
            {"t": 2.0, "event": "MODIFIED", "status": started},
            {"t": 3.0, "event": "MODIFIED", "status": {**started, "hostIP": "192.0.2.2"}},
            {"t": 4.0, "event": "DELETED", "status": started, "deletionTimestamp": "later"},
        ],
    }
    vip = {"metadata": {"ownerReferences": None}, "timeline": [{"t": 0.5, "event": "ADDED"}]}
    event = {"t": 1.5, "object": "Pod/rj-1-head", "message": "", "source": "kubelet"}
    return {
        "scenario": "sample",
        "title": "A sample",
        "versions": {},
        "startedAt": "2026-11-21T10:00:00Z",
        "submitted": {
            "metadata": {"name": "rj", "namespace": "n"},
            "spec": {"submissionMode": "K8sJobMode", "rayClusterSpec": {}},
        },
        "actions": [{"t": 0.0, "action": "create RayJob", "wall": "x"}],
        "objects": {"Pod/rj-1-head/1": pod, "Pod/vip/2": vip},
        "events": [
            {**event, "type": "Warning", "reason": "Failed"},
            {**event, "type": "Warning", "reason": "Unhealthy"},
            {**event, "type": "Normal", "reason": "Pulled"},
        ],
        "logTailsAtEnd": {"rj-x/ray-job-submitter": "one\ntwo", "rj-1-head/ray-head": "no"},
    }


def test_trimming_keeps_events_and_drops_unused_fields() -> None:
    head, *lines = trim_recording(make_recording())
    assert head["spec"] == {"submissionMode": "K8sJobMode"}
    assert [line["t"] for line in lines] == [0.0, 1.0, 1.5, 2.0, 4.0, 4.0]
    steps = list(read_steps(lines))
    assert [step.action for step in steps if step.action] == ["create RayJob"]
    assert [step.notice["reason"] for step in steps if step.notice] == ["Failed"]
    assert [step.line for step in steps if step.line] == ["one\ntwo"]
    pod = [step for step in steps if step.kind]
    assert [step.status["phase"] for step in pod] == ["Pending", "Running", "Running"]
    assert [step.is_going for step in pod] == [False, False, True]
    assert pod[0].new is not None
    assert pod[0].new.labels == {"ray.io/node-type": "head"}
    assert pod[-1].marks == {"head deleting", "head gone"}
    assert "hostIP" not in str(lines)


def test_trimming_a_container_keeps_its_states() -> None:
    state = {"terminated": {"exitCode": 1, "reason": "Error", "containerID": "x"}}
    container = {"name": "a", "imageID": "y", "ready": False, "state": state, "lastState": {}}
    assert trim_container(container) == {
        "name": "a",
        "ready": False,
        "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
        "lastState": {},
    }


def watch_line(time: str, what: str, kind: str, name: str, **more: Any) -> Json:
    """Return a raw line of a watch, for an object whose uid is `uid-` and its name."""
    line: Json = {"t": f"10:00:{time}", "type": what, "kind": kind, "name": name}
    line["uid"] = f"uid-{name}"
    owner = more.pop("owner", "")
    if what == "ADDED" and kind != "Event":
        owners = [{"kind": "RayJob", "name": owner, "uid": f"uid-{owner}"}] if owner else []
        container = {"name": "ray-head"}
        spec = {"submissionMode": "K8sJobMode", "restartPolicy": "Never", "containers": [container]}
        line |= {"metadata": {"labels": {}, "ownerReferences": owners}, "spec": spec}
    return {**line, "status": {}, **more}


def test_raw_watch_lines_show_the_start_of_deletions() -> None:
    killing = {"reason": "Killing", "message": "Stopping", "eventType": "Normal", "of": "Pod/head"}
    unhealthy = {"reason": "Unhealthy", "message": "no wget", "eventType": "Warning"}
    lines = [
        watch_line("00.000", "ADDED", "Pod", "rival"),
        watch_line("01.000", "ADDED", "RayJob", "corpus-1"),
        watch_line("02.000", "ADDED", "Pod", "head", owner="corpus-1"),
        watch_line("03.000", "ADDED", "Event", "head.1", **unhealthy, of="Pod/head"),
        watch_line("03.500", "ADDED", "Event", "head.2", **unhealthy, of="Pod/head"),
        watch_line("03.600", "ADDED", "Event", "rival.1", **unhealthy, of="Pod/rival"),
        watch_line("04.000", "MODIFIED", "RayJob", "corpus-1"),
        watch_line("05.000", "DELETED", "RayJob", "corpus-1"),
        watch_line("06.000", "ADDED", "Event", "head.3", **killing),
        watch_line("07.000", "DELETED", "Pod", "head"),
    ]
    head, *told = trim_lines(lines, Take("x", "a title", action="poke", at="10:00:03.400"))
    assert (head["scenario"], head["rayjob"], head["mode"]) == ("x", "corpus-1", "K8sJobMode")
    facts = [
        (
            one["t"],
            one.get("on") or one.get("action") or one["notice"]["reason"],
            *(word for word in ("new", "deleting", "gone") if word in one),
        )
        for one in told
    ]
    assert facts == [
        (0.0, "RayJob/corpus-1", "new"),
        (1.0, "Pod/head", "new"),
        (2.0, "Unhealthy"),
        (2.5, "poke"),
        (3.0, "RayJob/corpus-1", "deleting"),
        (4.0, "RayJob/corpus-1", "gone"),
        (5.0, "Pod/head", "deleting"),
        (6.0, "Pod/head", "gone"),
    ]
