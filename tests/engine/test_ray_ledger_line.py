"""The driver's connection to the ledger process, and its limits if that process falls behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import PendingCallsLimitExceeded

from strandline.engine.call.wire import pack_events, unpack_events
from strandline.engine.core.ports import Listing
from strandline.engine.ray import ledger_actor as ray_ledger
from strandline.engine.ray.ledger_actor import (
    GATHER_SECONDS,
    PENDING_CALLS,
    LedgerActor,
    LedgerLostError,
    RayLedger,
)
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.packing import pack_listed
from strandline.plan.receipt import Event, Failure
from strandline.storage.outputs.ports import OutputLocation

LOCATION = LedgerLocation(
    Path("nowhere"),
    1,
    "uid",
    OutputLocation("out"),
    deletes_vanished=False,
    quarantine_after=3,
)
PATIENCE = 60.0
EVENT = Event(b"s" * 16, (), (b"t" * 16,))
FAILURE = Failure(b"s" * 16, "key", b"t" * 16, "decode", "no such codec")


class Actor:
    """An actor that answers calls when the test permits, with a limit on pending calls."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.answered = 0
        self.named: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        def remote(*words: Any, **named: Any) -> int:
            if 0 < self.most <= len(self.calls) - self.answered:
                raise PendingCallsLimitExceeded
            self.calls.append((name, words))
            self.named[name] = named
            return len(self.calls) - 1

        def options(*, concurrency_group: str) -> Any:
            self.groups[name] = concurrency_group
            return method

        method = SimpleNamespace(remote=remote, options=options)
        return method

    @property
    def looks(self) -> set[int]:
        return {at for at, (name, _) in enumerate(self.calls) if name == "count_steps"}

    def applied(self) -> list[Any]:
        return [words for name, words in self.calls if name == "apply"]


class FakeRay:
    """The functions of Ray that the connection uses. A reference is the number of its call."""

    def __init__(self) -> None:
        self.actor = Actor(0)

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "ab" * 28)

    def remote(self, **_: Any) -> Any:
        def options(*, max_pending_calls: int = 0, **_: Any) -> Any:
            self.actor = Actor(max_pending_calls)
            return SimpleNamespace(remote=lambda _: self.actor)

        return lambda _: SimpleNamespace(options=options)

    def wait(self, references: list[int], **_: Any) -> tuple[list[int], list[int]]:
        ready = [reference for reference in references if self._is_answered(reference)]
        return ready, [reference for reference in references if reference not in ready]

    def _is_answered(self, reference: int) -> bool:
        # `count_steps` does not wait for other calls. Reference 0 is the watch.
        is_aside = reference > 0 and self.actor.calls[reference][0] == "count_steps"
        return is_aside or 0 < reference < self.actor.answered

    def get(self, _reference: int) -> None:
        self.actor.answered = len(self.actor.calls)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Install a fake Ray whose actor has not answered any call."""
    fake = FakeRay()
    monkeypatch.setattr(ray_ledger, "ray", fake)
    return fake


def fall_behind(ledger: RayLedger, messages: int) -> None:
    for _ in range(messages):
        ledger.forward([EVENT], ())
        ledger.flush()


def test_law_a_ledger_far_behind_still_gets_requests(ray: FakeRay) -> None:
    ledger = RayLedger(LOCATION)
    fall_behind(ledger, PENDING_CALLS + 5)
    assert len(ray.actor.applied()) == PENDING_CALLS
    ledger.renew_lease(1.0)
    ledger.admit([])
    ledger.ask_finished()
    ray.actor.answered = len(ray.actor.calls)
    ledger.drain(3, anything_died=False)
    asked = [name for name, _ in ray.actor.calls if name != "count_steps"]
    assert asked[-2:] == ["end_listing", "drain"]


def test_during_a_wait_the_steps_of_the_ledger_count_for_the_driver(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, told = iter([5, 5, 5, 6, 6]), []

    def get(reference: int) -> int | None:
        if ray.actor.calls[reference][0] != "count_steps":
            return None
        seen = next(steps, None)
        if seen is None:
            ray.actor.answered = len(ray.actor.calls)
        return seen or 6

    monkeypatch.setattr(ray, "get", get)
    RayLedger(LOCATION, lambda: told.append(1)).drain(None, anything_died=False)
    assert 2 == len(told)


def test_a_ledger_stopped_with_ray_is_abandoned_after_two_looks(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray ends its processes seconds after the signal, and they do not answer meanwhile."""
    looks = iter([True, False, True, False, False])
    monkeypatch.setattr(ray, "_is_answered", lambda at: at in ray.actor.looks and next(looks))
    monkeypatch.setattr(ray, "get", lambda _: 0)
    ledger = RayLedger(LOCATION, is_stopping=lambda: True)
    with pytest.raises(LedgerLostError, match="no longer responds"):
        ledger.drain(None, anything_died=False)
    assert next(looks, None) is None


