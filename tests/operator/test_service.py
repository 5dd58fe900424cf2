"""The operator with an API server in memory: each observed change requests a pass in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fake_api import Call, FakeApi, until
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_pod, make_rayjob
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.cluster.watches.scope_cache import EXPECTATION_SECONDS
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import PassPlan, Resource
from strandline_operator.model.view import View
from strandline_operator.reconcile.passes import Decide
from strandline_operator.reconcile.scheduling.schedule import Key
from strandline_operator.reconcile.service import (
    STUCK_PASS,
    STUCK_QUEUE,
    STUCK_WATCH,
    Service,
    World,
)
from strandline_operator.settings import Settings


class Scene:
    """A service that records its decisions without acting."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.api = FakeApi()
        self.now = 1000.0
        self.views: list[View] = []
        self.waits: list[float] = []
        self.service: Service
        self.settings = settings or Settings()
        self.follow_up: Decide = lambda *_: PassPlan()

    def decide(self, view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
        self.views.append(view)
        return self.follow_up(view, now, limits, drawn)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0.001 if seconds < 100 else 3600)

    @property
    def seen(self) -> list[str]:
        return [view.pipeline.meta.name for view in self.views]

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            world = World(self.api, lambda: self.now, lambda: 0.0, self.sleep)
            self.service = Service(self.settings, world, self.decide, Numbers())
            try:
                await story()
            finally:
                await self.service.stop()

        asyncio.run(run())


def test_every_existing_pipeline_gets_a_pass() -> None:
    scene = Scene()
    for name in ("a", "b"):
        make_pipeline(scene.api.store, name)

    async def story() -> None:
        await scene.service.start()
        await until(lambda: sorted(scene.seen) == ["a", "b"])

    scene.play(story)


def test_the_service_waits_for_its_kinds_and_permissions(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.api.unserved.add(Resource.PIPELINE)

    def refuse(_: object) -> None:
        raise Forbidden(403, "Forbidden", "you can't list curationpipelines")

    async def story() -> None:
        starting = asyncio.create_task(scene.service.start())
        await until(lambda: len(scene.waits) >= 2)
        scene.api.unserved.clear()
        scene.api.before.append(refuse)
        await until(lambda: "lacks permissions" in caplog.text)
        scene.api.before.clear()
        await starting

    scene.play(story)
    assert "apply the files in crds/" in caplog.text


def test_changes_of_a_pipelines_objects_request_a_pass() -> None:
    scene = Scene()
    store = scene.api.store
    pipeline = make_pipeline(store)
    attempt = make_attempt(store, pipeline)

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.seen) == 1)
        await until(lambda: sum(call.verb == "watch" for call in scene.api.calls) == 6)
        make_rayjob(store, pipeline, attempt)
        await until(lambda: len(scene.seen) == 2)
        make_pod(store, pipeline, "head", "head")
        await until(lambda: len(scene.seen) == 3)
        store.remove(Resource.POD, NAMESPACE, "head")
        await until(lambda: len(scene.seen) == 4)
        assert [pod.meta.name for pod in scene.views[-1].gone_pods] == ["head"]
        make_pod(store, make_pipeline(store, "other"), "theirs", "head")
        await until(lambda: "other" in scene.seen)
        await asyncio.sleep(0.02)
        assert scene.seen.count("corpus") == 4

    scene.play(story)


def test_copies_in_another_namespace_request_no_pass() -> None:
    scene = Scene()
    store = scene.api.store
    pipeline = make_pipeline(store)
    attempt = make_attempt(store, pipeline)
    rayjob, pod = make_rayjob(store, pipeline, attempt), make_pod(store, pipeline, "head", "head")

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.seen) == 1)
        await until(lambda: sum(call.verb == "watch" for call in scene.api.calls) == 6)
        for resource, body in ((Resource.POD, pod), (Resource.RAYJOB, rayjob)):
            metadata = {name: body["metadata"][name] for name in ("name", "labels")}
            store.create(resource, "elsewhere", {**body, "metadata": metadata})
            store.remove(resource, "elsewhere", metadata["name"])
        await asyncio.sleep(0.02)
        assert len(scene.seen) == 1
        store.remove(Resource.POD, NAMESPACE, "head")
        await until(lambda: len(scene.seen) == 2)
        assert [pod.meta.namespace for pod in scene.views[-1].gone_pods] == [NAMESPACE]

    scene.play(story)


def test_a_pipelines_event_requests_a_pass_of_its_dependents() -> None:
    scene = Scene()
    store = scene.api.store
    make_pipeline(store, after=[{"name": "raw"}])
    raw = make_pipeline(store, "raw")

    async def story() -> None:
        await scene.service.start()
        await until(lambda: sorted(scene.seen) == ["corpus", "raw"])
        scene.now += 1
        done = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        scene.service.see_pipeline({**raw, "status": done})
        await until(lambda: sorted(scene.seen) == ["corpus", "corpus", "raw"])

    scene.play(story)


