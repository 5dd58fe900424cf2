"""Memory kills, detected from recorded files of several kernels and on the machine's kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.run.insight.memory_kills import (
    KernelKill,
    MemoryKills,
    find_group,
    parse_kills,
    parse_membership,
    read_counter,
    read_limit,
)

MIB = 1 << 20
V1 = "9:name=systemd:/\n4:memory:/pods/p1/c1\n2:cpu,cpuacct:/pods/p1/c1\n0::/\n"
V2 = "0::/user.slice/session-3.scope\n"
NEW = (
    "6,1202,12732208463,-;oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=6077,uid=0\n"
    "3,1203,12732208487,-;Memory cgroup out of memory: Killed process 6077 (python) "
    "total-vm:166116kB, anon-rss:62720kB, UID:0 pgtables:184kB oom_score_adj:0\n"
    " SUBSYSTEM=memory\n"
    "6,1204,12732210000,-;oom_reaper: reaped process 6077 (python), now anon-rss:0kB\n"
)


class Machine:
    """Folders with the structure of /proc, /sys/fs/cgroup, and the kernel's log."""

    def __init__(self, root: Path, membership: str) -> None:
        self.proc, self.cgroup, self.log = root / "proc", root / "cgroup", root / "kmsg"
        self.write(self.proc / "self/cgroup", membership)
        self.write(self.log, "6,1,1,-;Linux version 6.1\n" + NEW)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def append(self, text: str) -> None:
        with self.log.open("a", encoding="latin-1") as log:
            log.write(text)

    def watch(self) -> MemoryKills:
        return MemoryKills.of_this_process(self.proc, self.cgroup, self.log)


def name_folder(membership: str, mounts: Path) -> str | None:
    group = find_group(membership, mounts)
    if group is None:
        return None
    return f"{group.path.relative_to(mounts)} v{2 if group.is_v2 else 1}"


@pytest.mark.parametrize(
    ("membership", "folders", "expected"),
    [
        (V1, ["memory/pods/p1/c1"], "memory/pods/p1/c1 v1"),
        (V1, ["memory"], "memory v1"),  # a container mounts only its own group
        (V1, ["memory/c1"], "memory/c1 v1"),  # the mount begins within the path
        (V1, ["memory/p1", "memory/pods"], "memory v1"),
        ("4:hugetlb,memory:/a\n", ["memory/a"], "memory/a v1"),
        ("4:memory:/../b\n", ["memory/b"], "memory v1"),  # outside the container's root
        ("4:memory:/\n", ["memory"], "memory v1"),
        (V2, ["user.slice/session-3.scope"], "user.slice/session-3.scope v2"),
        (V2, ["session-3.scope"], "session-3.scope v2"),
        (V2, [], ". v2"),
        ("0::/\n", ["x"], ". v2"),
        (V1, [], ". v2"),  # the memory controller of v1 is not mounted
        ("", ["memory"], None),
        ("4:memory\nnonsense\n", ["memory"], None),
    ],
)
def test_the_group_is_found_under_its_mount(
    tmp_path: Path, membership: str, folders: list[str], expected: str | None
) -> None:
    (tmp_path / "cgroup.controllers").touch()
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    assert expected == name_folder(membership, tmp_path)


def test_v2_may_be_mounted_beside_v1(tmp_path: Path) -> None:
    assert name_folder("0::/a", tmp_path) is None
    (tmp_path / "unified/a").mkdir(parents=True)
    (tmp_path / "unified/cgroup.controllers").touch()
    assert name_folder("3:cpu:/a\n0::/a", tmp_path) == "unified/a v2"


def test_a_path_may_hold_colons_and_commas() -> None:
    text = "11:memory,net_cls:/docker/a:b,c\n0::/"
    expected = [("memory", "/docker/a:b,c"), ("net_cls", "/docker/a:b,c"), ("", "/")]
    assert expected == list(parse_membership(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 3\nmax 12\noom 4\noom_kill 2\noom_group_kill 1\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", 7),
        ("oom_kill_disable 1\nunder_oom 0\n", None),
        ("oom_kill many\n", None),
        ("", None),
    ],
)
def test_the_counter_is_read(text: str, count: int | None) -> None:
    assert count == read_counter(text)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("67108864\n", 64 * MIB),
        ("max\n", None),
        ("9223372036854771712\n", None),
        ("9223372036854710272\n", None),  # on kernels with 64 kB pages
        ("", None),
    ],
)
def test_the_limit_is_read(text: str, limit: int | None) -> None:
    assert limit == read_limit(text)


def test_kills_are_counted_from_the_last_look(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1)
    counter = machine.cgroup / "memory/pods/p1/c1/memory.oom_control"
    machine.write(counter, "oom_kill 3\n")
    kills = machine.watch()
    assert (0, 0) == (kills.count(), kills.take())
    machine.write(counter, "oom_kill 5\n")
    assert (2, 2, 0) == (kills.count(), kills.take(), kills.take())
    counter.unlink()  # the group was removed
    assert (2, 0) == (kills.count(), kills.take())
    machine.write(counter, "oom_kill 6\n")  # only one read had failed
    assert (3, 1) == (kills.count(), kills.take())
    kills.close()


