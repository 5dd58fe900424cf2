"""A watch reports all changes and every end of a pod, even if its stream fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fake_api import Call, FakeApi, until
from operator_bodies import NAMESPACE, Body, make_pipeline, make_pod
from strandline_api.names import select_all
from strandline_operator.cluster.api import Scope
from strandline_operator.cluster.errors import Forbidden, Gone, NotFound, TooMany, Unavailable
from strandline_operator.cluster.watches.scope_cache import Observation, ScopeCache
from strandline_operator.cluster.watches.watch import LONGEST_WAIT, PAUSE, Watch
from strandline_operator.model.objects import Meta, Pod
from strandline_operator.model.plan import Resource

SCOPE = Scope(Resource.POD, None, select_all())


def read_meta(body: Body) -> Meta:
    return replace(Meta.read(body), version="")


class Scene:
    """A watch of pods. `observations` has the reported changes, `waits` the pauses in seconds."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.pipeline: Body = make_pipeline(self.api.store)
        self.observations: list[tuple[str, str]] = []
        self.waits: list[float] = []
        self.now = 100.0
        self.cache: ScopeCache[Pod]
        self.watch: Watch[Pod]
        self.follow(lambda body: replace(Pod.read(body), meta=read_meta(body)))

    def follow(self, read: Callable[[Body], Pod]) -> None:
        self.cache = ScopeCache(lambda body, _: read(body), lambda pod: (pod.meta.name,))
        self.watch = Watch(
            self.api,
            SCOPE,
            cache=self.cache,
            notify=self.tell,
            clock=lambda: self.now,
            sleep=self.sleep,
        )

    def tell(self, observation: Observation[Pod]) -> None:
        word = "gone" if observation.is_gone else observation.value.phase
        self.observations.append((observation.value.meta.name, word))

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    def add(self, name: str) -> None:
        make_pod(self.api.store, self.pipeline, name, "worker")

    def set_phase(self, name: str, phase: str) -> None:
        self.api.store.put_status(Resource.POD, NAMESPACE, name, {"phase": phase})

    def remove(self, name: str) -> None:
        self.api.store.remove(Resource.POD, NAMESPACE, name)

    def count(self, verb: str) -> int:
        return sum(call.verb == verb for call in self.api.calls)

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.watch.run())
            try:
                await story()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(run())


def test_all_changes_are_reported_in_order() -> None:
    scene = Scene()
    scene.add("a")
    unlabelled = {"metadata": {"name": "theirs"}}
    scene.api.store.create(Resource.POD, NAMESPACE, unlabelled)

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        scene.add("b")
        scene.set_phase("a", "Failed")
        scene.remove("a")
        await until(lambda: len(scene.observations) == 4)

    scene.play(story)
    assert scene.observations == [
        ("a", "Running"),
        ("b", "Running"),
        ("a", "Failed"),
        ("a", "gone"),
    ]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_new_stream_continues_from_the_last_version(is_lost: bool) -> None:
    scene = Scene()
    scene.add("a")

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        if is_lost:
            scene.api.before.append(fail_once(Unavailable(0, "", "lost"), "watch"))
        scene.api.drop_watches()
        scene.set_phase("a", "Failed")
        scene.remove("a")
        await until(lambda: len(scene.observations) == 3)

    scene.play(story)
    assert scene.observations == [("a", "Running"), ("a", "Failed"), ("a", "gone")]
    assert scene.count("list") == 1
    assert PAUSE in scene.waits


def test_pods_deleted_during_a_gap_are_reported_in_their_last_state() -> None:
    scene = Scene()
    scene.add("a")
    scene.add("b")

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        scene.set_phase("a", "Failed")
        await until(lambda: len(scene.observations) == 3)
        scene.remove("a")
        scene.add("c")
        scene.api.forget_history()
        await until(lambda: scene.count("list") == 2 and len(scene.observations) == 5)

    scene.play(story)
    assert scene.observations[3:] == [("a", "gone"), ("c", "Running")]


def test_a_server_that_always_expires_is_polled_less_and_less_often() -> None:
    scene = Scene()
    scene.add("a")

    def forget(call: Call) -> None:
        if call.verb == "watch":
            raise Gone(410, "Expired", "the version is too old")

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        scene.waits.clear()
        scene.api.before.append(forget)
        scene.api.drop_watches()
        await until(lambda: scene.count("list") >= 6)
        scene.api.before.clear()
        # A watch request may still have been in flight and failed. Another list follows in that
        # case.
        refused = scene.count("watch")
        # After a stream with events, the next list follows without a pause.
        await until(lambda: scene.watch.last_event > 0 and scene.count("watch") > refused)
        scene.set_phase("a", "Failed")
        await until(lambda: len(scene.observations) == 2)
        waited = len(scene.waits)
        scene.api.forget_history()
        await until(lambda: scene.count("list") >= 8)
        assert scene.waits[waited:] in ([], [PAUSE])

    scene.play(story)
    assert [wait for wait in scene.waits if wait != PAUSE][:4] == [0.5, 1.0, 2.0, 4.0]


