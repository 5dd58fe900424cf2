"""A session opens a ledger once per process, under a lease that it renews."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strandline
from strandline.ledger.access.session import (
    LedgerSession,
    opened_new,
    opened_to_read,
    require_ledger,
)
from strandline.ledger.errors import LeaseLostError, LedgerError
from strandline.ledger.records.entries import Change

# Modules that may open a store: the store itself, and look-up processes of an open ledger.
_STORE = {"ledger/store/store.py", "ledger/store/look_ups.py"}
PRODUCT = Path(strandline.__file__).parent


class Renewal:
    """A heartbeat that renews the lease on request."""

    def __init__(self) -> None:
        self.renewals: list[Callable[[float], None]] = []

    @contextmanager
    def renewing(self, renew: Callable[[float], None]) -> Iterator[None]:
        self.renewals.append(renew)
        try:
            yield
        finally:
            self.renewals.remove(renew)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "ledger"
    take(folder, 1)
    return folder


def take(path: Path, attempt: int) -> None:
    path.mkdir(exist_ok=True)
    with opened_new(path) as store:
        store.take_lease({"attempt": attempt, "uid": f"u{attempt}", "time": 0.0})


def test_an_open_ledger_is_not_opened_again(path: Path) -> None:
    session = LedgerSession(path, 1, "u1")
    with session.open() as outer:
        with session.open() as inner:
            assert inner is outer
        outer.write(Change(meta={"is": "open"}))
        assert session.is_open
    assert not session.is_open


@given(leaving=st.permutations(range(4)))
def test_law_the_last_user_closes_the_ledger(
    leaving: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("session") / "ledger"
    take(folder, 1)
    session, renewal = LedgerSession(folder, 1, "u1"), Renewal()
    session = LedgerSession(folder, 1, "u1", renewal)
    holders = [session.open() for _ in leaving]
    stores = {id(holder.__enter__()) for holder in holders}
    for left, number in enumerate(leaving, 1):
        assert len(renewal.renewals) == 1
        holders[number].__exit__(None, None, None)
        assert session.is_open == (left < len(holders))
    assert (1, []) == (len(stores), renewal.renewals)


def test_threads_share_an_open_ledger(path: Path) -> None:
    session = LedgerSession(path, 1, "u1")
    seen: list[object] = []

    def read() -> None:
        with session.open() as store:
            seen.append(store)

    with session.open() as store:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [store] * 4 == seen


def test_the_lease_is_renewed_as_long_as_the_ledger_is_open(path: Path) -> None:
    renewal = Renewal()
    session = LedgerSession(path, 1, "u1", renewal)
    with session.open() as store:
        renewal.renewals[-1](5.0)
        assert store.read_meta("lease")["time"] == 5.0
        session.renew(6.0)
        assert store.read_meta("lease")["time"] == 6.0
    assert renewal.renewals == []


def test_no_writes_happen_under_a_lost_lease(path: Path) -> None:
    session = LedgerSession(path, 1, "u1")
    take(path, 2)
    with session.open() as store, pytest.raises(LeaseLostError):
        store.write(Change(meta={"by": "the first"}))
    with LedgerSession(path, 2, "u2").open() as store:
        assert store.read_meta("by") is None


def test_a_failed_opening_leaves_the_session_unchanged(path: Path) -> None:
    path.joinpath("data.mdb").write_bytes(b"no ledger")
    session = LedgerSession(path, 1, "u1")
    for _ in range(2):
        with pytest.raises(LedgerError), session.open():
            pass
        assert not session.is_open


def test_reading_creates_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger here"):
        require_ledger(tmp_path)
    with pytest.raises(LedgerError), opened_to_read(tmp_path):
        pass
    assert [] == list(tmp_path.iterdir())


def find_openings(source: str) -> Iterator[str]:
    """Yield a module's calls that open a ledger or hold a lease directly."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name == "Store" or name.endswith(".hold_lease"):
                yield name


def test_nothing_else_opens_a_ledger() -> None:
    doors = {"ledger/access/session.py", *_STORE}
    others = {
        path.relative_to(PRODUCT).as_posix(): found
        for path in PRODUCT.rglob("*.py")
        if (found := list(find_openings(path.read_text())))
    }
    assert others.keys() <= doors, others
    assert {"Store", "held.hold_lease"} == {*find_openings("held.hold_lease(Store(p))")}