def test_kills_before_the_first_good_read_are_not_counted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1)
    counter = machine.cgroup / "memory/pods/p1/c1/memory.oom_control"
    machine.write(counter, "")
    kills = machine.watch()
    assert (0, 0) == (kills.count(), kills.take())
    machine.write(counter, "oom_kill 7\n")
    assert (0, 0) == (kills.count(), kills.take())
    machine.write(counter, "oom_kill 8\n")
    assert (1, 1) == (kills.count(), kills.take())
    kills.close()


def test_v2_counts_kills_in_child_groups(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V2)
    machine.write(machine.cgroup / "cgroup.controllers", "memory")
    own = machine.cgroup / "user.slice/session-3.scope"
    for name in ("memory.events", "memory.events.local"):
        machine.write(own / name, "oom 0\noom_kill 0\n")
    with closing(machine.watch()) as kills:
        machine.write(own / "memory.events", "oom 1\noom_kill 1\n")
        assert kills.count() == 1


@pytest.mark.parametrize(
    ("own", "around", "expected"),
    [("max", "1000", 1000), ("500", "1000", 500), ("2000", "1000", 1000), ("max", "max", None)],
)
@pytest.mark.parametrize("is_v2", [False, True])
def test_the_lowest_limit_of_all_parents_applies(
    tmp_path: Path, own: str, around: str, expected: int | None, is_v2: bool
) -> None:
    machine = Machine(tmp_path, "0::/a/b" if is_v2 else "4:memory:/a/b")
    mount = machine.cgroup if is_v2 else machine.cgroup / "memory"
    name = "memory.max" if is_v2 else "memory.limit_in_bytes"
    machine.write(machine.cgroup / "cgroup.controllers", "memory")
    machine.write(mount / "a/b" / name, own)
    machine.write(mount / "a" / name, around)
    machine.write(mount.parent / name, "1")  # a limit of another group
    with closing(machine.watch()) as kills:
        assert expected == kills.limit()


@pytest.mark.parametrize("membership", ["0::/", "0::/a"])
def test_the_limit_of_the_mount_itself_applies_too(tmp_path: Path, membership: str) -> None:
    machine = Machine(tmp_path, membership)
    machine.write(machine.cgroup / "cgroup.controllers", "memory")
    machine.write(machine.cgroup / "memory.max", "700")
    (machine.cgroup / "a").mkdir()
    with closing(machine.watch()) as kills:
        assert kills.limit() == 700


def test_a_machine_without_files_has_no_kills(tmp_path: Path) -> None:
    kills = MemoryKills.of_this_process(tmp_path, tmp_path, tmp_path / "none")
    assert (0, 0, None, []) == (kills.count(), kills.take(), kills.limit(), kills.read_log())
    kills.close()


def test_the_log_is_read_from_its_end_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1)
    kills = machine.watch()
    assert kills.read_log() == []
    machine.append(NEW.replace("6077", "8"))
    machine.append("4,1205,1,-;\xff is no letter\n" + NEW.replace("6077", "9"))
    assert [kill.pid for kill in kills.read_log()] == [8, 9]
    assert kills.read_log() == []
    kills.close()
    assert kills.read_log() == []


class Records:
    """A replacement for `os.read` that returns records as the kernel does, including losses."""

    def __init__(self, *given: str | OSError) -> None:
        self.given = list(given)

    def read(self, handle: int, size: int) -> bytes:
        if not self.given:
            raise BlockingIOError
        first = self.given.pop(0)
        if isinstance(first, OSError):
            raise first
        return first.encode()


@pytest.mark.parametrize(
    ("given", "pids"),
    [
        ([NEW], [6077]),
        ([BrokenPipeError(), NEW], [6077]),
        ([NEW, BrokenPipeError(), BrokenPipeError(), NEW.replace("6077", "8")], [6077, 8]),
        ([NEW, BlockingIOError(), NEW.replace("6077", "8")], [6077]),
        ([OSError(22, "too long")], []),
    ],
)
def test_lost_records_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str | OSError], pids: list[int]
) -> None:
    with closing(Machine(tmp_path, V1).watch()) as kills:
        monkeypatch.setattr(os, "read", Records(*given).read)
        assert pids == [kill.pid for kill in kills.read_log()]


def test_reading_a_growing_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline.run.insight.memory_kills._READS_AT_MOST", 3)
    with closing(Machine(tmp_path, V1).watch()) as kills:
        monkeypatch.setattr(os, "read", lambda handle, size: NEW.encode())
        assert len(kills.read_log()) == 3


def test_a_pipe_is_read_as_a_log_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path, V1)
    machine.log.unlink()
    os.mkfifo(machine.log)
    with closing(machine.watch()) as kills:
        assert kills.read_log() == []  # does not wait for a writer
        machine.append(NEW)
        assert [kill.pid for kill in kills.read_log()] == [6077]


