"""Ledgers of all formats are read and written in their own format, by the same laws."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from ledger_builders import counts, finish_of, listed, opened, output_of
from strandline.ledger.access.lease import restart
from strandline.ledger.errors import DuplicateKeyError, LedgerError
from strandline.ledger.records.entries import Change, Mark
from strandline.ledger.store.environment.layout import LAYOUTS, Databases
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from varied_ledger import (
    CHANGED,
    EFFORT,
    FAILED,
    FINISHED,
    FIRST,
    FORGOTTEN,
    GATHERED,
    IN_FLIGHT,
    LEASE,
    QUARANTINED,
    SECOND,
    UNTIDY,
    fill,
)

IMAGES = Path(__file__).resolve().parent.parent / "fixtures" / "ledgers"
COUNTS = counts(finished=len(FINISHED), failed=1, inflight=1, quarantined=1)


def set_large(monkeypatch: pytest.MonkeyPatch, sources: int) -> None:
    """Set the number of finished sources at which a ledger is converted."""
    monkeypatch.setattr("strandline.ledger.store.environment.layout.LARGE", sources)


def read_format(path: Path) -> int:
    return int(dict(read_rows(path, "meta")["meta"])[b"format"])


@pytest.fixture(params=["format 1", "format 2", "new", "grown"])
def filled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the same ledger, written by earlier versions, by this version, or converted."""
    path = tmp_path / "ledger"
    if request.param.startswith("format"):
        path.mkdir()
        image = IMAGES / f"{request.param.replace(' ', '-')}.mdb.gz"
        (path / "data.mdb").write_bytes(gzip.decompress(image.read_bytes()))
        assert int(request.param[-1]) == read_format(path)
    else:
        set_large(monkeypatch, 50 if request.param == "grown" else 1000)
        fill(path)
        monkeypatch.undo()
        assert (2 if request.param == "grown" else 1) == read_format(path)
    return path


def read_all(store: Store) -> dict[str, Any]:
    """Return the results of all queries of a ledger. Their order does not matter."""
    digests = [source.source for source in (*FIRST, *SECOND)]
    return {
        "count": store.count(),
        "records": {source: (entry, record) for source, entry, record in store.list_records()},
        "found": store.find_finished(digests),
        "found records": store.find_records(digests),
        "marks": dict(store.list_marks()),
        "failures": dict(store.list_failures()),
        "quarantined": dict(store.list_quarantined()),
        "untidy": set(store.list_untidy()),
        "pieces": list(store.list_pieces(9, is_whole=True)),
        "new pieces": list(store.list_pieces(9, is_whole=False)),
    }


def test_there_is_an_image_of_each_format() -> None:
    images = {f"format-{number}.mdb.gz" for number in LAYOUTS}
    assert images == {path.name for path in IMAGES.iterdir()}


@pytest.mark.parametrize("readonly", [True, False])
def test_every_format_is_read_alike(filled: Path, readonly: bool) -> None:
    with opened(filled, readonly=readonly) as store:
        found = read_all(store)
        lease, total = store.read_meta("lease"), store.read_meta("listed")
    assert (LEASE, 150, COUNTS) == (lease, total, found["count"])
    records = found["records"]
    assert FINISHED.keys() == records.keys() == found["found"].keys()
    for digest, source in FINISHED.items():
        entry, record = records[digest]
        attempt = 2 if source in SECOND or source in CHANGED else 1
        assert (source.version, attempt, source.key) == (*entry, record.key)
        assert entry == found["found"][digest]
        assert record == found["found records"][digest]
        if source not in {GATHERED, EFFORT}:
            assert (output_of(source),) == record.outputs
    ((source, (piece,)),) = found["pieces"]
    assert (GATHERED.source, "count") == (source, piece.stage)
    assert found["pieces"] == found["new pieces"]
    assert "decode" == records[EFFORT.source][1].efforts[0].stage
    assert {IN_FLIGHT.source} == found["marks"].keys()
    assert {FAILED.source} == found["failures"].keys()
    assert {QUARANTINED.source} == found["quarantined"].keys()
    assert {UNTIDY.source} == found["untidy"]


