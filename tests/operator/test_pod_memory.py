"""The memory of deleted pods keeps each pod's last state, up to a time and a number of pods."""

from __future__ import annotations

from dataclasses import replace

from fake_store import FakeStore
from operator_bodies import NAMESPACE, make_pipeline, make_pod
from strandline_operator.cluster.watches.scope_cache import Observation
from strandline_operator.model.objects import Pod
from strandline_operator.reconcile.caches.pods import PodMemory, PodOwner
from strandline_operator.reconcile.scheduling.schedule import Key, SeenPipelines


def make_pods(
    count: int, pipeline: str = "corpus", store: FakeStore | None = None
) -> tuple[PodOwner, list[Pod]]:
    store = store or FakeStore()
    body = make_pipeline(store, pipeline)
    pods = [make_pod(store, body, f"{pipeline}-{number}", "worker") for number in range(count)]
    return PodOwner(NAMESPACE, body["metadata"]["uid"]), [Pod.read(pod) for pod in pods]


def test_a_deleted_pod_is_kept_in_its_last_state() -> None:
    uid, (pod,) = make_pods(1)
    memory = PodMemory()
    assert memory.note(Observation(pod, is_gone=False)) == uid
    memory.note(Observation(pod, is_gone=True))

    (gone,) = memory.gone(uid)
    assert (gone.meta.name, gone.is_gone) == ("corpus-0", True)
    assert memory.live(uid) == {}
    assert memory.gone(PodOwner(NAMESPACE, "another")) == ()


def test_a_late_event_does_not_revive_a_deleted_pod() -> None:
    uid, (pod,) = make_pods(1)
    memory = PodMemory()
    memory.note(Observation(pod, is_gone=True))
    memory.note(Observation(pod, is_gone=False))
    assert memory.live(uid) == {}
    assert len(memory.gone(uid)) == 1


def test_a_known_pod_missing_from_a_list_is_gone() -> None:
    uid, (first, second, third) = make_pods(3)
    memory = PodMemory()
    for pod in (first, second, third):
        memory.note(Observation(pod, is_gone=False))
    before = memory.live(uid)
    memory.note(Observation(third, is_gone=True))

    living, gone = memory.compare(uid, before, [first, third])

    assert [pod.meta.name for pod in living] == ["corpus-0"]
    assert [(pod.meta.name, pod.is_gone) for pod in gone] == [
        ("corpus-2", True),
        ("corpus-1", True),
    ]


def test_a_pod_created_after_the_list_is_not_gone() -> None:
    uid, (pod,) = make_pods(1)
    memory = PodMemory()
    before = memory.live(uid)
    memory.note(Observation(pod, is_gone=False))
    assert memory.compare(uid, before, []) == ((), ())


def test_the_oldest_pods_are_evicted_per_pipeline_and_in_total() -> None:
    memory, store = PodMemory(most_of_one=3, most_of_all=5), FakeStore()
    first, pods = make_pods(5, store=store)
    for pod in pods:
        memory.note(Observation(pod, is_gone=True))
    assert [pod.meta.name for pod in memory.gone(first)] == ["corpus-2", "corpus-3", "corpus-4"]

    second, others = make_pods(3, "other", store)
    for pod in others:
        memory.note(Observation(pod, is_gone=True))

    assert [pod.meta.name for pod in memory.gone(first)] == ["corpus-3", "corpus-4"]
    assert len(memory.gone(second)) == 3
    assert len(memory) == 5


def test_a_deleted_pipeline_leaves_nothing_in_memory() -> None:
    memory = PodMemory()
    uid, pods = make_pods(4)
    for number, pod in enumerate(pods):
        memory.note(Observation(pod, is_gone=number % 2 == 0))
    assert len(memory) == 4
    memory.forget(uid)
    assert len(memory) == 0
    assert (memory.live(uid), memory.gone(uid)) == ({}, ())


def test_a_pod_of_another_namespace_never_belongs_to_the_pipeline() -> None:
    uid, (pod,) = make_pods(1)
    memory, place = PodMemory(), PodOwner("elsewhere", uid.uid)
    copy = replace(pod, meta=replace(pod.meta, namespace="elsewhere", uid="copy"))
    assert memory.note(Observation(copy, is_gone=False)) == place
    assert (memory.live(uid), list(memory.live(place))) == ({}, ["copy"])
    memory.note(Observation(copy, is_gone=True))
    assert memory.compare(uid, {}, [pod]) == ((pod,), ())
    memory.forget(uid)
    assert len(memory.gone(place)) == 1


def test_owners_without_remembered_pods_are_forgotten() -> None:
    """The end of these pods is never reported: the pipeline is unknown or was deleted earlier."""
    memory, store = PodMemory(most_of_all=1), FakeStore()
    for name in ("one", "two", "three"):
        _, (pod,) = make_pods(1, name, store)
        memory.note(Observation(pod, is_gone=False))
        memory.note(Observation(pod, is_gone=True))
    alone = PodMemory(most_of_all=1)
    alone.note(Observation(pod, is_gone=True))
    assert memory == alone


def test_a_roster_maps_uids_to_current_pipelines() -> None:
    seen_pipelines, key = SeenPipelines(), Key("team", "corpus")
    assert seen_pipelines.note(key, "one") == ""
    assert seen_pipelines.note(key, "one") == ""
    assert seen_pipelines.find("one") == key

    assert seen_pipelines.note(key, "two") == "one"
    assert (seen_pipelines.find("one"), seen_pipelines.find("two")) == (None, key)
    assert seen_pipelines.remove(key) == "two"
    assert (seen_pipelines.find("two"), seen_pipelines.remove(key), len(seen_pipelines)) == (
        None,
        "",
        0,
    )