def test_an_event_from_kopf_requests_a_pass_before_the_watch_delivers_it() -> None:
    scene = Scene()
    store = scene.api.store
    pipeline = make_pipeline(store)
    attempt = make_attempt(store, pipeline)
    scene.api.is_stalled = True

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.seen) == 1)
        scene.now += 1.0
        scene.service.see_pipeline(pipeline)
        scene.service.see_attempt(attempt)
        await asyncio.sleep(0.02)
        assert len(scene.seen) == 1
        for number, (resource, name, see) in enumerate(
            (
                (Resource.PIPELINE, "corpus", scene.service.see_pipeline),
                (Resource.ATTEMPT, "corpus-1", scene.service.see_attempt),
            ),
            2,
        ):
            store.put_status(resource, NAMESPACE, name, {"message": "new"})
            scene.now += 1.0
            see(store.get(resource, NAMESPACE, name) or {})
            await until(lambda count=number: len(scene.seen) == count)  # type: ignore[misc]

    scene.play(story)


def test_the_first_passes_wait_for_lists_for_a_limited_time() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)
    opened = asyncio.Event()

    async def hold(call: Call) -> None:
        if call.verb == "list" and call.resource is Resource.POD:
            await opened.wait()

    async def story() -> None:
        scene.api.before.append(hold)
        starting = asyncio.create_task(scene.service.start())
        await until(lambda: len(scene.waits) > 20)
        assert not starting.done()
        assert scene.seen == []
        await starting
        opened.set()
        await until(lambda: bool(scene.seen))

    scene.play(story)


def test_events_of_strandlines_kinds_request_a_pass() -> None:
    scene = Scene()
    scene.api.is_stalled = True  # a running watch of the same object would request passes, too

    async def story() -> None:
        await scene.service.start()
        pipeline = make_pipeline(scene.api.store)
        scene.service.see_pipeline(pipeline)
        await until(lambda: len(scene.seen) == 1)
        scene.service.see_attempt(make_attempt(scene.api.store, pipeline))
        await until(lambda: len(scene.seen) == 2)
        for odd in ({}, {"spec": None}, {"spec": {"pipeline": 7}}):
            scene.service.see_attempt(odd)
        await asyncio.sleep(0.02)
        assert len(scene.seen) == 2

    scene.play(story)


def test_only_the_named_namespaces_are_watched() -> None:
    scene = Scene(Settings(namespaces=("one", "two")))
    make_pipeline(scene.api.store)

    async def story() -> None:
        await scene.service.start()
        # Nodes have no namespace.
        *watches, nodes = scene.service.watches
        assert {watch.scope.namespace for watch in watches} == {"one", "two"}
        assert (len(watches), nodes.scope.resource) == (10, Resource.NODE)
        await asyncio.sleep(0.02)
        assert scene.seen == []

    scene.play(story)


def test_a_pipeline_missed_by_the_streams_is_found() -> None:
    scene = Scene()
    scene.api.is_stalled = True

    async def story() -> None:
        await scene.service.start()
        make_pipeline(scene.api.store)
        assert await scene.service._try_sweep()
        assert await scene.service._try_sweep()
        await until(lambda: scene.seen == ["corpus"])
        await asyncio.sleep(0.02)
        assert scene.seen == ["corpus"]

    scene.play(story)
    assert scene.waits.count(300.0) == 1


def test_refused_watches_are_in_every_view() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)

    def refuse(call: Call) -> None:
        if call.verb == "watch" and call.resource is Resource.POD:
            raise Forbidden(403, "Forbidden", "cannot watch pods")

    async def story() -> None:
        scene.api.before.append(refuse)
        await scene.service.start()
        await until(lambda: any(watch.refused for watch in scene.service.watches))
        scene.views.clear()
        scene.service.queue.enqueue(KEY)
        await until(lambda: bool(scene.views))
        assert [(refusal.what, refusal.verb) for refusal in scene.views[-1].refusals] == [
            ("pods", "watch")
        ]

    scene.play(story)


def test_a_failing_server_does_not_make_the_operator_unhealthy() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)

    def fail(_: object) -> None:
        raise Unavailable(500, "", "sorry")

    async def story() -> None:
        await scene.service.start()
        scene.api.before.append(fail)
        scene.api.drop_watches()
        scene.now += STUCK_WATCH + 1
        scene.service.queue.enqueue(KEY)
        await until(lambda: all(watch.last_event == scene.now for watch in scene.service.watches))
        assert scene.service.check()["watch_age_seconds"] == 0

    scene.play(story)


def test_stuck_parts_are_named() -> None:
    scene = Scene()

    async def story() -> None:
        assert scene.service.check()["silent_pass_seconds"] == 0
        await scene.service.start()
        assert set(scene.service.check()) == {
            "silent_pass_seconds",
            "queue_lag_seconds",
            "watch_age_seconds",
            "namespaces_refused",
        }
        schedule = scene.service.queue.schedule
        schedule.enqueue(Key("a", "b"), scene.now)
        assert schedule.take(scene.now) is not None
        scene.now += 181
        with pytest.raises(RuntimeError, match=r"^silent_pass_seconds is 181, more than 180$"):
            scene.service.check()

    scene.play(story)


