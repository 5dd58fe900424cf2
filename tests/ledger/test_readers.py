"""Readers of a ledger, even killed ones, do not make it grow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from ledger_builders import failed, finish_of, listed, output_of, root_of
from output_builders import write_output
from strandline.ledger.checks.verification import verify
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    Finish,
    ListedSource,
    Mark,
    QuarantinedSource,
    SourceRecord,
)
from strandline.ledger.store.reading import portions
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Piece, PieceLocation
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_source_folder

WRITES = 60
# A program that starts reading, reports that, and waits until it is killed.
READ = """
import sys, lmdb, time
with lmdb.open(sys.argv[1], readonly=True, max_dbs=16).begin() as reading:
    print("reading", flush=True)
    time.sleep(1000)
"""
SOURCES = [listed(f"source {number}") for number in range(30)]
SIZES = {"records": 8, "marks": 8, "failures": 7, "parked": 7, "pieces": 8}
LISTS: dict[str, Callable[[Store], Iterator[object]]] = {
    "records": Store.list_records,
    "marks": Store.list_marks,
    "failures": Store.list_failures,
    "parked": Store.list_quarantined,
    "pieces": lambda store: store.list_pieces(1, is_whole=True),
}


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION", 4)


def gathered(one: ListedSource) -> SourceRecord:
    piece = Piece("count", root_of(one), PieceLocation(1, 0, 3, b"d" * 16))
    return SourceRecord(one.key, (output_of(one),), (piece,))


def fill(store: Store) -> None:
    """Write sources in every state."""
    first, second, third, fourth = (SOURCES[place::4] for place in range(4))
    failure = failed(first[0]).message
    store.write(
        Change(
            finish=[Finish(one.source, one.version, gathered(one)) for one in first],
            mark=[(one.source, Mark(one.key, one.version, 1, 1, is_stale=False)) for one in second],
            fail=[
                (one.source, FailureRecord(one.key, 1, "decode", failure, 1, one.version))
                for one in third
            ],
            quarantine=[
                (
                    one.source,
                    QuarantinedSource(one.key, one.version, 1, "Killed", "decode", failure, 3),
                )
                for one in fourth
            ],
        )
    )


def rewrite(store: Store, times: int = WRITES) -> None:
    """Overwrite the same value repeatedly, as a run overwrites marks."""
    for number in range(times):
        store.write(Change(meta={"filler": [number] * 5000}))


def measure(store: Store) -> int:
    return (store._path / "data.mdb").stat().st_blocks * 512


@pytest.mark.parametrize("name", LISTS)
def test_law_iterating_a_ledger_holds_no_transaction(store: Store, name: str) -> None:
    fill(store)
    alone = [*LISTS[name](store)]
    rewrite(store)
    before = measure(store)
    walked = []
    for one in LISTS[name](store):
        walked.append(one)
        rewrite(store, 8)
    assert alone == walked
    assert SIZES[name] == len(walked)
    assert measure(store) <= before + (1 << 17)


def test_verification_of_every_output_holds_no_transaction(tmp_path: Path, store: Store) -> None:
    class Slow(LocalOutputs):
        """Outputs that write to the ledger while they are read."""

        def digest(self, name: str) -> bytes:
            rewrite(store, 8)
            return super().digest(name)

    outputs = Slow(tmp_path / "output")
    finish_with_files(store, outputs, SOURCES[:12])
    rewrite(store)
    before = measure(store)
    assert [] == verify(store, outputs).problems
    assert measure(store) <= before + (1 << 17)


def finish_with_files(store: Store, outputs: LocalOutputs, sources: list[ListedSource]) -> None:
    change = Change()
    for source in sources:
        output = output_of(source)
        name = f"{output.token.hex()}{output.suffix}"
        written = write_output(outputs, source.source, name, write_rows)
        change.finish.append(finish_of(source, output._replace(size=written[0], digest=written[1])))
    store.write(change)


def write_rows(file: BinaryIO) -> None:
    file.write(b"rows")


@pytest.mark.parametrize("what", ["finished", "left over"])
def test_writes_during_verification_are_no_problem(tmp_path: Path, store: Store, what: str) -> None:
    """Sources change between the check of the files and the check of the ledger."""

    class Meanwhile(LocalOutputs):
        is_done = False

        def digest(self, name: str) -> bytes:
            if not self.is_done:
                self.is_done = True
                if what == "finished":
                    finish_with_files(store, self, others)
                else:
                    store.write(Change(forget=[one.source for one in others]))
                    for one in others:
                        self.remove_others(one.source, ())
            return super().digest(name)

    outputs = Meanwhile(tmp_path / "output")
    first = min(SOURCES, key=lambda one: one.source)
    others = [source for source in SOURCES if source is not first]
    # `first` is the first source in the ledger, so the others change before verification reaches
    # them.
    finish_with_files(store, outputs, [first] if what == "finished" else SOURCES)
    assert [] == verify(store, outputs).problems


def test_real_problems_are_found_despite_concurrent_writes(tmp_path: Path, store: Store) -> None:
    class Busy(LocalOutputs):
        def digest(self, name: str) -> bytes:
            rewrite(store, 1)
            return super().digest(name)

    outputs = Busy(tmp_path / "output")
    finish_with_files(store, outputs, SOURCES[:6])
    paths = sorted((outputs.root / name_source_folder(SOURCES[0].source)).glob("*"))
    paths[0].unlink()
    other = next((outputs.root / name_source_folder(SOURCES[1].source)).glob("*"))
    other.write_bytes(b"ROWS")
    problems = verify(store, outputs).problems
    assert sorted(problem.partition(":")[0] for problem in problems) == [
        "changed since it was written",
        "missing, or recorded twice",
    ]


def kill_a_reader(path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", READ, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"reading\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def hold(store: Store) -> None:
    store.take_lease({"attempt": 1, "uid": "a", "time": 0.0, "ended": False})


def test_a_heartbeat_clears_killed_readers(store: Store) -> None:
    hold(store)
    rewrite(store)
    kill_a_reader(store._path)
    store.renew_lease(1.0)
    before = measure(store)
    rewrite(store)
    assert measure(store) <= before + (1 << 17)
