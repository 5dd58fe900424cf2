"""A ledger's map grows while other threads of the process read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from ledger_builders import finish_of, listed, opened
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError

SOURCES = [listed(f"key {number}") for number in range(6000)]
PORTION = 200


def make_readers(store: Store) -> list[Callable[[], object]]:
    digests = [source[0] for source in SOURCES[::7]]
    return [
        lambda: list(store.list_records()),
        lambda: store.read_meta("format"),
        lambda: store.find_records(digests),
        lambda: store.find_unfinished(SOURCES[::11]),
        lambda: store.renew_lease(1.0),
    ]


def test_law_threads_read_while_the_map_grows(tmp_path: Path) -> None:
    errors: list[StrandlineError] = []
    over = threading.Event()

    def repeat(read: Callable[[], object]) -> None:
        try:
            while not over.wait(0.002):  # lets the writer run
                read()
        except StrandlineError as error:
            errors.append(error)

    with opened(tmp_path / "ledger", map_size=1 << 17) as store:
        store.take_lease({"attempt": 1, "uid": "a", "time": 0.0, "ended": False})
        threads = [threading.Thread(target=repeat, args=[read]) for read in make_readers(store)]
        for thread in threads:
            thread.start()
        try:
            for start in range(0, len(SOURCES), PORTION):
                portion = SOURCES[start : start + PORTION]
                store.write(Change(finish=[finish_of(source) for source in portion]))
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert errors == []
        assert store.count()["finished"] == len(SOURCES)
    assert (tmp_path / "ledger/data.mdb").stat().st_size > 1 << 18  # the map has grown repeatedly
