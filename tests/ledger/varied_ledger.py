"""Writes a ledger with all kinds of entries, the same on every call and in every format.

`tests/fixtures/ledgers` has the ledgers that several versions wrote, each in its own format:

    git checkout VERSION -- ../../pipelines/strandline     # in tests/ledger
    python varied_ledger.py ../fixtures/ledgers/format-1.mdb.gz
    git checkout HEAD -- ../../pipelines/strandline
    python varied_ledger.py ../fixtures/ledgers/format-2.mdb.gz 50
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import lmdb

from ledger_builders import finish_of, listed, opened, output_of
from strandline.ledger.records.entries import (
    Change,
    FailureRecord,
    Finish,
    ListedSource,
    Mark,
    QuarantinedSource,
    SourceRecord,
)
from strandline.plan.receipt import Effort, Piece, PieceLocation

LEASE = {"attempt": 2, "uid": "two", "time": 0.0, "ended": True}
FIRST = [listed(f"first-{number:03d}", ordinal=number) for number in range(100)]
SECOND = [listed(f"second-{number:03d}", ordinal=number) for number in range(100, 150)]
CHANGED = [listed(source.key, version="2") for source in FIRST[:10]]  # replaced by attempt 2
GATHERED, EFFORT = FIRST[20], FIRST[21]
FAILED, IN_FLIGHT, QUARANTINED, FORGOTTEN, UNTIDY = FIRST[90:95]
FINISHED = {
    source.source: source for source in (*FIRST[:90], UNTIDY, *SECOND, *CHANGED)
}  # by source; a changed source has its later version


def fill(path: Path) -> None:
    """Write a ledger with the results of two attempts."""
    with opened(path) as store:
        store.take_lease(LEASE | {"attempt": 1, "uid": "one"})
        store.write(Change(mark=[_mark(source, 1) for source in FIRST]))
        store.write(Change(finish=[_finish(source) for source in (*FIRST[:90], *FIRST[93:])]))
        store.take_lease(LEASE)
        store.write(Change(mark=[_mark(source, 2) for source in (*CHANGED, *SECOND)]))
        store.write(
            Change(
                finish=[_finish(source) for source in (*SECOND, *CHANGED)],
                fail=[(FAILED.source, FailureRecord(FAILED.key, 2, "decode", "no such codec", 1))],
                quarantine=[(QUARANTINED.source, _quarantined(QUARANTINED))],
                forget=[FORGOTTEN.source, *(source.source for source in FIRST[95:])],
                untidy=[UNTIDY.source],
                meta={"listed": 150},
            )
        )


def _mark(source: ListedSource, attempt: int) -> tuple[bytes, Mark]:
    return source.source, Mark(source.key, source.version, attempt, source.ordinal, False)


def _quarantined(source: ListedSource) -> QuarantinedSource:
    return QuarantinedSource(
        source.key, source.version, 2, "ApplicationError", "decode", "broken", 3
    )


def _finish(source: ListedSource) -> Finish:
    if source is GATHERED:
        piece = Piece("count", b"t" * 16, PieceLocation(1, 0, 3, b"d" * 16))
        return Finish(source.source, source.version, SourceRecord(source.key, (), (piece,)))
    if source is EFFORT:
        effort = Effort("decode", 2, 1, 0.5, 9)
        return Finish(source.source, source.version, SourceRecord(source.key, (), (), (effort,)))
    return finish_of(source, output_of(source))


def write_image(target: Path) -> None:
    """Fill a ledger, and store its data file, compressed and without free pages."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "ledger")
        with lmdb.open(str(Path(folder) / "ledger"), max_dbs=16, readonly=True) as environment:
            copied = Path(folder) / "copy"
            copied.mkdir()
            environment.copy(str(copied), compact=True)
        target.write_bytes(gzip.compress((copied / "data.mdb").read_bytes(), mtime=0))


if __name__ == "__main__":
    if sys.argv[2:]:  # number of finished sources at which a ledger is large
        layout = import_module("strandline.ledger.store.environment.layout")  # new since format 2
        vars(layout)["LARGE"] = int(sys.argv[2])
    write_image(Path(sys.argv[1]))
