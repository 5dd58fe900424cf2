"""A poller requests the progress of running drivers. Passes run only if the poller has news."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fake_api import Call, FakeApi, until
from operator_bodies import NAMESPACE, Body, make_attempt, make_pipeline, make_pod, make_rayjob
from strandline_api.notation.times import format_time
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import DriverView
from strandline_operator.reconcile.caches.own_kinds import read_attempt
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.drivers.poller import MOST_AT_ONCE, TICK, Poller

URL = "http://10.0.0.7:8780"
PROGRESS = {"sources": {"total": 10, "finished": 4}}
OUTCOME = DriverOutcome(exit_code=3, message="2 failed")
PATIENCE = 200.0


class Scene:
    """A pipeline with a running driver. The test starts each pass and each poll."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.now = 1000.0
        self.news: list[str] = []
        self.talk = DriverTalk(Limits(pull_interval=15.0, status_interval=30.0))
        self.pipeline: Body = make_pipeline(self.api.store)
        self.uid = str(self.pipeline["metadata"]["uid"])
        attempt = make_attempt(self.api.store, self.pipeline)
        make_rayjob(self.api.store, self.pipeline, attempt, {"jobStatus": "RUNNING"})
        make_pod(self.api.store, self.pipeline, "head", "head", ip="10.0.0.7")
        self.api.drivers |= {f"{URL}/progress": PROGRESS, f"{URL}/outcome": None}
        self.poller = Poller(
            self.talk, self.api, self.news.append, clock=lambda: self.now, sleep=self.sleep
        )
        self.write()

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def write(self, heard: float | None = None, **status: object) -> None:
        """Write an attempt's status, with progress of time `heard` unless None."""
        told = {"progress": {"finished": 4, "time": format_time(heard)}} if heard else {}
        status |= {"runningTime": format_time(900.0), **told}
        self.api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", status)

    async def hear(self) -> tuple[DriverView, float | None]:
        store = self.api.store
        attempt = read_attempt(store.list(Resource.ATTEMPT)[0])
        assert attempt is not None
        rayjob = RayJob.read(store.list(Resource.RAYJOB)[0])
        pods = tuple(map(Pod.read, store.list(Resource.POD)))
        return await self.talk.listen(self.api, self.uid, attempt, rayjob, pods, self.now, PATIENCE)

    def listen(self) -> tuple[DriverView, float | None]:
        """Read the driver as a pass does."""
        return asyncio.run(self.hear())

    def poll(self, seconds: float = 0.0) -> list[str]:
        """Advance the time, poll the due drivers, and return the pipelines with news."""
        self.now += seconds
        self.news.clear()
        asyncio.run(self.poller.ask_due())
        return self.news

    @property
    def pulls(self) -> int:
        return sum(call.verb == "pull" for call in self.api.calls)


def test_a_pass_polls_an_unknown_driver_itself() -> None:
    scene = Scene()
    view, ask_at = scene.listen()
    assert view.progress is not None
    assert (ask_at, scene.pulls) == (None, 2)


def test_a_starting_driver_is_polled_by_passes() -> None:
    scene = Scene()
    scene.api.store.put_status(Resource.ATTEMPT, NAMESPACE, "corpus-1", {})
    _, ask_at = scene.listen()
    assert ask_at == 1015.0
    assert scene.talk.list_due(2000.0) == []


def test_law_requests_of_poller_and_passes_are_an_interval_apart() -> None:
    scene = Scene()
    scene.listen()
    scene.poll(14.0)
    assert scene.pulls == 2
    scene.poll(1.0)
    assert scene.pulls == 4
    scene.now += 14.0
    scene.listen()
    assert scene.pulls == 4
    scene.now += 1.0
    scene.listen()
    assert scene.pulls == 6


def test_progress_is_news_only_if_a_status_would_be_written() -> None:
    scene = Scene()
    scene.listen()
    assert scene.poll(15.0) == [scene.uid]  # the status has no progress yet
    scene.write(heard=scene.now)
    scene.listen()
    assert scene.poll(15.0) == []
    assert scene.poll(15.0) == [scene.uid]
    view, _ = scene.listen()
    assert view.progress is not None
    assert view.progress.time == scene.now


def test_a_publication_is_news_at_once() -> None:
    scene = Scene()
    scene.write(heard=scene.now, latest="a")
    scene.listen()
    scene.api.drivers[f"{URL}/progress"] = {**PROGRESS, "latest": "a"}
    assert scene.poll(15.0) == []
    scene.api.drivers[f"{URL}/progress"] = {**PROGRESS, "latest": "b"}
    assert scene.poll(15.0) == [scene.uid]