def test_an_attempt_resumes_from_any_format(filled: Path, tmp_path: Path) -> None:
    """Finished sources are skipped, others are processed, and the next attempt sees the result."""
    everything = [FINISHED.get(source.source, source) for source in (*FIRST, *SECOND)]
    todo = [source for source in everything if source.source not in FINISHED]
    with opened(filled) as store:
        made = store.read_meta("format")
        writer = begin(store, tmp_path, 3)
        skipped = [verdict == 0 for verdict in writer.admit(everything)]
        assert skipped == [source.source in FINISHED for source in everything]
        again = listed(SECOND[0].key, version="3")
        assert 1 == writer.admit([again])[0]
        done = [source for source in (*todo, again) if source is not QUARANTINED]
        store.write(Change(finish=[finish_of(source, output_of(source)) for source in done]))
        found = {digest: entry for digest, entry, _ in store.list_records()}
        assert {source.source for source in done} == {
            digest for digest, entry in found.items() if entry.attempt == 3
        }
        assert store.count()["finished"] == len(found) == len(FINISHED) + len(todo) - 1
        assert again.version == found[again.source].version
        with pytest.raises(DuplicateKeyError, match="once before, when it was finished"):
            begin(store, tmp_path, 3).admit([again])
    with opened(filled) as store:
        assert made == store.read_meta("format")
        assert [0] * len(done) == begin(store, tmp_path, 4).admit(done)


def begin(store: Store, folder: Path, attempt: int) -> LedgerWriter:
    store.take_lease({"attempt": attempt, "uid": "later"})
    return LedgerWriter(store, LocalOutputs(folder / "output"), attempt, lambda: 0.0)


def test_a_restart_leaves_nothing_finished_in_any_format(filled: Path) -> None:
    with opened(filled) as store:
        restart(store)
        assert [] == list(store.list_records())
        assert counts(inflight=len(FINISHED) + 3) == store.count()
        store.write(Change(finish=[finish_of(FORGOTTEN)]))
        assert [FORGOTTEN.source] == [source for source, _, _ in store.list_records()]


def test_a_source_finished_and_forgotten_in_one_change_is_forgotten(filled: Path) -> None:
    with opened(filled) as store:
        before, finish = store.count(), finish_of(FORGOTTEN)
        store.write(Change(finish=[finish], forget=[FORGOTTEN.source]))
        assert before == store.count()
        mark = Mark(FORGOTTEN.key, FORGOTTEN.version, 2, 0, False)
        store.write(Change(finish=[finish], mark=[(FORGOTTEN.source, mark)]))
        assert before | {"inflight": 2} == store.count()
        assert not store.find_finished([FORGOTTEN.source])


def test_the_last_of_two_ends_in_one_change_stays(filled: Path) -> None:
    newer = listed(FORGOTTEN.key, version="2")
    with opened(filled) as store:
        store.write(Change(finish=[finish_of(FORGOTTEN), finish_of(newer, output_of(newer))]))
        assert (output_of(newer),) == store.find_records([newer.source])[newer.source].outputs
        assert newer.version == store.find_finished([newer.source])[newer.source].version
        assert len(FINISHED) + 1 == store.count()["finished"]


def test_gathered_pieces_of_a_redone_source_are_dropped(filled: Path) -> None:
    with opened(filled) as store:
        mark = Mark(GATHERED.key, GATHERED.version, 2, 0, True)
        store.write(Change(mark=[(GATHERED.source, mark)]))
        assert 1 == store.read_meta("drops")
        assert [] == list(store.list_pieces(9, is_whole=True))
        assert [] == list(store.list_pieces(9, is_whole=False))


