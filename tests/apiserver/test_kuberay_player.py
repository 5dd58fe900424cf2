"""The player follows its recording, and leaves the recording if the RayJob is deleted."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from fake_store import FakeStore
from kuberay_player import Player, Troupe
from kuberay_standin.rayjobs.steps import FINALIZER
from rayjob_bodies import make_rayjob
from recordings import Json, list_recordings, read_recording
from store_stage import StoreStage
from strandline_api.outcome.driver_outcome import find_outcome_line
from strandline_operator.model.plan import Resource

NAMESPACE = "here"
LINGER = "s-k-head-deleted-linger"
TIME = re.compile(r"(\d{4}-\d\d-\d\d)T")


def start(name: str, **options: Any) -> tuple[StoreStage, Player]:
    """Create a RayJob and its player."""
    stage = StoreStage(FakeStore())
    rayjob = asyncio.run(stage.create("RayJob", NAMESPACE, make_rayjob()))
    return stage, Player(stage, read_recording(name), rayjob, **options)


def play(name: str, until: str | None = None, **options: Any) -> tuple[StoreStage, Player]:
    stage, player = start(name, **options)
    asyncio.run(player.play(until))
    return stage, player


async def take_steps(player: Player, count: int) -> None:
    for _ in range(count):
        await player.step()


def delete_rayjob(stage: StoreStage) -> None:
    asyncio.run(stage.delete("RayJob", NAMESPACE, "corpus-1"))


def list_all(stage: StoreStage) -> list[Json]:
    """Return all existing objects."""
    return [*stage.store.objects.values(), *stage.jobs.objects.values()]


def list_names(stage: StoreStage, kind: str) -> list[str]:
    return [body["metadata"]["name"] for body in list_all(stage) if body["kind"] == kind]


def read_rayjob(stage: StoreStage) -> Json:
    return stage.store.objects[Resource.RAYJOB, NAMESPACE, "corpus-1"]


def find_pod(stage: StoreStage, part: str) -> Json:
    pods = [body for body in list_all(stage) if body["kind"] == "Pod"]
    return next(body for body in pods if part in body["metadata"]["name"])


@pytest.mark.parametrize("name", list_recordings())
def test_every_recording_is_played_to_its_end(name: str) -> None:
    stage, player = play(name)
    there = set()
    for step in player.recording.steps:
        there |= {step.key} if step.new else set()
        there -= {step.key} if step.is_gone else set()
    assert len(list_all(stage)) == len(there)
    assert player.is_over
    assert player.time == player.recording.steps[-1].time


@pytest.mark.parametrize("recording", list_recordings())
def test_every_status_is_as_recorded_with_the_names_of_the_play(recording: str) -> None:
    stage, player = start(recording)
    while (step := asyncio.run(player.step())) is not None:
        name = player.casting.cast_text(step.name)
        body = asyncio.run(stage.get(step.kind, NAMESPACE, name)) if step.kind else None
        if body is None:
            continue
        status = body.get("status", {})
        assert status.get("phase") == step.status.get("phase")
        assert len(status.get("conditions", ())) == len(step.status.get("conditions", ()))
        assert status.keys() == step.status.keys()
        assert not re.search(r"\brj-", str(body))


@pytest.mark.parametrize("name", list_recordings())
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_an_early_deletion_removes_everything_and_creates_nothing(name: str, share: float) -> None:
    stage, player = start(name)
    asyncio.run(take_steps(player, int(len(player.recording.steps) * share)))
    delete_rayjob(stage)
    stage.store.history.clear()
    stage.jobs.history.clear()
    asyncio.run(player.play())
    assert list_all(stage) == []
    own_deletion = "RayJob deleting" in player.recording.marks
    history = [*stage.store.history, *stage.jobs.history]
    assert own_deletion or "ADDED" not in {change.kind for change in history}


@pytest.mark.parametrize("name", list_recordings())
def test_every_pod_of_a_recording_is_removed_with_a_phase(name: str) -> None:
    stage, player = play(name)
    delete_rayjob(stage)
    asyncio.run(player.play())
    assert list_all(stage) == []
    gone = [change.body for change in stage.store.history if change.kind == "DELETED"]
    pods = [body for body in gone if body["kind"] == "Pod"]
    assert len(pods) == len({step.name for step in player.recording.steps if step.kind == "Pod"})
    assert all("phase" in pod["status"] for pod in pods)


def test_owners_are_removed_before_pods_and_pods_end_as_recorded() -> None:
    stage, player = play("s-k-success", "RayJob Complete")
    delete_rayjob(stage)
    assert list_names(stage, "RayJob") == ["corpus-1"]
    for _ in range(3):
        asyncio.run(player.step())
    assert {body["kind"] for body in list_all(stage)} == {"Pod"}
    asyncio.run(player.play("head Failed"))
    head = find_pod(stage, "-head-")
    ended = head["status"]["containerStatuses"][0]["state"]["terminated"]
    assert "deletionTimestamp" in head["metadata"]
    outcome = find_outcome_line(ended["message"])
    assert outcome is not None
    assert outcome.exit_code == 0


def test_a_pod_without_a_recorded_end_gets_the_ordinary_end() -> None:
    stage, player = play(LINGER)
    delete_rayjob(stage)
    ends = []
    while (step := asyncio.run(player.step())) is not None:
        if step.subject == "worker":
            ends.append((step.is_deleting, step.is_gone, step.status["containerStatuses"][0]))
    assert [(deleting, gone) for deleting, gone, _ in ends] == [(True, False), (False, True)]
    assert ends[-1][2]["state"]["terminated"]["reason"] == "Error"


def test_a_later_recorded_disruption_is_not_part_of_a_teardown() -> None:
    stage, player = play("s-k-head-preempted", "RayJob RUNNING")
    delete_rayjob(stage)
    seen: set[str] = set()
    while (step := asyncio.run(player.step())) is not None:
        seen |= {condition["type"] for condition in step.status.get("conditions", ())}
    assert "DisruptionTarget" not in seen


def test_a_terminating_pod_ends_as_recorded() -> None:
    stage, player = play("s-k-head-preempted", "head deleting")
    delete_rayjob(stage)
    asyncio.run(player.play("head Failed"))
    conditions = find_pod(stage, "-head-")["status"]["conditions"]
    assert "DisruptionTarget" in {condition["type"] for condition in conditions}


def test_kuberays_finalizer_keeps_a_rayjob_until_the_player_steps() -> None:
    stage, player = play("s-k-success", "RayJob RUNNING")
    assert read_rayjob(stage)["metadata"]["finalizers"] == [FINALIZER]
    delete_rayjob(stage)
    assert list_names(stage, "RayJob") == ["corpus-1"]
    asyncio.run(player.step())
    assert list_names(stage, "RayJob") == []


def test_a_rayjob_of_the_same_name_is_not_mistaken_for_the_played_one() -> None:
    stage, player = start("s-k-success")
    delete_rayjob(stage)
    asyncio.run(stage.create("RayJob", NAMESPACE, make_rayjob()))
    asyncio.run(player.play())
    assert list_names(stage, "Pod") == []


def test_pods_have_the_labels_of_kuberay_and_of_the_templates() -> None:
    stage, _ = play("s-k-success", "RayJob RUNNING")
    head, worker = find_pod(stage, "-head-"), find_pod(stage, "-worker-")
    labels = head["metadata"]["labels"]
    assert labels["example.com/role"] == "head"
    assert labels["ray.io/node-type"] == "head"
    assert labels["ray.io/cluster"] == list_names(stage, "RayCluster")[0]
    assert worker["metadata"]["labels"]["ray.io/group"] == "cpu"
    submitter = next(
        body
        for body in list_all(stage)
        if body["kind"] == "Pod" and body["metadata"]["labels"].get("job-name") == "corpus-1"
    )
    assert submitter["metadata"]["labels"]["example.com/role"] == "submitter"


def test_each_owner_is_the_recorded_owner_with_its_new_uid() -> None:
    stage, _ = play("s-k-success", "RayJob RUNNING")
    uids = {body["metadata"]["uid"]: body["kind"] for body in list_all(stage)}
    owners = {
        (body["kind"], uids[body["metadata"]["ownerReferences"][0]["uid"]])
        for body in list_all(stage)
        if "ownerReferences" in body["metadata"]
    }
    assert owners == {
        ("RayCluster", "RayJob"),
        ("Job", "RayJob"),
        ("Pod", "RayCluster"),
        ("Pod", "Job"),
    }


def test_containers_have_the_names_of_the_templates() -> None:
    stage, _ = play("s-k-success", "RayJob RUNNING")
    for part, name in (("-head-", "head"), ("-worker-", "main")):
        pod = find_pod(stage, part)
        assert [container["name"] for container in pod["spec"]["containers"]] == [name]
        assert [status["name"] for status in pod["status"]["containerStatuses"]] == [name]


def test_a_recorded_sidecar_is_added() -> None:
    stage, _ = play("s-success", "RayJob RUNNING")
    names = [container["name"] for container in find_pod(stage, "-head-")["spec"]["containers"]]
    assert names == ["head", "ray-job-submitter"]


def test_the_outcome_line_has_the_drivers_format() -> None:
    stage, player = start(LINGER)
    asyncio.run(player.play("head Failed"))
    message = read_rayjob(stage)["status"]["message"]
    state = find_pod(stage, "-head-")["status"]["containerStatuses"][0]["state"]
    for text in (message, state["terminated"]["message"]):
        outcome = find_outcome_line(text)
        assert outcome is not None
        assert outcome.exit_code == 75


def test_a_log_grows_with_the_play_and_is_removed_with_its_pod() -> None:
    stage, player = play(LINGER, "RayJob RUNNING")
    submitter = next(
        name for name in list_names(stage, "Pod") if "-head-" not in name and "worker" not in name
    )
    early = player.read_log(submitter, "ray-job-submitter")
    assert early is not None
    assert find_outcome_line(early) is None
    asyncio.run(player.play("RayJob Failed"))
    late = player.read_log(submitter, "ray-job-submitter")
    assert late is not None
    assert late.startswith(early)
    outcome = find_outcome_line(late)
    assert outcome is not None
    assert outcome.exit_code == 75
    delete_rayjob(stage)
    asyncio.run(player.play())
    assert player.read_log(submitter, "ray-job-submitter") is None


def test_times_count_from_the_beginning_of_the_play() -> None:
    begin = datetime(2030, 1, 31, 12, tzinfo=UTC)
    stage, _ = play("s-k-success", begin=begin)
    assert set(TIME.findall(str(read_rayjob(stage)["status"]))) == {"2030-01-31"}


def test_without_a_beginning_times_are_as_recorded() -> None:
    stage, _ = play("s-k-success")
    assert set(TIME.findall(str(read_rayjob(stage)["status"]))) == {"2026-11-21"}


def test_the_recorders_deletions_are_played() -> None:
    stage, player = play("s-k-rayjob-deleted", "RayJob deleting")
    assert "deletionTimestamp" in read_rayjob(stage)["metadata"]
    asyncio.run(player.play())
    assert list_all(stage) == []


def test_suspension_is_played_as_a_change_of_the_spec() -> None:
    stage, player = play("j-suspend-resume", "RayJob Suspending")
    spec = read_rayjob(stage)["spec"]
    assert spec["suspend"] is True
    asyncio.run(player.play("RayJob Complete"))
    assert read_rayjob(stage)["spec"]["suspend"] is False


def test_a_missing_mark_is_an_error() -> None:
    with pytest.raises(LookupError, match="s-k-success ended before 'head OOMKilled'"):
        play("s-k-success", "head OOMKilled")


def test_a_troupe_plays_each_rayjob_from_its_own_recording() -> None:
    stage = StoreStage(FakeStore())
    troupe = Troupe(stage, NAMESPACE, [LINGER, "s-k-success"])
    assert not asyncio.run(troupe.tick())
    for name in ("corpus-1", "corpus-2"):
        asyncio.run(stage.create("RayJob", NAMESPACE, make_rayjob(name)))
        while asyncio.run(troupe.tick()):
            pass
    ends = {
        body["metadata"]["name"]: body["status"]["jobDeploymentStatus"]
        for body in stage.store.list(Resource.RAYJOB)
    }
    assert ends == {"corpus-1": "Failed", "corpus-2": "Complete"}


def test_a_troupe_fails_at_the_end_of_its_programme() -> None:
    stage = StoreStage(FakeStore())
    asyncio.run(stage.create("RayJob", NAMESPACE, make_rayjob()))
    with pytest.raises(LookupError, match="no recording is left for RayJob corpus-1"):
        asyncio.run(Troupe(stage, NAMESPACE, []).tick())
