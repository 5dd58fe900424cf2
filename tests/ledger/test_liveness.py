"""A driver's liveness is seen from processes on this host, and from a heartbeat elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ledger_builders import claim, claimant
from strandline.ledger.access.lease import (
    ORPHAN_SECONDS,
    Claimant,
    end_attempt,
    is_long_silent,
    is_orphan,
    open_attempt,
    refuse_live_driver,
)
from strandline.ledger.errors import LedgerError
from strandline.ledger.records.entries import LAPSE_SECONDS
from strandline.ledger.store.store import Store
from strandline.storage.volume.locks import Process

PARENT = Process(50, 500)
Find = Callable[[int], Process | None]


def find_nobody(_: int) -> None:
    return None


def find_anybody(pid: int) -> Process:
    return Process(pid, pid * 10)


def find_successor(pid: int) -> Process:
    """Return a process that reuses the pid."""
    return Process(pid, pid * 10 + 1)


def never(_: float) -> None:
    raise AssertionError("nothing is to be waited for")


class Nap:
    """A sleep function that counts seconds, and runs an action at a given second."""

    def __init__(self, second: int = 0, what: Callable[[], object] = lambda: None) -> None:
        self.seconds = 0.0
        self._second, self._what = second, what

    def __call__(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds == self._second:
            self._what()


def supervised(uid: str = "a", pid: int = 100) -> Claimant:
    return claimant(uid, pid=pid)._replace(parent=PARENT)


def test_a_new_ledger_has_no_holder(store: Store) -> None:
    assert refuse_live_driver(store, claimant(), find_anybody, never) is None


@pytest.mark.parametrize("find", [find_nobody, find_successor])
def test_a_driver_without_its_process_is_dead(store: Store, find: Find) -> None:
    open_attempt(store, claim(), claimant("a", pid=100))
    found = refuse_live_driver(store, claimant("b", pid=200, time=1e9), find, never)
    assert store.read_meta("lease") == found


def test_a_driver_on_this_host_is_identified_by_pid_and_start(store: Store) -> None:
    open_attempt(store, claim(), claimant("a", pid=100))
    told = "attempt 1 is still running as process 100; stop it first"
    with pytest.raises(LedgerError, match=told):
        refuse_live_driver(store, claimant("b", pid=200, time=1e9), find_anybody, never)


def test_a_process_does_not_block_itself(store: Store) -> None:
    open_attempt(store, claim(), claimant("a", pid=100))
    refuse_live_driver(store, claimant("b", pid=100), find_anybody, never)


def test_a_driver_with_a_live_parent_is_not_awaited(store: Store) -> None:
    open_attempt(store, claim(), supervised())
    with pytest.raises(LedgerError, match="still running as process 100"):
        refuse_live_driver(store, claimant("b", pid=200), find_anybody, never)


def find_each(*answers: Process | None) -> Find:
    """Return a function that finds no parent, and returns these answers for the driver in turn."""
    rest: Iterator[Process | None] = iter(answers[:-1])
    return lambda pid: None if pid == PARENT.pid else next(rest, answers[-1])


def test_an_orphan_is_awaited_because_it_ends_by_itself(store: Store) -> None:
    open_attempt(store, claim(), supervised())
    alive, nap = find_anybody(100), Nap()
    find = find_each(alive, alive, alive, None)
    refuse_live_driver(store, claimant("b", pid=200), find, nap)
    assert 3.0 == nap.seconds


def test_an_orphan_that_does_not_end_is_refused(store: Store) -> None:
    open_attempt(store, claim(), supervised())
    nap = Nap()
    with pytest.raises(LedgerError, match="still running as process 100"):
        refuse_live_driver(store, claimant("b", pid=200), find_each(find_anybody(100)), nap)
    assert ORPHAN_SECONDS == nap.seconds


def test_the_parents_pid_may_be_reused(store: Store) -> None:
    open_attempt(store, claim(), supervised())
    lease = store.read_meta("lease")
    assert not is_orphan(lease, find_anybody)
    assert is_orphan(lease, find_successor)
    open_attempt(store, claim(), claimant("b"))
    assert not is_orphan(store.read_meta("lease"), find_nobody)


@pytest.mark.parametrize("skew", [-1e6, -5.0, 0.0, 5.0, 10 * LAPSE_SECONDS])
def test_a_driver_on_another_host_lives_if_its_heartbeat_changes(store: Store, skew: float) -> None:
    """The clocks of hosts differ, so the heartbeat's time is not compared with the own clock."""
    open_attempt(store, claim(), claimant("a", "boot-1", time=5000.0))
    later = Claimant("b", "boot-2", Process(200, 1), 5000.0 + skew)
    nap = Nap(17, lambda: store.renew_lease(5015.0))
    with pytest.raises(LedgerError, match="attempt 1 is still running on another host; stop it"):
        refuse_live_driver(store, later, find_nobody, nap)
    assert 17 == nap.seconds


def test_a_stopped_heartbeat_means_a_dead_driver(store: Store) -> None:
    open_attempt(store, claim(), claimant("a", "boot-1", time=5000.0))
    later, nap = Claimant("b", "boot-2", Process(200, 1), 5001.0), Nap()
    lease = refuse_live_driver(store, later, find_anybody, nap)
    assert LAPSE_SECONDS == nap.seconds
    assert refuse_live_driver(store, later, find_anybody, never, known_dead=lease) == lease
    store.renew_lease(5002.0)
    with pytest.raises(LedgerError):  # the driver that seemed dead sends heartbeats again
        refuse_live_driver(
            store, later, find_anybody, Nap(3, lambda: store.renew_lease(5003.0)), lease
        )


def test_a_very_old_heartbeat_is_not_watched(store: Store) -> None:
    open_attempt(store, claim(), claimant("a", "boot-1", time=5000.0))
    time = 5000.5 + 10 * LAPSE_SECONDS
    later = Claimant("b", "boot-2", Process(200, 1), time)
    lease = refuse_live_driver(store, later, find_anybody, never)
    assert lease is not None
    assert is_long_silent(lease, time)
    assert not is_long_silent(lease, time - 1.0)


def test_a_driver_that_releases_its_lease_while_watched_has_ended(store: Store) -> None:
    first = claimant("a", "boot-1", time=5000.0)
    open_attempt(store, claim(), first)
    nap = Nap(5, lambda: end_attempt(store, 1, first))
    later = Claimant("b", "boot-2", Process(200, 1), 5001.0)
    found = refuse_live_driver(store, later, find_nobody, nap)
    assert 5 == nap.seconds
    assert found is not None
    assert found["ended"] is True


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_an_attempt_that_released_the_lease_is_not_examined(store: Store, boot: str) -> None:
    open_attempt(store, claim(), claimant("a"))
    end_attempt(store, 1, claimant("a"))
    refuse_live_driver(store, claimant("b", boot, pid=200), find_anybody, never)
    assert 2 == open_attempt(store, claim(), claimant("b", boot, pid=200))
    with pytest.raises(LedgerError, match="attempt 2"):
        refuse_live_driver(store, claimant("c", boot, pid=300), find_anybody, never)
