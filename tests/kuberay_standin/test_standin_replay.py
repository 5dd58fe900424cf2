"""The stand-in repeats KubeRay's recorded actions, in the same order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest

from kuberay_standin.core import step
from kuberay_standin.scene import PutStatus, Scene
from recordings import list_recordings, read_recording
from standin_events import Event, list_recorded
from standin_replay import make_rayjob, replay

# Each recording, with an empty string if it is played, or the message that rejects it.
SIDECAR = "plays K8sJobMode only, not SidecarMode"
RECORDINGS = {
    "a-success": "",
    "b-app-failure": "",
    "c1-worker-task-oom-kernel": "",
    "c2-worker-container-oom-kernel": "",
    "c3-worker-task-oom-ray-monitor": "",
    "c4-worker-task-oom-ray-monitor-no-retry": "",
    "c5-worker-task-oom-fast-monitor-on": "",
    "d1-driver-oom-kernel": "",
    "d2-driver-supervisor-oom-kernel": "",
    "d3-head-container-oom-kernel": "",
    "e1-submitter-oom": "",
    "e2-submitter-deleted": "",
    "f-worker-preempted": "",
    "f2-head-preempted": "",
    "g1-head-evicted": "",
    "g2-head-deleted": "",
    "g3-worker-evicted": "",
    "g4-head-evicted-submitter-backoff-0": "",
    "g5-head-evicted-httpmode": "plays K8sJobMode only, not HTTPMode",
    "g6-node-taint": "",
    "h-image-pull": "",
    "i-unschedulable": "",
    "j-suspend-resume": "",
    "j2-suspend-rejected": "",
    "k-active-deadline": "",
    "k2-active-deadline-shutdown": "",
    "l-rayjob-deleted": "",
    "m-backoff-retry": "does not run a RayJob again",
    "s-driver-oom": SIDECAR,
    "s-exit-1": SIDECAR,
    "s-exit-64": SIDECAR,
    "s-exit-64-after-workers": SIDECAR,
    "s-exit-75": SIDECAR,
    "s-head-container-oom": SIDECAR,
    "s-head-deleted": SIDECAR,
    "s-head-deleted-before-ready": SIDECAR,
    "s-head-deleted-linger": SIDECAR,
    "s-head-evicted": SIDECAR,
    "s-head-preempted": SIDECAR,
    "s-k-exit-64": "",
    "s-k-head-and-submitter-evicted": "",
    "s-k-head-deleted": "",
    "s-k-head-deleted-before-ready": "",
    "s-k-head-deleted-linger": "",
    "s-k-head-preempted": "",
    "s-k-head-preempted-linger": "",
    "s-k-job-supervisor-oom": "",
    "s-k-rayjob-deleted": "",
    "s-k-submitter-lost": "",
    "s-k-success": "",
    "s-rayjob-deleted": SIDECAR,
    "s-rayjob-deleted-stopwait": SIDECAR,
    "s-submitter-lost": SIDECAR,
    "s-success": SIDECAR,
    "s-suspend": SIDECAR,
    "s-worker-oom": SIDECAR,
    "s-worker-preempted": SIDECAR,
    "v-no-ray-version": "",
    "v-node-drained": "",
    "v-quota-on-pods": "",
    "v-quota-on-submitter": "",
    "v-raycluster-deleted": "",
    "v-slow-start": "",
}
# KubeRay itself was away during this recording; the replayed stand-in never is.
AWAY = {"v-node-drained"}
PLAYED = [name for name, refusal in RECORDINGS.items() if not refusal and name not in AWAY]
# Events within this many seconds may have another order, because the recorder had a watch for each
# kind.
BLUR = 1.5


def test_every_recording_is_in_the_table() -> None:
    assert set(RECORDINGS) == set(list_recordings())


@pytest.mark.parametrize("name", PLAYED)
def test_statuses_of_the_rayjob_come_in_the_recorded_order(name: str) -> None:
    recording = read_recording(name)
    assert list_words(replay(name).events) == list_words(list_recorded(recording))


@pytest.mark.parametrize("name", PLAYED)
def test_objects_are_made_and_removed_as_recorded(name: str) -> None:
    recording = read_recording(name)
    actual, recorded = replay(name).events, list_recorded(recording)
    assert Counter(event.words for event in actual) == Counter(event.words for event in recorded)
    for earlier, later in list_certain(recorded):
        places = list_places(actual)
        assert places[earlier] < places[later], f"{earlier} came before {later}"


@pytest.mark.parametrize("name", [name for name, refusal in RECORDINGS.items() if refusal])
def test_unplayed_recordings_are_rejected_with_a_sentence(name: str) -> None:
    recording = read_recording(name)
    rayjob = make_rayjob(recording)
    rayjob["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
    (action,) = step(Scene(rayjob), recording.started_at, lambda: "aaaaa")
    assert isinstance(action, PutStatus)
    assert "ValidationFailed" == action.status["jobDeploymentStatus"]
    assert RECORDINGS[name] in action.status["message"]


def list_words(events: Sequence[Event]) -> list[str]:
    return [event.words for event in events if event.words.startswith("RayJob ")]


def number(events: Sequence[Event]) -> list[tuple[tuple[str, int], float]]:
    """Return each event with the number of equal events before it."""
    seen: Counter[str] = Counter()
    numbered = []
    for event in events:
        numbered.append(((event.words, seen[event.words]), event.time))
        seen[event.words] += 1
    return numbered


def list_certain(events: Sequence[Event]) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Return pairs of events whose order is certain."""
    numbered = number(events)
    return [
        (first, second)
        for first, time in numbered
        for second, later in numbered
        if later - time > BLUR
    ]


def list_places(events: Sequence[Event]) -> dict[tuple[str, int], int]:
    places: dict[tuple[str, int], int] = defaultdict(int)
    places |= {key: place for place, (key, _) in enumerate(number(events))}
    return places
