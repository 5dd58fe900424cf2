"""A ledger's files: how they grow, and how damage is told before anything is read from them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from ledger_builders import counts, finish_of, listed, opened
from strandline.ledger.entries import Change
from strandline.ledger.errors import LeaseLostError, LedgerError, LedgerInUseError
from strandline.ledger.store.changes import Databases
from strandline.ledger.store.inspection import META_BYTES, explain_damage
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError

TINY = 1 << 16
PAGE = 4096
MANY = [finish_of(listed(f"a key that takes some room, number {number}")) for number in range(3000)]
# Another process takes the ledger over and grows its map beyond what the first one has mapped.
TAKE_OVER = """
import sys
from pathlib import Path
from strandline.ledger.entries import Change, Finish, Record
from strandline.ledger.store.store import Store
store = Store(Path(sys.argv[1]), map_size=1 << 16)
if sys.argv[2] == "lease":
    store.take_lease({"attempt": 2, "uid": "other"})
finish = [Finish(i.to_bytes(16, "little"), b"v" * 8, Record("k" * 99, ())) for i in range(3000)]
store.write(Change(finish=finish))
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The data file of a ledger of 3,000 sources."""
    with opened(tmp_path) as store:
        store.write(Change(finish=MANY))
    return tmp_path / "data.mdb"


def grow_elsewhere(path: Path, what: str) -> None:
    subprocess.run([sys.executable, "-c", TAKE_OVER, str(path), what], check=True)


# The first ledgers lacked the last two databases, so one without them is a ledger.
@pytest.mark.parametrize("made", range(len(Databases._fields) - 2))
def test_a_ledger_whose_maker_was_killed_over_it_is_none_yet(tmp_path: Path, made: int) -> None:
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
        assert {finish.source for finish in MANY} == {source for source, _ in store.list_finished()}
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


def test_a_writer_that_lost_its_lease_hears_so_though_the_map_grew(tmp_path: Path) -> None:
    with opened(tmp_path, map_size=TINY) as store:
        store.take_lease({"attempt": 1, "uid": "mine"})
        grow_elsewhere(tmp_path, "lease")
        with pytest.raises(LeaseLostError, match="attempt 2"):
            store.write(Change(finish=MANY[:1]))
        assert 3000 == store.count()["finished"]


@pytest.mark.parametrize("part", [0.3, 0.5, 0.99])
def test_a_file_cut_short_is_told_by_what_is_missing(image: Path, part: float) -> None:
    size = image.stat().st_size
    kept = int(size * part)
    os.truncate(image, kept)
    with pytest.raises(LedgerError, match=f"cut short: {size - kept} bytes are missing; restore"):
        Store(image.parent)


@pytest.mark.parametrize("length", [1, 100, META_BYTES - 1])
def test_a_file_that_is_no_ledger_at_all(image: Path, length: int) -> None:
    os.truncate(image, length)
    with pytest.raises(LedgerError, match="does not begin as an LMDB file does"):
        Store(image.parent)


def test_garbage_where_it_begins(image: Path) -> None:
    overwrite(image, 0, b"\xab" * 2 * PAGE)
    with pytest.raises(LedgerError, match="can't be read: it is damaged"):
        Store(image.parent)


@pytest.mark.parametrize("page", [0, 1])
def test_garbage_in_one_of_the_first_pages(image: Path, page: int) -> None:
    overwrite(image, page * PAGE, b"\xab" * PAGE)
    with pytest.raises(LedgerError, match="can't be read"):
        Store(image.parent)


def test_garbage_further_inside_is_an_error_and_no_crash(image: Path) -> None:
    size = image.stat().st_size
    overwrite(image, 2 * PAGE, b"\xab" * (size - 2 * PAGE))
    with pytest.raises(LedgerError, match="can't be read"), opened(image.parent) as store:
        list(store.list_records())


def overwrite(image: Path, at: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_an_empty_file_is_a_new_ledger(tmp_path: Path) -> None:
    """A process may be killed between making the file and writing to it."""
    (tmp_path / "data.mdb").touch()
    with opened(tmp_path) as store:
        assert counts() == store.count()


@pytest.mark.parametrize("is_there", [True, False])
def test_looking_where_no_ledger_is(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "data.mdb").touch()
    with pytest.raises(LedgerError, match="there is no ledger here"):
        Store(tmp_path, readonly=True)
    assert [] == [path for path in tmp_path.iterdir() if path.stat().st_size]


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("no folder")
    with pytest.raises(VolumeError, match="ledger"):
        Store(tmp_path / "ledger")


def test_a_file_that_may_not_be_read(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_errors_of_a_write_are_put_into_our_words(
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


def test_the_younger_of_the_two_first_pages_counts(image: Path) -> None:
    content = image.read_bytes()
    first, second = content[:META_BYTES], content[PAGE : PAGE + META_BYTES]
    assert explain_damage(first, second, len(content)) is None
    assert explain_damage(second, first, len(content)) is None
    assert explain_damage(first, second, len(content) - 1) == "it is cut short: 1 bytes are missing"
    assert explain_damage(second, first, len(content) - 1) == "it is cut short: 1 bytes are missing"


def test_a_namesake_by_pid_in_another_container_is_told_as_such(tmp_path: Path) -> None:
    """LMDB has a reader lock the byte of its pid: here another process does that for this one."""
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
            with pytest.raises(LedgerInUseError, match=r"another container .* has the pid of this"):
                Store(tmp_path, readonly=readonly)
        namesake.communicate()
    store = Store(tmp_path, readonly=True)
    assert store.read_meta("lease") is None
    store.close()
