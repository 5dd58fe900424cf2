"""A ledger's files grow as needed, and damage is reported before reading."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import lmdb
import pytest

from ledger_builders import counts, finish_of, listed, opened
from strandline.ledger.errors import LeaseLostError, LedgerError, LedgerInUseError
from strandline.ledger.records.entries import Change
from strandline.ledger.store.environment.inspection import (
    META_BYTES,
    Read,
    check_image,
    explain_damage,
)
from strandline.ledger.store.environment.layout import Databases
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError

TINY = 1 << 16
PAGE = 4096
LAST_PAGES = (META_BYTES - 16, PAGE + META_BYTES - 16)  # offsets in the first two pages
MANY = [finish_of(listed(f"a key that takes some room, number {number}")) for number in range(3000)]
# Another process that takes the ledger over and grows its map beyond the first process's map.
TAKE_OVER = """
import sys
from pathlib import Path
from strandline.ledger.records.entries import (Change, Finish, SourceRecord)
from strandline.ledger.store.store import Store
store = Store(Path(sys.argv[1]), map_size=1 << 16)
if sys.argv[2] == "lease":
    store.take_lease({"attempt": 2, "uid": "other"})
record = SourceRecord("k" * 99, ())
finish = [Finish(i.to_bytes(16, "little"), b"v" * 8, record) for i in range(3000)]
store.write(Change(finish=finish))
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Return the data file of a ledger of 3,000 sources."""
    with opened(tmp_path) as store:
        store.write(Change(finish=MANY))
    return tmp_path / "data.mdb"


def grow_elsewhere(path: Path, what: str) -> None:
    subprocess.run([sys.executable, "-c", TAKE_OVER, str(path), what], check=True)


# A file without the last two databases is valid, because the first ledgers did not have them.
@pytest.mark.parametrize("made", range(len(Databases._fields) - 3))
def test_a_ledger_whose_creation_was_killed_counts_as_missing(tmp_path: Path, made: int) -> None:
    environment = lmdb.open(str(tmp_path), max_dbs=len(Databases._fields))
    for name in Databases._fields[:made]:
        environment.open_db(name.encode())
    environment.close()
    with pytest.raises(LedgerError, match="there is no ledger here"):
        Store(tmp_path, readonly=True)
    with opened(tmp_path) as store:
        store.write(Change(finish=MANY[:1]))
    with opened(tmp_path, readonly=True) as store:
        assert store.count()["finished"] == 1


def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=TINY) as store:
        store.write(Change(finish=MANY[:1]))
        store.write(Change(finish=MANY))
        assert {finish.source for finish in MANY} == {source for source, *_ in store.list_records()}
        assert TINY < store._env.info()["map_size"]
    assert TINY < (tmp_path / "data.mdb").stat().st_size
    with opened(tmp_path, map_size=TINY) as store:  # the file is larger than the first map
        assert len(MANY) == len(list(store.list_records()))


def test_the_map_grows_one_transaction_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=TINY) as store:
        for start in range(0, 3000, 500):
            store.write(Change(finish=MANY[start : start + 500]))
            assert start + 500 == store.count()["finished"]


def test_a_reader_follows_a_map_that_grew(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=TINY) as store:
        store.write(Change(finish=MANY[:1]))
    with opened(tmp_path, map_size=TINY, readonly=True) as reader:
        assert 1 == reader.count()["finished"]
        grow_elsewhere(tmp_path, "")
        assert 3001 == reader.count()["finished"] == len(list(reader.list_records()))


def test_a_writer_that_lost_its_lease_fails_even_if_the_map_grew(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=TINY) as store:
        store.take_lease({"attempt": 1, "uid": "mine"})
        grow_elsewhere(tmp_path, "lease")
        with pytest.raises(LeaseLostError, match="attempt 2"):
            store.write(Change(finish=MANY[:1]))
        assert 3000 == store.count()["finished"]


@pytest.mark.parametrize("part", [0.3, 0.5, 0.99])
def test_a_truncated_file_is_reported_with_the_missing_part(image: Path, part: float) -> None:
    size = image.stat().st_size
    kept = int(size * part)
    os.truncate(image, kept)
    with pytest.raises(LedgerError, match=f"truncated: {size - kept} bytes are missing; restore"):
        Store(image.parent)


@pytest.mark.parametrize("length", [1, 100, META_BYTES - 1])
def test_a_file_that_is_no_ledger_is_reported(image: Path, length: int) -> None:
    os.truncate(image, length)
    with pytest.raises(LedgerError, match="does not start with the header of an LMDB file"):
        Store(image.parent)


def test_garbage_at_the_start_is_reported(image: Path) -> None:
    overwrite(image, 0, b"\xab" * 2 * PAGE)
    with pytest.raises(LedgerError, match="can't be read: it is damaged"):
        Store(image.parent)


@pytest.mark.parametrize("page", [0, 1])
def test_garbage_in_one_of_the_first_pages_is_reported(image: Path, page: int) -> None:
    overwrite(image, page * PAGE, b"\xab" * PAGE)
    with pytest.raises(LedgerError, match="can't be read"):
        Store(image.parent)


def test_garbage_further_inside_is_reported_without_a_crash(image: Path) -> None:
    size = image.stat().st_size
    overwrite(image, 2 * PAGE, b"\xab" * (size - 2 * PAGE))
    with pytest.raises(LedgerError, match="can't be read"), opened(image.parent) as store:
        list(store.list_records())


def overwrite(image: Path, at: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_an_empty_file_is_a_new_ledger(tmp_path: Path) -> None:
    """A process may be killed between creating the file and writing to it."""
    (tmp_path / "data.mdb").touch()
    with opened(tmp_path) as store:
        assert counts() == store.count()


@pytest.mark.parametrize("is_there", [True, False])
def test_reading_a_missing_ledger_is_an_error(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "data.mdb").touch()
    with pytest.raises(LedgerError, match="there is no ledger here"):
        Store(tmp_path, readonly=True)
    assert [] == [path for path in tmp_path.iterdir() if path.stat().st_size]


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("no folder")
    with pytest.raises(VolumeError, match="ledger"):
        Store(tmp_path / "ledger")


def test_an_unreadable_file_is_reported(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(VolumeError, match=f"{image}: Permission denied"):
        Store(image.parent)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (lmdb.DiskError("mdb_txn_commit: No space left on device"), VolumeError),
        (lmdb.Error("mdb_txn_commit: Input/output error"), VolumeError),
        (lmdb.CorruptedError("mdb_page_search: MDB_CORRUPTED"), LedgerError),
        (OSError(errno.ENOSPC, "No space left on device"), VolumeError),
    ],
)
def test_errors_of_a_write_are_converted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: type[Exception]
) -> None:
    def fail(_: str) -> None:
        raise raised

    with opened(tmp_path) as store:
        monkeypatch.setattr("strandline.storage.faults.reach", fail)
        with pytest.raises(told, match=str(tmp_path)) as caught:
            store.write(Change(finish=MANY[:1]))
        assert raised is caught.value.__cause__
        assert 0 == store.count()["finished"]


def read_from(content: bytes) -> Read:
    return lambda offset, size: content[offset : offset + size]


def test_the_newer_of_the_two_first_pages_counts(image: Path) -> None:
    content = image.read_bytes()
    swapped = content[PAGE : 2 * PAGE] + content[:PAGE] + content[2 * PAGE :]
    for whole in (content, swapped):
        assert explain_damage(read_from(whole), len(content)) is None
        said = explain_damage(read_from(whole), len(content) - 1)
        assert said == "it is truncated: 1 bytes are missing"


def make_history(path: Path, seed: int) -> Iterator[bytes]:
    """Yield the data file after many transactions that put and remove values of all sizes."""
    random = Random(seed)
    kept: list[bytes] = []
    with lmdb.open(str(path), map_size=1 << 28, max_dbs=4, sync=False) as environment:
        databases = [environment.open_db(name) for name in (b"a", b"b", b"c", b"d")]
        for _ in range(60):
            with environment.begin(write=True) as txn:
                for _ in range(random.choice([1, 3, 30, 200])):
                    if kept and random.random() < 0.5:
                        key = kept.pop(random.randrange(len(kept)))
                        for database in databases:
                            txn.delete(key, db=database)
                    else:
                        kept.append(random.randbytes(16))
                        value = random.randbytes(random.choice([10, 200, 1900, 5000, 9000]))
                        txn.put(kept[-1], value, db=random.choice(databases))
            yield (path / "data.mdb").read_bytes()


def test_a_file_that_lacks_only_free_pages_is_complete(tmp_path: Path) -> None:
    """LMDB also counts pages that it never writes: pages allocated and freed in one transaction."""
    shorter = 0
    for content in make_history(tmp_path / "history", 1):
        assert explain_damage(read_from(content), len(content)) is None
        counted = max(int.from_bytes(content[at : at + 8], "little") for at in LAST_PAGES) + 1
        shorter += counted * PAGE > len(content)
    assert shorter > 0  # otherwise the test would prove nothing


def test_a_file_that_lacks_a_used_page_is_truncated(tmp_path: Path) -> None:
    for seed in range(3):
        *_, content = make_history(tmp_path / str(seed), seed)
        for pages in (2, 3, len(content) // PAGE // 2):
            cut = content[: pages * PAGE]
            said = explain_damage(read_from(cut), len(cut))
            assert said is not None
            assert said.startswith("it is truncated: ")


def test_a_file_that_grows_during_the_check_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        store.write(Change(finish=MANY[:1]))
        ask = os.pread

        def ask_late(*words: int) -> bytes:
            monkeypatch.setattr(os, "pread", ask)
            store.write(Change(finish=MANY))
            return ask(*words)

        size = (tmp_path / "data.mdb").stat().st_size
        monkeypatch.setattr(os, "pread", ask_late)
        check_image(tmp_path / "data.mdb")
        assert size < (tmp_path / "data.mdb").stat().st_size


def test_an_equal_pid_in_another_container_is_reported(tmp_path: Path) -> None:
    """An LMDB reader locks the byte of its pid. Here, another process already holds that lock."""
    Store(tmp_path).close()
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "lock.mdb"), str(os.getpid())]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as namesake:
        assert namesake.stdout is not None
        namesake.stdout.readline()
        for readonly in (True, False):
            with pytest.raises(LedgerInUseError, match=r"another container .* has the same pid"):
                Store(tmp_path, readonly=readonly)
        namesake.communicate()
    store = Store(tmp_path, readonly=True)
    assert store.read_meta("lease") is None
    store.close()


def test_a_ledger_open_in_another_thread_is_in_use_and_not_damaged(tmp_path: Path) -> None:
    first = Store(tmp_path / "ledger")
    try:
        with pytest.raises(LedgerInUseError, match="another thread of this process"):
            Store(tmp_path / "ledger")
    finally:
        first.close()
    Store(tmp_path / "ledger").close()