def test_a_slow_server_does_not_count_as_a_stuck_operator() -> None:
    scene = Scene()
    pipeline = make_pipeline(scene.api.store)
    make_attempt(scene.api.store, pipeline)
    answers: list[float] = []

    def answer_slowly(_: object) -> None:
        scene.now += 28.0
        for watch in scene.service.watches:
            watch.last_event = scene.now  # bookmarks update this time, too
        scene.service.queue.note_answer()
        answers.append(max(scene.service.check().values()))

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.seen) == 1)
        scene.api.before.append(answer_slowly)
        for cache in scene.service._cache.namespaces.values():
            cache.pipelines.is_connected = False  # all reads go to the server
        scene.service.queue.enqueue(KEY)
        await until(lambda: len(scene.seen) == 2)

    scene.play(story)
    assert 28.0 * len(answers) > STUCK_PASS


def test_health_is_reported_from_the_start() -> None:
    scene = Scene()

    async def story() -> None:
        with pytest.raises(RuntimeError, match="the operator has not started yet"):
            scene.service.report_health()
        await scene.service.start()
        assert scene.service.report_health()

    scene.play(story)


def test_a_long_queue_is_not_stuck() -> None:
    scene = Scene()

    async def story() -> None:
        schedule = scene.service.queue.schedule
        schedule.enqueue(Key("a", "b"), scene.now)
        scene.now += STUCK_QUEUE + 1
        scene.service.queue.last_sign = scene.now - 1
        assert scene.service.check()["queue_lag_seconds"] == 1
        scene.service.queue.last_sign = 0.0
        with pytest.raises(RuntimeError, match="queue_lag_seconds"):
            scene.service.check()

    scene.play(story)


def test_ended_background_work_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    def explode(_: object) -> None:
        raise ZeroDivisionError("a mistake")

    async def story() -> None:
        await scene.service.start()
        scene.api.before.append(explode)
        scene.api.drop_watches()
        await until(lambda: "work has stopped" in caplog.text)
        with pytest.raises(RuntimeError, match=r"watch of .* has ended"):
            scene.service.check()

    scene.play(story)


def test_a_pass_that_runs_may_end_when_the_operator_stops() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)
    reads: list[str] = []

    async def slow(_: object) -> None:
        reads.append("read")
        await asyncio.sleep(0.005)

    async def story() -> None:
        await scene.service.start()
        scene.api.before.append(slow)
        scene.service.queue.enqueue(KEY)
        await until(lambda: len(reads) > 0)
        await scene.service.stop()
        assert scene.seen

    scene.play(story)


def write_once(view: View, now: float, limits: Limits, drawn: float) -> PassPlan:
    is_new = view.pipeline.status.attempt != 1
    return PassPlan(pipeline=PipelineStatus(attempt=1) if is_new else None)


def test_a_write_is_read_back_before_the_stream_delivers_it() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)
    scene.api.is_stalled = True

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.views) == 1)
        asked = len(scene.api.calls)
        scene.now += 1.0
        await until(lambda: len(scene.views) == 2)
        assert scene.views[1].pipeline.status.attempt == 1
        await asyncio.sleep(0.02)
        reads = {call.verb for call in scene.api.calls[asked:]} - {"status", "watch"}
        assert reads == {"get"}  # reads of the defaults and the claim
        assert not any(call.resource is Resource.PIPELINE for call in scene.api.calls[asked + 1 :])
        assert len(scene.views) == 2

    scene.follow_up = write_once
    scene.play(story)


def test_a_write_missing_from_the_stream_is_read_from_the_server() -> None:
    scene = Scene()
    make_pipeline(scene.api.store)
    scene.api.is_stalled = True

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.views) == 1)
        scene.now += EXPECTATION_SECONDS + 1.0
        edited = {"spec": {"retry": {"maxRetries": 7}}}
        scene.api.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", edited)
        await until(lambda: len(scene.views) == 2)
        spec = scene.views[1].pipeline.spec
        assert spec is not None
        assert spec.retry.max_retries == 7

    scene.follow_up = write_once
    scene.play(story)


def test_drivers_of_running_attempts_are_polled_without_passes() -> None:
    scene = Scene()
    store = scene.api.store
    pipeline = make_pipeline(store)
    make_attempt(store, pipeline)
    make_pod(store, pipeline, "head", "head", ip="10.0.0.7")
    running = {"runningTime": "1970-01-01T00:10:00Z"}
    store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", running)
    url = "http://10.0.0.7:8780"
    scene.api.drivers |= {f"{url}/progress": None, f"{url}/outcome": None}

    async def story() -> None:
        await scene.service.start()
        await until(lambda: count_pulls() == 2)
        scene.now += 15.0
        await until(lambda: count_pulls() == 4)
        assert len(scene.seen) == 1
        scene.api.drivers[f"{url}/progress"] = {"sources": {"finished": 1}}
        scene.now += 15.0
        await until(lambda: len(scene.seen) == 2)
        driver = scene.views[-1].driver
        assert driver is not None
        assert driver.progress is not None
        assert count_pulls() == 6

    def count_pulls() -> int:
        return sum(call.verb == "pull" for call in scene.api.calls)

    scene.play(story)