def test_the_cache_is_current_only_while_a_stream_follows() -> None:
    scene = Scene()
    scene.add("a")

    async def story() -> None:
        assert not scene.watch.has_begun
        await until(lambda: scene.count("watch") == 1)
        assert scene.cache.is_current(scene.now)
        lost = [True]

        def refuse(call: Call) -> None:
            if lost:
                raise Unavailable(0, "", "lost")

        scene.api.before.append(refuse)
        scene.api.drop_watches()
        await until(lambda: len(scene.waits) > 3)
        assert not scene.cache.is_current(scene.now)
        lost.clear()
        # A successful request makes the cache current, because events may be absent for hours.
        await until(lambda: scene.cache.is_current(scene.now))

    scene.play(story)
    assert scene.count("list") == 1


def test_an_expired_version_causes_a_list_before_the_next_read() -> None:
    scene = Scene()

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        seen: list[bool] = []
        scene.api.before.append(
            lambda call: seen.append(scene.cache.is_current(scene.now) or call.verb != "list")
        )
        scene.api.forget_history()
        await until(lambda: scene.count("watch") == 3)
        assert seen == [True, False, True]
        assert scene.cache.is_current(scene.now)

    scene.play(story)


def test_a_kind_that_can_not_be_listed_counts_as_started() -> None:
    scene = Scene()
    scene.api.unserved.add(Resource.POD)

    async def story() -> None:
        await until(lambda: scene.watch.has_begun)
        assert not scene.cache.is_current(scene.now)

    scene.play(story)


def fail_once(error: Exception, verb: str) -> Callable[[Call], None]:
    left = 1

    def hook(call: Call) -> None:
        nonlocal left
        if call.verb == verb and left:
            left -= 1
            raise error

    return hook


def test_an_unserved_kind_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.api.unserved.add(Resource.POD)

    async def story() -> None:
        await until(lambda: len(scene.waits) >= 9)
        scene.add("a")
        scene.api.unserved.clear()
        await until(lambda: bool(scene.observations))

    scene.play(story)
    assert scene.waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert scene.waits[8] == LONGEST_WAIT
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "watching pods again in 0.5 s" in warnings[0].getMessage()


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (Forbidden(403, "Forbidden", "no"), 0.5),
        (TooMany(429, "", "slow down", 7.0), 7.0),
        (NotFound(404, "", "page not found"), 0.5),
    ],
)
def test_every_failed_request_is_retried(error: Exception, wait: float) -> None:
    scene = Scene()
    scene.api.before.append(fail_once(error, "list"))

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)

    scene.play(story)
    assert scene.waits == [wait]


def test_a_watch_reports_the_time_of_the_last_event() -> None:
    scene = Scene()

    async def story() -> None:
        await until(lambda: scene.count("watch") == 1)
        assert scene.watch.last_event == 100.0
        scene.now = 160.0
        scene.add("a")
        await until(lambda: scene.watch.last_event == 160.0)

    scene.play(story)


def test_an_event_of_an_unknown_type_is_skipped() -> None:
    scene = Scene()
    seen: list[Any] = []

    async def watch(scope: Scope, version: str) -> Any:
        seen.append(version)
        yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}
        yield {"type": "SOMETHING", "object": None}
        await asyncio.sleep(0)

    scene.api.watch = watch  # type: ignore[method-assign]

    async def story() -> None:
        await until(lambda: len(seen) >= 2)

    scene.play(story)
    assert seen[1] == "77"
    assert scene.observations == []


def test_a_missing_permission_is_recorded_until_granted() -> None:
    scene = Scene()

    def refuse(call: Call) -> None:
        if call.verb == "watch":
            raise Forbidden(403, "Forbidden", "cannot watch pods")

    async def story() -> None:
        scene.api.before.append(refuse)
        await until(lambda: scene.watch.refused is not None)
        await until(lambda: len(scene.waits) > 3)
        assert scene.watch.refused is not None  # a later list does not clear a refused watch
        assert "cannot watch pods" in scene.watch.refused.message
        scene.api.before.clear()
        scene.add("a")
        await until(lambda: scene.watch.refused is None)

    scene.play(story)


def test_a_change_of_unread_fields_is_not_reported() -> None:
    scene = Scene()
    scene.follow(lambda body: replace(Pod.read(body), meta=Meta("", "", "")))

    async def story() -> None:
        scene.add("a")
        await until(lambda: len(scene.observations) == 1)
        for label in "xyz":
            patch = {"metadata": {"annotations": {label: "1"}}}
            scene.api.store.patch(Resource.POD, NAMESPACE, "a", patch)
        scene.set_phase("a", "Failed")
        await until(lambda: len(scene.observations) == 2)
        scene.remove("a")
        scene.add("a")
        await until(lambda: len(scene.observations) == 4)

    scene.play(story)
    assert [word for _, word in scene.observations] == ["Running", "Failed", "gone", "Running"]