def test_a_slow_ledger_is_awaited_in_a_continuing_run(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter(range(9))
    monkeypatch.setattr(ray, "_is_answered", lambda _: next(asked, None) is None)
    RayLedger(LOCATION).drain(None, anything_died=False)


def test_law_looks_at_the_ledger_do_not_wait_for_messages(ray: FakeRay) -> None:
    """A message may take long, because it may commit a group and remove leftovers."""
    ledger = RayLedger(LOCATION)
    ledger.renew_lease(1.0)
    ledger.ask_finished()
    ledger._look_at_steps()
    assert ray.actor.groups == {
        "watch": "watch",
        "renew_lease": "life",
        "count_finished": "life",
        "count_steps": "life",
    }


def test_an_unsendable_heartbeat_is_not_an_error(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = RayLedger(LOCATION)
    ledger.renew_lease(1.0)
    assert "renew_lease" == ray.actor.calls[-1][0]
    ledger._actor = None
    ledger.renew_lease(1.0)
    ledger._actor = object()  # an actor without this method
    ledger.renew_lease(1.0)
    assert "renew_lease" == ray.actor.calls[-1][0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_ledger_learns_whether_the_listing_had_gaps(ray: FakeRay, is_whole: bool) -> None:
    listing = Listing(iter(()), lambda: is_whole, lambda: ("x",))
    listing.draw()
    RayLedger(LOCATION).conclude(listing, 0, anything_died=False)
    assert ray.actor.named["end_listing"] == {"is_whole": is_whole, "gaps": ("x",)}


def test_law_all_messages_are_sent_once_and_in_order(ray: FakeRay) -> None:
    ledger = RayLedger(LOCATION)
    fall_behind(ledger, PENDING_CALLS + 5)
    ray.actor.answered = PENDING_CALLS // 2
    ledger.flush()
    applied = ray.actor.applied()
    assert [words[0] for words in applied] == [*range(1, PENDING_CALLS + 2)]
    told = [unpack_events(part) for words in applied for part in words[1]]
    assert sum(map(len, told)) == PENDING_CALLS + 5


class Clock:
    """A clock that advances only when set."""

    def __init__(self) -> None:
        self.time = 5.0

    def __call__(self) -> float:
        return self.time


def test_events_are_collected_for_a_moment_and_sent_together(ray: FakeRay) -> None:
    clock = Clock()
    ledger = RayLedger(LOCATION, now=clock)
    assert ledger.limit_wait(0.5) == 0.5
    ledger.forward([EVENT], ())
    clock.time += GATHER_SECONDS / 2
    ledger.forward([EVENT, EVENT], ())
    ledger.flush_due()
    assert ray.actor.applied() == []
    assert ledger.limit_wait(0.5) == pytest.approx(GATHER_SECONDS / 2)
    assert ledger.limit_wait(0.001) == 0.001
    clock.time += GATHER_SECONDS
    assert ledger.limit_wait(0.5) == 0.0
    ledger.flush_due()
    ((number, parts, failures),) = ray.actor.applied()
    assert (1, [1, 2], []) == (number, [len(unpack_events(part)) for part in parts], failures)
    assert ledger.limit_wait(0.5) == 0.5


def test_failures_are_sent_at_once_before_later_events(
    ray: FakeRay,
) -> None:
    ledger = RayLedger(LOCATION, now=Clock())
    ledger.forward([EVENT], ())
    ledger.forward([], [FAILURE])
    assert ledger.limit_wait(0.5) == 0.0
    ledger.flush_due()
    ledger.forward([EVENT], ())
    ledger.flush_due()
    ((_, parts, failures),) = ray.actor.applied()
    assert (1, [list(FAILURE)]) == (len(parts), failures)


def test_waiting_for_a_slow_ledger_does_not_poll_constantly(ray: FakeRay) -> None:
    clock = Clock()
    ledger = RayLedger(LOCATION, now=clock)
    fall_behind(ledger, PENDING_CALLS + 1)
    clock.time += GATHER_SECONDS
    ledger.flush_due()
    assert ledger.limit_wait(0.5) == pytest.approx(GATHER_SECONDS)


def test_a_message_exceeds_its_limit_only_for_a_single_large_call(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_ledger, "MESSAGE_BYTES", 2 * len(pack_events([EVENT])))
    ledger = RayLedger(LOCATION)
    for count in (1, 1, 1, 9, 1):
        ledger.forward([EVENT] * count, ())
    ledger.flush()
    sizes = [[len(unpack_events(part)) for part in parts] for _, parts, _ in ray.actor.applied()]
    assert sizes == [[1, 1], [1], [9], [1]]


def test_messages_that_were_answered_are_forgotten(ray: FakeRay) -> None:
    ledger = RayLedger(LOCATION)
    for _ in range(3 * PENDING_CALLS):
        fall_behind(ledger, 1)
        ray.actor.answered = len(ray.actor.calls)
    assert len(ray.actor.applied()) == 3 * PENDING_CALLS
    assert len(ledger._pending) <= PENDING_CALLS


class Broken:
    """A writer on a full disk. It records the calls."""

    def __init__(self) -> None:
        self.may_fail = threading.Event()
        self.done: list[str] = []

    def apply(self, *_: Any) -> None:
        raise OSError(28, "No space left on device")

    def commit_due(self) -> None:
        self.may_fail.wait(PATIENCE)
        raise OSError(28, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.done.append(name)


class Queue:
    """A lock that counts the threads that wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.comers = threading.Semaphore(0)

    def __enter__(self) -> None:
        self.comers.release()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def make_actor(writer: Broken) -> Any:
    actor: Any = object.__new__(LedgerActor)
    actor._lock, actor._failed = Queue(), threading.Event()
    actor._error, actor._writer = None, writer
    return actor


ASKED: dict[str, Callable[[Any], Any]] = {
    "drain": lambda actor: actor.drain(1, anything_died=True),
    "end_listing": lambda actor: actor.end_listing(1, is_whole=True),
    "admit": lambda actor: actor.admit(pack_listed([])),
}


def test_errors_in_a_message_are_reported_by_the_watch() -> None:
    actor = make_actor(Broken())
    actor.apply(1, [], [])
    with pytest.raises(OSError, match="No space left"):
        actor.watch()


@pytest.mark.parametrize("name", ASKED)
def test_law_a_failed_ledger_does_no_more_work(name: str) -> None:
    actor = make_actor(writer := Broken())
    actor.apply(1, [], [])
    with pytest.raises(OSError, match="No space left"):
        ASKED[name](actor)
    assert writer.done == []


@pytest.mark.parametrize("name", ASKED)
def test_law_callers_that_wait_for_a_failing_ledger_are_refused(name: str) -> None:
    actor = make_actor(writer := Broken())
    with ThreadPoolExecutor(2) as threads:
        watch = threads.submit(actor.watch)
        assert actor._lock.comers.acquire(timeout=PATIENCE)
        asked = threads.submit(ASKED[name], actor)
        assert actor._lock.comers.acquire(timeout=PATIENCE)
        writer.may_fail.set()
        for future in (watch, asked):
            with pytest.raises(OSError, match="No space left"):
                future.result(PATIENCE)
    assert writer.done == []