def test_an_outcome_is_news_and_stored_for_the_pass() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()
    assert scene.poll(15.0) == [scene.uid]
    scene.api.drivers.clear()  # the driver ends after its outcome has been read
    view, _ = scene.listen()
    assert view.outcome == OUTCOME
    assert scene.poll(100.0) == []


def test_silence_is_news_after_a_minute_and_at_the_stall_deadline() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.api.drivers.clear()
    told = []
    for seconds in range(15, 271, 15):
        told += [seconds] if scene.poll(15.0) else []
        if seconds % 60 == 0:
            scene.listen()  # a pass without news
    # The times count from the first request.
    assert told == [75, 225, 240, 255, 270]


def test_the_end_of_a_silence_is_news() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.api.drivers.clear()
    for _ in range(5):
        scene.poll(15.0)
    scene.write(heard=scene.now)  # the next progress is then not news
    scene.listen()
    scene.api.drivers |= {f"{URL}/progress": PROGRESS, f"{URL}/outcome": None}
    assert scene.poll(15.0) == [scene.uid]
    assert scene.listen()[0].silence.questions == 0


def test_an_ending_driver_is_polled_by_passes_at_once() -> None:
    scene = Scene()
    scene.listen()
    scene.now += 1.0
    scene.poll()
    scene.api.store.put_status(Resource.RAYJOB, NAMESPACE, "corpus-1", {"jobStatus": "FAILED"})
    asked = scene.pulls
    _, ask_at = scene.listen()
    assert (scene.pulls, ask_at) == (asked + 2, scene.now + 2.0)
    assert scene.talk.list_due(scene.now + 100.0) == []


def test_drivers_of_deleted_pipelines_are_not_polled() -> None:
    scene = Scene()
    scene.listen()
    scene.talk.forget(scene.uid)
    asked = scene.pulls
    assert scene.poll(100.0) == []
    assert scene.pulls == asked
    assert asyncio.run(scene.talk.ask(scene.api, scene.uid, scene.now)) is False


def play_slowly(scene: Scene, story: Callable[[], Awaitable[None]], *, late: str) -> None:
    """Run a story while a poll is in flight, before or after the driver's response."""

    async def run() -> None:
        gate, held = asyncio.Event(), list[Call]()

        async def wait(call: Call) -> None:
            if call.name.endswith("outcome") and not held:
                held.append(call)
                await gate.wait()

        hooks = scene.api.before if late == "question" else scene.api.after
        hooks.append(wait)
        polling = asyncio.create_task(scene.poller.ask_due())
        await until(lambda: bool(held))
        await story()
        gate.set()
        await polling
        hooks.clear()

    asyncio.run(run())


def test_a_report_arriving_during_a_pass_is_not_lost() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.now += 15.0
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()

    async def look() -> None:
        scene.now += 1.0
        view, ask_at = await scene.hear()
        assert (view.outcome, ask_at) == (None, None)

    play_slowly(scene, look, late="answer")
    assert scene.news == [scene.uid]
    assert scene.listen()[0].outcome == OUTCOME


def test_a_report_read_by_a_concurrent_pass_is_not_lost() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.now += 15.0

    async def end() -> None:
        scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()
        scene.api.store.put_status(Resource.RAYJOB, NAMESPACE, "corpus-1", {"jobStatus": "FAILED"})
        view, _ = await scene.hear()
        assert view.outcome == OUTCOME
        scene.api.drivers.clear()  # the driver ends after its outcome has been read

    play_slowly(scene, end, late="question")
    assert scene.listen()[0].outcome == OUTCOME


def test_a_report_of_a_forgotten_attempt_is_dropped() -> None:
    scene = Scene()
    scene.write(heard=scene.now)
    scene.listen()
    scene.now += 15.0
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()

    async def forget() -> None:
        scene.talk.forget(scene.uid)

    play_slowly(scene, forget, late="answer")
    assert scene.talk._last == {}


def test_many_drivers_are_polled_at_once_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, running, most = Scene(), 0, 0
    due = [str(number) for number in range(100)]
    monkeypatch.setattr(DriverTalk, "list_due", lambda *_: due)

    async def ask(talk: DriverTalk, api: FakeApi, pipeline: str, now: float) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return int(pipeline) % 50 == 0

    monkeypatch.setattr(DriverTalk, "ask", ask)
    asyncio.run(scene.poller.ask_due())
    assert most == MOST_AT_ONCE
    assert scene.news == ["0", "50"]


def test_the_poller_runs_until_stopped() -> None:
    scene = Scene()
    scene.listen()

    async def run() -> None:
        task = asyncio.create_task(scene.poller.run())
        await until(lambda: scene.pulls >= 8)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    # The first pass makes one request, and the other requests follow at intervals.
    assert scene.now - 1000.0 >= 3 * 15.0 - TICK