def read_rows(path: Path, *names: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return the content of some databases. No store may have them open."""
    with lmdb.open(str(path), max_dbs=len(Databases._fields), readonly=True) as environment:
        handles = {name: environment.open_db(name.encode(), create=False) for name in names}
        with environment.begin() as txn:
            return {name: list(txn.cursor(handle)) for name, handle in handles.items()}


STEPS = st.lists(
    st.tuples(st.sampled_from(["finish", "mark", "forget", "attempt"]), st.integers(0, 8)),
    max_size=40,
)


def take_steps(store: Store, steps: list[tuple[str, int]]) -> Iterator[dict[bytes, int]]:
    """Apply the steps. After each, yield the expected finished sources with their attempts."""
    model: dict[bytes, int] = {}
    attempt = 1
    store.take_lease({"attempt": attempt, "uid": "a"})
    changes: dict[str, Callable[[int], Change]] = {
        "finish": lambda number: Change(finish=[finish_of(listed(str(number)))]),
        "mark": lambda number: Change(
            mark=[(listed(str(number)).source, Mark(str(number), b"v" * 8, attempt, 0, False))]
        ),
        "forget": lambda number: Change(forget=[listed(str(number)).source]),
    }
    for kind, number in steps:
        source = listed(str(number)).source
        if kind == "attempt":
            attempt += 1
            store.take_lease({"attempt": attempt, "uid": "a"})
            continue
        store.write(changes[kind](number))
        model.pop(source, None)
        if kind == "finish":
            model[source] = attempt
        yield model


@settings(max_examples=scale_examples(30), deadline=None)
@given(large=st.sampled_from([1, 2, 4, 99]), steps=STEPS)
def test_law_each_finished_source_has_one_record_and_its_attempt(
    tmp_path_factory: pytest.TempPathFactory, large: int, steps: list[tuple[str, int]]
) -> None:
    """The law holds before and after a conversion of the ledger, at any time."""
    path = tmp_path_factory.mktemp("ledger")
    most = 0
    with pytest.MonkeyPatch.context() as patch, opened(path) as store:
        set_large(patch, large)
        for model in take_steps(store, steps):
            found = {source: entry.attempt for source, entry, _ in store.list_records()}
            assert model == found
            assert model == {
                source: entry.attempt for source, entry in store.find_finished([*model]).items()
            }
            assert len(model) == store.count()["finished"]  # there are no unreferenced records
            most = max(most, len(model))
    if most < large:
        assert 1 == read_format(path)
    elif most > large:
        assert 2 == read_format(path)


def test_an_old_large_ledger_is_not_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
        store.write(Change(finish=[finish_of(source) for source in FIRST]))
        set_large(monkeypatch, 50)
        store.write(Change(finish=[finish_of(SECOND[0])]))
        assert 1 == store.read_meta("format")
        set_large(monkeypatch, 51)
        store.write(Change(finish=[finish_of(SECOND[1])]))
        assert 2 == store.read_meta("format")


def test_only_an_attempt_that_finishes_sources_converts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance commands never convert, because an older version could use the ledger as well."""
    set_large(monkeypatch, 1)
    with opened(tmp_path) as store:
        store.write(Change(finish=[finish_of(FIRST[0])]))
        store.write(Change(finish=[finish_of(FIRST[0])]))
        store.take_lease(LEASE)
        store.renew_lease(1.0)
        store.write(Change(meta={"listed": 1}, forget=[FIRST[1].source]))
        assert 1 == store.read_meta("format")
        store.write(Change(finish=[finish_of(FIRST[1])]))
        assert 2 == store.read_meta("format")


def dump(store: Store) -> list[list[tuple[bytes, bytes]]]:
    with store._env.begin() as txn:
        return [list(txn.cursor(db)) for db in store._dbs]


def test_a_ledger_is_converted_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
        store.write(Change(finish=[finish_of(source, output_of(source)) for source in FIRST]))
        before = read_all(store), dump(store)
        set_large(monkeypatch, 100)
        monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
        monkeypatch.setattr("strandline.storage.faults._reached", {"commit.written": 0})
        with pytest.raises(VolumeError, match="No space left"):
            store.write(Change(finish=[finish_of(SECOND[0])]))
        assert before == (read_all(store), dump(store))
        monkeypatch.delenv("STRANDLINE_FAULT")
        store.write(Change(finish=[finish_of(SECOND[0])]))
        assert 2 == store.read_meta("format")
        assert before[0]["records"].items() < read_all(store)["records"].items()


# Another process of the same attempt that finishes a source, which converts the ledger.
CONVERT = """
import sys
from pathlib import Path
from strandline.ledger.records.entries import Change, Finish, SourceRecord
from strandline.ledger.store.environment import layout
from strandline.ledger.store.store import Store
layout.LARGE = 100
store = Store(Path(sys.argv[1]))
store.hold_lease(2, "two")
store.write(Change(finish=[Finish(b"s" * 16, b"v" * 8, SourceRecord("key", ()))]))
"""


def test_a_kill_before_the_end_of_the_transaction_leaves_the_old_format(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
        store.write(Change(finish=[finish_of(source, output_of(source)) for source in FIRST]))
        before = read_all(store)
    words = [sys.executable, "-c", CONVERT, str(tmp_path)]
    kill = os.environ | {"STRANDLINE_FAULT": "commit.written:kill"}
    assert -signal.SIGKILL == subprocess.run(words, env=kill, check=False).returncode
    with opened(tmp_path) as store:
        assert (1, before) == (store.read_meta("format"), read_all(store))
    subprocess.run(words, check=True)
    with opened(tmp_path) as store:
        assert (2, len(FIRST) + 1) == (store.read_meta("format"), store.count()["finished"])
        assert before["records"].items() < read_all(store)["records"].items()


def test_a_source_that_lacks_its_record_is_named_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_large(monkeypatch, 50)
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
        store.write(Change(finish=[finish_of(source) for source in FIRST[:60]]))
        with store._env.begin(write=True) as txn:
            txn.delete(FIRST[3].source, db=store._dbs.records)
        for number in (1, 2):
            assert number == store.read_meta("format")
            with pytest.raises(LedgerError, match=f"{FIRST[3].source.hex()} is finished without"):
                list(store.list_records())
            store.write(Change(finish=[finish_of(SECOND[0])]))


def test_a_reader_follows_a_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing is read in portions, and the ledger may be converted between two portions."""
    monkeypatch.setattr("strandline.ledger.store.reading.portions.PORTION", 7)
    set_large(monkeypatch, len(FIRST))
    with opened(tmp_path) as store:
        store.take_lease(LEASE)
        store.write(Change(finish=[finish_of(source) for source in FIRST]))
        expected = {source: record for source, _, record in store.list_records()}
        listing = store.list_records()
        found = dict([next(listing)[::2]])
        store.write(Change(finish=[finish_of(FIRST[0])]))
        assert 2 == store.read_meta("format")
        found |= {source: record for source, _, record in listing}
        assert expected == found


@pytest.mark.parametrize("readonly", [True, False])
def test_a_ledger_of_another_format_is_refused(tmp_path: Path, readonly: bool) -> None:
    with opened(tmp_path) as store:
        store.write(Change(meta={"format": 3}))
        words = "the ledger has format 3, this version reads formats 1 and 2; use the version of"
        with pytest.raises(LedgerError, match=words):
            store.find_finished([FIRST[0].source])
    with pytest.raises(LedgerError, match=words):
        Store(tmp_path, readonly=readonly)


def test_attempt_numbers_are_never_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a source could be attributed to a previous attempt with the same number."""
    set_large(monkeypatch, 1)
    source, other = listed("a"), listed("b")
    with opened(tmp_path) as store:
        for attempt in (1, 2, 3):
            store.take_lease({"attempt": attempt, "uid": "a"})
            store.write(Change(finish=[finish_of(other)]))
            store.write(Change(finish=[finish_of(source)]))
            store.write(Change(forget=[source.source, other.source]))
    rows = read_rows(tmp_path, "finished", "records", "starts")
    assert [] == rows["records"] == rows["finished"]
    assert [(0, 1), (2, 2), (4, 3)] == [
        (int.from_bytes(first, "big"), int.from_bytes(attempt, "big"))
        for first, attempt in rows["starts"]
    ]


def test_records_of_a_large_ledger_fill_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_large(monkeypatch, 500)
    with opened(tmp_path, map_size=1 << 16) as store:  # so small that the conversion fills it, too
        store.take_lease(LEASE)
        for start in range(0, 5000, 500):
            sources = [listed(f"key-{number}") for number in range(start, start + 500)]
            store.write(Change(finish=[finish_of(source, output_of(source)) for source in sources]))
        with store._env.begin() as txn:
            stat = txn.stat(store._dbs.records)
            size = sum(len(key) + len(value) + 10 for key, value in txn.cursor(store._dbs.records))
    assert size > 0.95 * stat["leaf_pages"] * stat["psize"]
