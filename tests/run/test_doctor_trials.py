"""The doctor's trials of the machine, folders, and ledgers leave no traces."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.run.insight.doctor import probes as doctor_trials
from strandline.run.insight.doctor.checks import MIB, fits
from strandline.run.insight.doctor.facts import Ledger, Package
from strandline.run.insight.doctor.probes import (
    find_existing,
    find_token,
    look_at_ledgers,
    look_at_machine,
    look_at_volume,
    parse_free_memory,
    parse_readers,
    read_bounds,
    try_ledger,
    try_writing,
)
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id


def test_bounds_are_read_from_requirements() -> None:
    lines = [
        "rayon>=9",
        "ray-extra>=8",
        "Ray[default]<3,>=2.50; extra == 'runtime'",
        "lmdb (>=1.6,<4)",
        "rich",
    ]
    assert ["<3,>=2.50", ">=1.6,<4", "", ""] == [
        read_bounds(name, lines) for name in ("ray", "lmdb", "rich", "none")
    ]


def test_this_machine_has_what_the_tests_need() -> None:
    here = look_at_machine()
    assert (True, True) == (here.ray.bounds.startswith("<3"), here.python.bounds == ">=3.11")
    assert fits(here.python.version or "", here.python.bounds)
    assert here.cpus >= 1
    assert here.memory >= here.usable_memory > 64 * MIB
    assert here.open_files > 0
    assert abs(here.time - time.time()) < 3600


def test_missing_libraries_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_missing(name: str) -> Any:
        raise PackageNotFoundError(name)

    for function in ("version", "metadata", "requires"):
        monkeypatch.setattr(doctor_trials, function, raise_missing)
    here = look_at_machine()
    assert (Package(None, ""), "") == (here.ray, here.python.bounds)


def list_all(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_a_trial_leaves_a_volume_unchanged(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    seen = look_at_volume(tmp_path)
    assert (seen.path, seen.location) == (str(tmp_path), str(tmp_path))
    assert (seen.blocked, seen.unsafe, seen.writing, seen.lmdb) == (None, None, None, None)
    assert seen.filesystem != "unknown"
    assert seen.disk is not None
    assert 0 < seen.disk.free < seen.disk.size
    assert seen.lag is not None
    assert abs(seen.lag) < 5
    assert list_all(tmp_path) == [tmp_path / "kept"]


def test_a_volume_that_is_missing_is_not_made(tmp_path: Path) -> None:
    seen = look_at_volume(tmp_path / "a/b")
    assert (seen.location, seen.writing) == (str(tmp_path), None)
    assert list_all(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "file above", "dangling link"])
def test_a_file_in_the_way_is_named(tmp_path: Path, kind: str) -> None:
    way = tmp_path / "way"
    if kind == "dangling link":
        way.symlink_to("nowhere")
    else:
        way.touch()
    seen = look_at_volume(way / "data" if kind == "file above" else way)
    assert seen.blocked == f"{way}: this is a file, but a folder is needed"


def test_the_nearest_folder_is_found(tmp_path: Path) -> None:
    assert find_existing(tmp_path / "x/y") == tmp_path
    assert find_existing(tmp_path) == tmp_path
    assert find_existing(Path("/")) == Path("/")


def raise_for(name: str, number: int) -> Callable[..., Any]:
    """Return a replacement for a function of `os` that raises this error."""

    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number), name)

    return fail


@pytest.mark.parametrize(
    ("function", "number", "sentence"),
    [
        ("os.mkdir", errno.EROFS, "the volume is mounted read-only"),
        (
            "os.mkdir",
            errno.EACCES,
            "no permission to write; check the owner and mode of the folder",
        ),
        (
            "os.write",
            errno.ENOSPC,
            "no space is left on the volume; free some space or enlarge the volume",
        ),
        ("os.fsync", errno.EIO, "the volume reports an input/output error; check the disk"),
        (
            "os.rename",
            errno.EPERM,
            "no permission to write; check the owner and mode of the folder",
        ),
        (
            "os.symlink",
            errno.EPERM,
            "no permission to write; check the owner and mode of the folder",
        ),
        ("fcntl.flock", errno.ENOLCK, "No locks available"),
        ("strandline.run.insight.doctor.probes.hold_alone", errno.ENOLCK, "No locks available"),
        ("os.rmdir", errno.EPERM, "no permission to write; check the owner and mode of the folder"),
    ],
)
def test_failures_are_reported_for_the_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, sentence: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(function, raise_for(function, number))
        failure, _ = try_writing(tmp_path, time.time)
    assert failure == f"{tmp_path}: {sentence}"
    if function != "os.rmdir":
        assert list_all(tmp_path) == []


def test_bytes_that_change_on_the_disk_are_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_bytes", lambda path: b"other")
    failure, _ = try_writing(tmp_path, time.time)
    assert failure == (
        f"{tmp_path}: the content read differs from the content written; check the disk"
    )


def test_file_times_are_compared_with_the_clock(tmp_path: Path) -> None:
    _, lag = try_writing(tmp_path, lambda: time.time() + 60)
    assert lag is not None
    assert -62 < lag < -58


def test_a_ledger_that_can_not_be_created_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert try_ledger(tmp_path) is None
    monkeypatch.setenv("STRANDLINE_FAULT", "commit.written:enospc")
    failure = try_ledger(tmp_path)
    assert failure is not None
    assert failure.startswith(f"{tmp_path}: No space left on device")
    monkeypatch.delenv("STRANDLINE_FAULT")
    read = Store.read_meta
    monkeypatch.setattr(
        Store, "read_meta", lambda store, name: read(store, name) if name == "format" else None
    )
    assert try_ledger(tmp_path) == (
        f"{tmp_path}: the content read differs from the content written; check the disk"
    )
    assert list_all(tmp_path) == []


def test_a_file_system_without_safe_maps_is_not_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_trials, "read_mounts", lambda: "1 0 0:1 / / rw - nfs4 s:/ rw")
    monkeypatch.setattr(doctor_trials, "try_ledger", lambda path: "was tried")
    seen = look_at_volume(tmp_path)
    assert (seen.filesystem, seen.lmdb, seen.writing) == ("nfs4", None, None)
    assert str(seen.unsafe).startswith(f"{tmp_path}: the ledger can't be stored on nfs4: ")


def make_ledger(volume: Path, name: str, **lease: Any) -> PipelineFolder:
    folder = PipelineFolder.on_volume(volume, "default", name)
    folder.ledger.mkdir(parents=True)
    with closing(Store(folder.ledger)) as store:
        if lease:
            store.write(Change(meta={"lease": lease}))
    return folder


def spell_lease(**fields: Any) -> dict[str, Any]:
    own = find_process(os.getpid())
    assert own is not None
    here = {"pid": own.pid, "started": own.started, "boot": read_boot_id(), "ended": False}
    return {"attempt": 2, "time": time.time() - 50, **here, **fields}


@pytest.mark.parametrize(
    ("fields", "is_alive"),
    [({}, True), ({"started": 1}, False), ({"boot": "another"}, None), ({"ended": True}, True)],
)
def test_the_holder_of_a_ledger_is_identified(
    tmp_path: Path, fields: dict[str, Any], is_alive: bool | None
) -> None:
    make_ledger(tmp_path, "notes", **spell_lease(**fields))
    [seen] = look_at_ledgers(tmp_path, None)
    assert (seen.pipeline, seen.failure, seen.stale) == ("default/notes", None, ())
    assert seen.lease is not None
    assert (2, is_alive, "ended" in fields) == (
        seen.lease.attempt,
        seen.lease.is_alive,
        seen.lease.has_ended,
    )
    assert 40 < seen.lease.age < 120


def test_all_ledgers_of_a_volume_are_looked_at(tmp_path: Path) -> None:
    folder = make_ledger(tmp_path, "broken")
    make_ledger(tmp_path, "fresh")
    (folder.ledger / "data.mdb").write_bytes(b"x" * 9000)
    (tmp_path / "default/none").mkdir()
    empty = tmp_path / "default/empty/ledger"
    empty.mkdir(parents=True)
    (empty / "data.mdb").touch()
    broken, fresh = look_at_ledgers(tmp_path, None)
    assert (broken.pipeline, fresh) == ("default/broken", Ledger("default/fresh"))
    assert "it is damaged" in str(broken.failure)
    assert list(look_at_ledgers(tmp_path / "none", None)) == []
    assert list_all(empty) == [empty / "data.mdb"]


def test_a_ledger_of_another_user_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_ledger(tmp_path, "notes")
    data = folder.ledger / "data.mdb"
    monkeypatch.setattr(os, "access", lambda path, mode: path != data)
    [seen] = look_at_ledgers(tmp_path, None)
    assert seen.failure == f"{data}: no permission to write; check the owner and mode of the folder"


def test_readers_are_read_from_their_table() -> None:
    table = "    pid     thread     txnid\n   4711 7f0a12c0 3\n  99 7f0a12c1 12\n 99 7f0a12c2 9\n"
    assert [99, 4711] == parse_readers(table)
    assert [99] == parse_readers(table.replace("7f0a12c0 3", "7f0a12c0 -"))
    assert parse_readers("(no active readers)\n\n") == []


READER = """
import os, sys
from pathlib import Path
from strandline.ledger.store.store import Store

