"""The doctor's findings for good and bad facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.run.insight.doctor.checks import (
    GIB,
    MIB,
    Finding,
    Level,
    choose_code,
    examine,
    fits,
    format_size,
)
from strandline.run.insight.doctor.facts import (
    Disk,
    Facts,
    Lease,
    Ledger,
    Machine,
    Need,
    Package,
    StagesProbe,
    VolumeFact,
)

NOW = 1_800_000_000.0
OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM
MACHINE = Machine(
    python=Package("3.12.1", ">=3.11"),
    ray=Package("2.51.0", "<3,>=2.50"),
    cpus=4,
    memory=32 * GIB,
    limit=None,
    shared_memory=16 * GIB,
    open_files=65536,
    time=NOW,
)
DISK = Disk(100 * GIB, 50 * GIB, 1_000_000, 900_000)
VOLUME = VolumeFact("/data", "/data", filesystem="ext4", disk=DISK, lag=0.01)
LEASE = Lease(3, 4711, has_ended=True, is_alive=False, age=900.0)
LEDGER = Ledger("default/notes", None, LEASE, 120)
WORK = StagesProbe(
    (Need("read", 1, 1.0, None), Need("parse", 2, 0.5, GIB)), "/data/out", is_url=False
)
WELL = Facts(MACHINE, VOLUME, (LEDGER,), WORK)
SHORT = "/data/shards: merging the gathered pieces will need up to 9 MiB, and 1 MiB are free"
UNSAFE = "/data: the ledger can't be stored on nfs4: it is not reliable; put it on a local disk"


TOKENS: dict[str, Any] = {"token_mode": "Token"}


def machine(**fields: Any) -> Facts:
    return replace(WELL, machine=replace(MACHINE, **fields))


def temporary(size: int, free: int) -> Facts:
    disk = DISK._replace(size=size, free=free)
    return machine(temporary="/scratch", temporary_disk=disk)


def volume(**fields: Any) -> Facts:
    return replace(WELL, volume=replace(VOLUME, **fields))


def disk(**fields: int) -> Facts:
    return volume(disk=DISK._replace(**fields))


def ledger(**fields: Any) -> Facts:
    return replace(WELL, ledgers=(replace(LEDGER, **fields),))


def lease(**fields: Any) -> Facts:
    return ledger(lease=LEASE._replace(**fields))


def stages(**fields: Any) -> Facts:
    return replace(WELL, stages=replace(WORK, **fields))


def needing(workers: int, cpu: float, memory: int) -> Facts:
    return stages(needs=(Need("parse", workers, cpu, memory),))


NOTES = "ledger default/notes"
CASES = [
    (machine(), "python", OK, "3.12.1"),
    (
        machine(python=Package("3.10.9", ">=3.11")),
        "python",
        PROBLEM,
        "3.10.9, but >=3.11 is required",
    ),
    (machine(), "ray", OK, "2.51.0"),
    (machine(ray=Package(None, "<3,>=2.50")), "ray", PROBLEM, "it is not installed"),
    (
        machine(ray=Package("2.49.2", "<3,>=2.50")),
        "ray",
        PROBLEM,
        "2.49.2, but <3,>=2.50 is required",
    ),
    (machine(), "memory", OK, "34.4 GB"),
    (
        machine(limit=4 * GIB),
        "memory",
        OK,
        "4.3 GB, the limit of the cgroup; the machine has 34.4 GB",
    ),
    (machine(limit=64 * GIB), "memory", OK, "34.4 GB"),
    (machine(memory=GIB), "memory", WARNING, "1.1 GB"),
    (machine(limit=2 * GIB - 1), "memory", WARNING, "2.1 GB, the limit of the cgroup"),
    (machine(), "shared memory", OK, "17.2 GB are free in /dev/shm"),
    (machine(free_memory=8 * GIB), "free memory", OK, "8.6 GB are free"),
    (machine(free_memory=GIB), "free memory", WARNING, "1.1 GB are free"),
    (machine(load=16.0), "load", OK, "16.0 on 4 CPUs"),
    (machine(load=16.1), "load", WARNING, "16.1 on 4 CPUs"),
    (temporary(size=100 * GIB, free=6 * GIB), "temporary space", OK, "6.4 GB are free in /scr"),
    (temporary(size=100 * GIB, free=4 * GIB), "temporary space", WARNING, "4.3 GB are free in"),
    (temporary(size=10 * GIB, free=GIB - 1), "temporary space", WARNING, "1.1 GB are free in "),
    (temporary(size=10 * GIB, free=MIB), "temporary space", PROBLEM, "1 MB are free in /scr"),
    (machine(**TOKENS), "ray token", WARNING, "RAY_AUTH_MODE requires a token, and none"),
    (machine(**TOKENS, has_token=True), "ray token", OK, "a token is set"),
    (
        stages(lacks=("spec.sink.use: needs zarr; pip it",)),
        "packages",
        PROBLEM,
        "spec.sink.use",
    ),
    (stages(unmet=("spec.sink: asks; ask for less",)), "requests", PROBLEM, "spec.sink: asks"),
    (machine(shared_memory=64 * MIB), "shared memory", WARNING, "67 MB are free in /dev/shm"),
    (machine(shared_memory=9 * GIB), "shared memory", WARNING, "9.7 GB are free in /dev/shm"),
    (machine(shared_memory=GIB, limit=3 * GIB), "shared memory", OK, "1.1 GB are free"),
    (machine(shared_memory=GIB - 1, limit=3 * GIB), "shared memory", WARNING, "1.1 GB are free"),
    (
        machine(shared_memory=200 * 10**9, memory=1000 * GIB),
        "shared memory",
        OK,
        "200.0 GB are free",
    ),
    (machine(), "open files", OK, "at most 65,536 per process"),
    (machine(open_files=4096), "open files", OK, "at most 4,096 per process"),
    (machine(open_files=1024), "open files", WARNING, "at most 1,024 per process"),
    (machine(), "clock", OK, "2027-01-15"),
    (machine(time=1_704_067_199.0), "clock", PROBLEM, "the clock shows 2023-12-31"),
    (machine(time=0.0), "clock", PROBLEM, "the clock shows 1970-01-01"),
    (volume(), "volume", OK, "/data"),
    (volume(location="/"), "volume", WARNING, "/data does not exist; checked / instead"),
    (volume(blocked="/data: a file stands"), "volume", PROBLEM, "/data: a file stands"),
    (volume(), "file system", OK, "ext4"),
    (volume(unsafe=UNSAFE), "file system", PROBLEM, UNSAFE.partition("; ")[0]),
    (
        volume(filesystem="newfs"),
        "file system",
        WARNING,
        "newfs, which is untested",
    ),
    (disk(), "space", OK, "53.7 GB of 107.4 GB are free"),
    (disk(free=10 * GIB), "space", OK, "10.7 GB of 107.4 GB are free"),
    (disk(free=10 * GIB - 1), "space", WARNING, "10.7 GB of 107.4 GB are free"),
    (disk(size=2 * GIB, free=GIB - 1), "space", WARNING, "1.1 GB of 2.1 GB are free"),
    (disk(size=2 * GIB, free=GIB), "space", OK, "1.1 GB of 2.1 GB are free"),
    (disk(free=64 * MIB), "space", WARNING, "67 MB of"),
    (disk(free=64 * MIB - 1), "space", PROBLEM, "67 MB of"),
    (disk(size=0, free=0), "space", OK, "the file system does not report its size"),
    (disk(), "inodes", OK, "900,000 of 1,000,000 are free"),
    (disk(inodes=0, free_inodes=0), "inodes", OK, "the file system does not count them"),
    (disk(free_inodes=99_999), "inodes", WARNING, "99,999 of 1,000,000 are free"),
    (disk(free_inodes=999), "inodes", PROBLEM, "999 of 1,000,000 are free"),
    (volume(), "rights", OK, "a file was written, synced, renamed, linked and locked"),
    (volume(writing="/data: no right; check it"), "rights", PROBLEM, "/data: no right"),
    (volume(writing="/data: it is read-only"), "rights", PROBLEM, "/data: it is read-only"),
    (volume(), "lmdb", OK, "a small ledger was written and read"),
    (volume(lmdb="/data: no locks available"), "lmdb", PROBLEM, "/data: no locks available"),
    (volume(lag=-5.0), "file times", OK, "file times agree with the clock"),
    (volume(lag=61.4), "file times", WARNING, "a new file is 61 s ahead of the clock"),
    (volume(lag=-5.2), "file times", WARNING, "a new file is 5 s behind the clock"),
    (ledger(), NOTES, OK, "attempt 3 has ended; 120 finished"),
    (ledger(lease=None, finished=0), NOTES, OK, "no attempt has begun; 0 finished"),
    (
        lease(has_ended=False, is_alive=True),
        NOTES,
        OK,
        "attempt 3 is running as process 4711; 120 finished",
    ),
    (lease(has_ended=False), NOTES, WARNING, "attempt 3 was killed: process 4711 is gone"),
    (
        lease(has_ended=False, is_alive=None, age=-3.0),
        NOTES,
        OK,
        "attempt 3 on another host, container or boot last reported 0 s ago",
    ),
    (
        lease(has_ended=False, is_alive=None),
        NOTES,
        WARNING,
        "attempt 3 on another host, container or boot last reported 900 s ago",
    ),
    (
        ledger(stale=(7, 9)),
        NOTES,
        WARNING,
        "attempt 3 has ended; 120 finished; dead readers: 7, 9",
    ),
    (ledger(shortage=f"{SHORT}; give it more"), "gathering default/notes", PROBLEM, SHORT),
    (ledger(failure="/l: it is cut short; restore it"), NOTES, PROBLEM, "/l: it is cut short"),
    (stages(), "cpus", OK, "4 for stages that request at least 2"),
    (
        needing(9, 0.5, 0),
        "cpus",
        OK,
        "4 for stages that request at least 4.5; the stages share them",
    ),
    (stages(), "reservations", OK, "stages reserve at least 2.1 GB of 34.4 GB"),
    (
        needing(3, 1.0, 8 * GIB),
        "reservations",
        WARNING,
        "stages reserve at least 25.8 GB of 34.4 GB",
    ),
    (
        needing(5, 1.0, 8 * GIB),
        "reservations",
        PROBLEM,
        "stages reserve at least 42.9 GB of 34.4 GB",
    ),
    (stages(), "output", OK, "/data/out"),
    (stages(output="s3://b/x", is_url=True), "output", OK, "s3://b/x (a URL, not tried)"),
    (stages(failure="/out: no permission to write"), "output", PROBLEM, "/out: no permission"),
]


def find(facts: Facts, name: str) -> Finding:
    [found] = [finding for finding in examine(facts) if finding.name == name]
    return found


@pytest.mark.parametrize(("facts", "name", "level", "found"), CASES)
def test_each_fact_is_judged(facts: Facts, name: str, level: Level, found: str) -> None:
    finding = find(facts, name)
    assert (level, True) == (finding.level, finding.found.startswith(found)), finding
    assert bool(finding.advice) == (level is not Level.OK)
    assert "\n" not in finding.found + finding.advice


def test_every_check_can_be_good_and_bad() -> None:
    names = {finding.name for finding in examine(WELL)}
    for name in names - {"cpus"}:  # never bad: stages share CPUs
        levels = {level for _, each, level, _ in CASES if each == name}
        assert OK in levels, name
        assert levels & {WARNING, PROBLEM}, name


def test_a_bad_fact_does_not_affect_other_findings() -> None:
    for facts, name, level, _ in CASES:
        others = {f.name for f in examine(facts) if f.level is not OK and f.name != name}
        is_of_memory = name in {"memory", "shared memory"}  # both findings depend on the memory
        assert others <= ({"shared memory", "reservations"} if is_of_memory else set()), level


@pytest.mark.parametrize(
    ("facts", "advice"),
    [
        (volume(writing="/data: no right; check it"), "check it"),
        (
            volume(writing="/data: it is read-only"),
            "make it writable, or name another with --volume",
        ),
        (volume(unsafe=UNSAFE), "put it on a local disk"),
        (ledger(failure="/l: it is cut short"), "restore its files from a copy, or move them away"),
    ],
)
def test_a_sentence_with_advice_keeps_it(facts: Facts, advice: str) -> None:
    assert [advice] == [finding.advice for finding in examine(facts) if finding.advice]


def test_checks_that_did_not_run_have_no_findings() -> None:
    names = [finding.name for finding in examine(volume(blocked="a file"))]
    assert [name for name in names if name in {"file system", "space", "rights", "lmdb"}] == []
    assert "rights" not in {f.name for f in examine(volume(blocked="x")) if f.level is OK}
    names = [finding.name for finding in examine(volume(writing="no"))]
    assert {"lmdb", "file times"}.isdisjoint(names)
    assert "lmdb" not in [finding.name for finding in examine(volume(unsafe=UNSAFE))]
    names = [f.name for f in examine(Facts(replace(MACHINE, shared_memory=None), VOLUME))]
    assert {"shared memory", "cpus", "output"}.isdisjoint(names)
    names = [finding.name for finding in examine(volume(disk=None, lag=None))]
    assert {"space", "inodes", "file times"}.isdisjoint(names)


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (WELL, 0),
        (machine(shared_memory=0), 0),
        (machine(ray=Package(None, "")), 1),
        (ledger(failure="damaged"), 1),
        (needing(5, 1.0, 8 * GIB), 1),
        (disk(free=0), 73),
        (volume(unsafe=UNSAFE), 73),
        (stages(failure="no"), 73),
        (
            replace(machine(ray=Package(None, "")), volume=replace(VOLUME, writing="no")),
            73,
        ),
    ],
)
def test_the_exit_code_distinguishes_volume_problems(facts: Facts, code: int) -> None:
    assert code == choose_code(examine(facts))


@pytest.mark.parametrize(
    ("version", "bounds", "is_within"),
    [
        ("2.50", "<3,>=2.50", True),
        ("2.50.0", "<3,>=2.50", True),
        ("2.9.1", "<3,>=2.50", False),
        ("3.0.0", "<3,>=2.50", False),
        ("3.0.0rc1", "<3", False),
        ("2.99.dev1", ">=2.50, <3", True),
        ("2.60.1", "!=2.60.0", True),
        ("2.60", "!=2.60.0", False),
        ("2.60", "==2.60.0", True),
        ("2.61", "<=2.60", False),
        ("2.60", ">2.60", False),
        ("2.60", "~=2.50", True),
        ("1", "", True),
        ("unknown", ">=1", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, bounds: str, is_within: bool) -> None:
    assert is_within == fits(version, bounds)


@given(st.lists(st.integers(0, 99), min_size=1), st.lists(st.integers(0, 99), min_size=1))
def test_a_version_is_below_or_above_or_the_same(first: list[int], second: list[int]) -> None:
    one, other = (".".join(map(str, numbers)) for numbers in (first, second))
    is_below, is_same, is_above = (fits(one, f"{sign}{other}") for sign in ("<", "==", ">"))
    assert [is_below, is_same, is_above].count(True) == 1
    assert (is_below or is_same, is_above or is_same) == (
        fits(one, f"<={other}"),
        fits(one, f">={other}"),
    )


def test_sizes_are_spelled_in_a_unit_that_fits() -> None:
    assert ["0 MB", "64 MB", "1.0 GB"] == [format_size(n) for n in (1, 64 * 10**6, 10**9)]


def test_missing_tokens_and_disks_have_no_findings() -> None:
    names = {each.name for each in examine(machine(has_token=True))}
    assert not names & {"ray token", "temporary space", "free memory", "packages", "requests"}