MESSAGES = [
    ("Out of memory: Killed process 123 (python) total-vm:9kB, UID:0", 123, "python"),
    ("Memory cgroup out of memory: Killed process 5 (ray::Stage) total-vm:1kB", 5, "ray::Stage"),
    ("Memory cgroup out of memory: Killed process 9 (python)", 9, "python"),
    ("Out of memory (oom_kill_allocating_task): Killed process 7 (a b) total-vm:1kB", 7, "a b"),
    ("Killed process 6764 (java) total-vm:1kB, anon-rss:2kB, file-rss:3kB", 6764, "java"),
    ("Killed process 6764, UID 501, (java) total-vm:1kB, anon-rss:2kB", 6764, "java"),
    ("Killed process 11 (python), UID 1000, total-vm:1kB", 11, "python"),
    ("Out of memory: Killed process 12 ((sd-pam)) total-vm:1kB", 12, "(sd-pam)"),
    ("Out of memory: Killed process 12 (a) (b) total-vm:1kB", 12, "a) (b"),
    ("Out of memory: Killed process 13 () total-vm:1kB", 13, ""),
    ("Memory cgroup out of memory: Killed process 6 (x); y) total-vm:1kB", 6, "x); y"),
]


@pytest.mark.parametrize(("message", "pid", "name"), MESSAGES)
def test_messages_of_many_kernels_are_understood(message: str, pid: int, name: str) -> None:
    for line in (f"3,1,2,-;{message}\n", f"4,77,99,-,caller=T12;{message}\n KEY=value\n"):
        assert parse_kills(line) == [KernelKill(pid, name, message)]


@pytest.mark.parametrize(
    "line",
    [
        "6,1,2,-;oom-kill:constraint=CONSTRAINT_NONE,task=python,pid=6077,uid=0",
        "3,1,2,-;Memory cgroup out of memory: Kill process 6 (python) score 1 or sacrifice child",
        "6,1,2,-;oom_reaper: reaped process 6077 (python), now anon-rss:0kB",
        "4,1,2,-;python invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0",
        "11,1,2,-;Out of memory: Killed process 1 (python) total-vm:1kB",  # written by a program
        " continued=Out of memory: Killed process 1 (python) total-vm:1kB",
        "Out of memory: Killed process 1 (python) total-vm:1kB",
        "",
    ],
)
def test_other_lines_are_no_kills(line: str) -> None:
    assert parse_kills(line + "\n") == []


@given(st.lists(st.sampled_from(MESSAGES)), st.lists(st.text("abc;,()= "), min_size=1))
def test_every_kill_is_found_once_and_in_order(
    messages: list[tuple[str, int, str]], between: list[str]
) -> None:
    noise = "".join(f"6,1,1,-;{text}\n {text}\n" for text in between)
    text = noise.join(["", *(f"3,1,2,-;{message}\n" for message, _, _ in messages), ""])
    assert [(pid, name) for _, pid, name in messages] == [
        (kill.pid, kill.name) for kill in parse_kills(text)
    ]


# A program that joins the group and starts a child that exceeds the group's memory limit.
WATCHER = """
import json, os, subprocess, sys, time
from pathlib import Path
from strandline.run.insight.memory_kills import LOG, MemoryKills

Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
kills = MemoryKills.of_this_process()
before = kills.count()
eater = "taken = bytearray(b'x' * (1 << 20)) * 150"
code = subprocess.run([sys.executable, "-c", eater], timeout=30).returncode
numbers = [kills.limit(), code, before, kills.count(), kills.take(), kills.take()]
logged = []
for _ in range(100 if kills._log is not None else 0):  # the line comes just after the signal
    logged += kills.read_log()
    if logged:
        break
    time.sleep(0.1)
print(json.dumps([numbers, kills._log is not None, [kill.text for kill in logged]]))
"""
GROUPS = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", 64 * MIB),
    ("/sys/fs/cgroup", "memory.max", "memory.swap.max", 0),
)


@pytest.fixture
def small_group() -> Iterator[Path]:
    """Create a memory cgroup of 64 MB, without swap if the kernel supports that setting."""
    for mount, limit, swap, most in GROUPS:
        if not Path(mount, "cgroup.procs").exists():
            continue
        folder = Path(mount, f"strandline-test-{uuid.uuid4().hex[:8]}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            with suppress(OSError):  # other kinds of groups lack this file
                (folder / limit).write_text(str(64 * MIB))
                with suppress(OSError):
                    (folder / swap).write_text(str(most))
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no right to make a memory cgroup here")


def test_a_real_kill_under_a_limit_is_seen(small_group: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WATCHER, str(small_group)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    numbers, is_logged, texts = json.loads(done.stdout)
    assert [64 * MIB, -9, 0, 1, 1, 0] == numbers
    assert bool(texts) == is_logged
    assert all("Killed process" in text for text in texts)