store = Store(Path(sys.argv[1]), readonly=True)
with store._reading():
    if sys.argv[2] == "die":
        os._exit(0)
    print("reading", flush=True)
    sys.stdin.read()
"""


def test_a_dead_reader_is_detected(tmp_path: Path) -> None:
    """A second reader keeps LMDB's reader table, which vanishes with its last process."""
    folder = make_ledger(tmp_path, "notes")
    command = [sys.executable, "-c", READER, str(folder.ledger)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "stay"], stdin=pipe, stdout=pipe, env=environment) as alive:
        assert alive.stdout is not None
        assert alive.stdout.readline() == b"reading\n"
        with subprocess.Popen([*command, "die"], env=environment) as dead:
            dead.wait(60)
        [seen] = look_at_ledgers(tmp_path, None)
        alive.communicate(b"", 60)
    assert seen.stale == (dead.pid,)


def test_the_free_memory_is_read() -> None:
    table = "MemTotal:  100 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n"
    assert parse_free_memory(table) == 2 << 20
    assert parse_free_memory("") is None
    assert (look_at_machine().free_memory or 0) > 0


def test_a_token_is_found_where_ray_looks_for_it(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert not find_token(home)
    assert find_token(home | {"RAY_AUTH_TOKEN": "a"})
    file = tmp_path / "token"
    named = {"RAY_AUTH_TOKEN_PATH": str(file)}
    assert not find_token(named)
    file.write_text("a")
    assert find_token(named)
    (tmp_path / ".ray").mkdir()
    file.rename(tmp_path / ".ray/auth_token")
    assert find_token(home)
    assert not find_token(home | named)
