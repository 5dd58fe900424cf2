"""Finds current and imminent problems of a machine, a volume, its ledgers, and a pipeline.

The module is pure: it turns facts into findings. It must not depend on the collection of facts or
the presentation of findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from strandline.ledger.records.entries import LAPSE_SECONDS
from strandline.run.insight.doctor.facts import (
    Disk,
    Facts,
    Lease,
    Ledger,
    Machine,
    Package,
    RayStart,
    StagesProbe,
    VolumeFact,
)
from strandline.storage.filesystems import UNKNOWN, judge
from strandline_api.outcome.exit_codes import ExitCode

GIB, MIB = 1 << 30, 1 << 20
SMALL_SHARE = 0.1  # minimum share of free space and of free inodes
LITTLE_SPACE, NO_SPACE = GIB, 64 * MIB  # free bytes: limits for a warning and a problem
NO_INODES = 1000
LITTLE_MEMORY = 2 * GIB  # Ray's own processes use about half of this
STORE_SHARE, STORE_MOST, STORE_LEAST = 0.3, 200 * 10**9, GIB  # limits of Ray's object store
SPILL_SHARE = 0.05
BUSY = 4  # running or waiting processes per CPU
FEW_FILES = 4096  # Ray itself warns below this, because workers keep many connections
FIRST_SANE_TIME = 1_704_067_200.0  # start of 2024
MOST_LAG = 5.0  # maximum difference between the clocks, in seconds
RECENT_SECONDS = 2 * LAPSE_SECONDS
# Matches `>=2.50` and `!= 3.1.4`.
_COMPARE = re.compile(r"(<=|>=|==|!=|<|>|~=)\s*(\d+(?:\.\d+)*)")
_VOLUME = frozenset({"volume", "file system", "space", "inodes", "rights", "lmdb", "output"})


class Level(StrEnum):
    """Severity of a finding.

    A run with a problem fails. A run with a warning may be slower or at risk.
    """

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The result of one check.

    Attributes:
        name: subject of the check; scripts rely on its spelling.
        found: the observation.
        advice: what to do, in one sentence; empty if no action is needed.
    """

    name: str
    level: Level
    found: str
    advice: str = ""


def examine(facts: Facts) -> list[Finding]:
    """Judge the facts. Return a finding for every check, including successful checks."""
    findings = [*_examine_machine(facts.machine), *_examine_volume(facts.volume)]
    for ledger in facts.ledgers:
        findings += _examine_ledger(ledger)
    if facts.stages is not None:
        findings += _examine_stages(facts.stages, facts.machine)
    return findings


def choose_code(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit code: 73 if the volume has a problem, 1 for other problems, otherwise 0."""
    names = {finding.name for finding in findings if finding.level is Level.PROBLEM}
    if names & _VOLUME:
        return ExitCode.VOLUME_UNUSABLE
    return ExitCode.APPLICATION_ERROR if names else ExitCode.COMPLETE


def fits(version: str, bounds: str) -> bool:
    """Return True if a version meets bounds such as `<3,>=2.50`. Only numbers are compared."""
    release = _parse_release(version)
    for operator, word in _COMPARE.findall(bounds):
        bound = _parse_release(word)
        # The default is used for `>=`, and for `~=`, whose upper bound is ignored.
        is_within = {
            "<": release < bound,
            "<=": release <= bound,
            "==": release == bound,
            "!=": release != bound,
            ">": release > bound,
        }.get(operator, release >= bound)
        if not is_within:
            return False
    return True


def _parse_release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    # Remove trailing zeros, because 2.0 and 2 are the same version.
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _examine_machine(machine: Machine) -> Iterator[Finding]:
    yield _judge_package("python", machine.python, "use a Python of that version")
    install = "reinstall strandline[runtime]; without Ray, only `--engine inline` runs"
    yield _judge_package("ray", machine.ray, install)
    if machine.ray_start is not None:
        yield _judge_start(machine.ray_start)
    yield from _judge_token(machine)
    yield _judge_memory(machine)
    yield from _judge_fullness(machine)
    if machine.shared_memory is not None:
        yield _judge_store(machine.shared_memory, machine.usable_memory)
    files = f"at most {machine.open_files:,} per process"
    if machine.open_files < FEW_FILES:
        advice = (
            f"raise the limit (`ulimit -n {16 * FEW_FILES}`); otherwise Ray may lose connections"
        )
        yield Finding("open files", Level.WARNING, files, advice)
    else:
        yield Finding("open files", Level.OK, files)
    today = f"{datetime.fromtimestamp(machine.time, UTC):%Y-%m-%d}"
    if machine.time < FIRST_SANE_TIME:
        shown = f"the clock shows {today}"
        yield Finding("clock", Level.PROBLEM, shown, "set the clock of this machine")
    else:
        yield Finding("clock", Level.OK, today)


def _judge_package(name: str, package: Package, advice: str) -> Finding:
    if package.version is None:
        return Finding(name, Level.PROBLEM, "it is not installed", advice)
    if fits(package.version, package.bounds):
        return Finding(name, Level.OK, package.version)
    return Finding(
        name, Level.PROBLEM, f"{package.version}, but {package.bounds} is required", advice
    )


def _judge_start(start: RayStart) -> Finding:
    if not start.problem:
        found = f"a small pipeline ran on a local Ray in {start.seconds:.1f} s"
        return Finding("ray start", Level.OK, found)
    advice = "fix this problem, or run with `--engine inline`"
    return Finding("ray start", Level.PROBLEM, start.problem, advice)


def _judge_memory(machine: Machine) -> Finding:
    usable = machine.usable_memory
    found = format_size(usable)
    if usable < machine.memory:
        found += f", the limit of the cgroup; the machine has {format_size(machine.memory)}"
    if usable < LITTLE_MEMORY:
        advice = "provide 2 GiB or more, or run with `--engine inline`: Ray alone needs about 1 GiB"
        return Finding("memory", Level.WARNING, found, advice)
    return Finding("memory", Level.OK, found)


def _judge_token(machine: Machine) -> Iterator[Finding]:
    """Yield a finding about tokens, but only if tokens are configured: most clusters need none."""
    if machine.token_mode.lower() != "token":
        return
    if machine.has_token:
        yield Finding("ray token", Level.OK, "a token is set")
        return
    advice = "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, to the token of the cluster at --address"
    yield Finding(
        "ray token", Level.WARNING, "RAY_AUTH_MODE requires a token, and none is set", advice
    )


def _judge_fullness(machine: Machine) -> Iterator[Finding]:
    if machine.free_memory is not None:
        found, name = f"{format_size(machine.free_memory)} are free", "free memory"
        if machine.free_memory < LITTLE_MEMORY:
            advice = "end other programs, or run with `--engine inline`: Ray alone needs about 1 GB"
            yield Finding(name, Level.WARNING, found, advice)
        else:
            yield Finding(name, Level.OK, found)
    busy = f"{machine.load:.1f} on {machine.cpus} CPUs"
    if machine.load > BUSY * machine.cpus:
        advice = (
            "wait until other programs have ended, or set --workers 1; otherwise Ray may start "
            "slowly"
        )
        yield Finding("load", Level.WARNING, busy, advice)
    else:
        yield Finding("load", Level.OK, busy)
    if machine.temporary_disk is not None:
        yield _judge_temporary(machine.temporary, machine.temporary_disk)


def _judge_temporary(path: str, disk: Disk) -> Finding:
    name, found = "temporary space", f"{format_size(disk.free)} are free in {path}"
    advice = (
        "free some space, or set TMPDIR to another disk: Ray keeps logs and spilled objects there"
    )
    if disk.free < NO_SPACE:
        return Finding(name, Level.PROBLEM, found, advice)
    # Below this share of free space, Ray stops spilling.
    is_full = disk.free < LITTLE_SPACE or disk.free < SPILL_SHARE * disk.size
    return (
        Finding(name, Level.WARNING, found, advice) if is_full else Finding(name, Level.OK, found)
    )


def _judge_store(free: int, memory: int) -> Finding:
    wanted = max(STORE_LEAST, min(int(STORE_SHARE * memory), STORE_MOST))
    found = f"{format_size(free)} are free in /dev/shm"
    if free >= wanted:
        return Finding("shared memory", Level.OK, found)
    advice = (
        f"give /dev/shm {format_size(wanted)} (`--shm-size` of a container); otherwise Ray "
        "keeps its objects on disk, which is slow"
    )
    return Finding("shared memory", Level.WARNING, found, advice)


def _examine_volume(volume: VolumeFact) -> Iterator[Finding]:
    if volume.blocked is not None:
        advice = "move it away, or name another folder with --volume"
        yield Finding("volume", Level.PROBLEM, volume.blocked, advice)
        return
    if volume.location == volume.path:
        yield Finding("volume", Level.OK, volume.path)
    else:
        found = f"{volume.path} does not exist; checked {volume.location} instead"
        advice = (
            "if it is a separate disk, mount it first; otherwise the first run creates the folder"
        )
        yield Finding("volume", Level.WARNING, found, advice)
    if volume.unsafe is not None:
        yield _fail("file system", volume.unsafe, "put the volume on a local disk")
    elif judge(volume.filesystem) is UNKNOWN:
        found = f"{volume.filesystem}, which is untested"
        advice = (
            "make sure that no other host mounts it: all processes that use a ledger must share "
            "one kernel"
        )
        yield Finding("file system", Level.WARNING, found, advice)
    else:
        yield Finding("file system", Level.OK, volume.filesystem)
    if volume.disk is not None:
        yield _judge_space(volume.disk)
        yield _judge_inodes(volume.disk)
    yield from _judge_trials(volume)


def _judge_space(disk: Disk) -> Finding:
    if not disk.size:
        return Finding("space", Level.OK, "the file system does not report its size")
    found = f"{format_size(disk.free)} of {format_size(disk.size)} are free"
    if disk.free < NO_SPACE:
        return Finding("space", Level.PROBLEM, found, "free some space or enlarge the volume")
    if disk.free < LITTLE_SPACE or disk.free < SMALL_SHARE * disk.size:
        advice = "free some space or enlarge the volume before a long run"
        return Finding("space", Level.WARNING, found, advice)
    return Finding("space", Level.OK, found)


def _judge_inodes(disk: Disk) -> Finding:
    if not disk.inodes:
        return Finding("inodes", Level.OK, "the file system does not count them")
    found = f"{disk.free_inodes:,} of {disk.inodes:,} are free"
    advice = "remove small files, or use a volume with more inodes"
    if disk.free_inodes < NO_INODES:
        return Finding("inodes", Level.PROBLEM, found, advice)
    if disk.free_inodes < SMALL_SHARE * disk.inodes:
        return Finding("inodes", Level.WARNING, found, advice)
    return Finding("inodes", Level.OK, found)


def _judge_trials(volume: VolumeFact) -> Iterator[Finding]:
    if volume.writing is not None:
        yield _fail("rights", volume.writing, "make it writable, or name another with --volume")
        return
    tried = "a file was written, synced, renamed, linked and locked"
    yield Finding("rights", Level.OK, tried)
    if volume.lmdb is not None:
        yield _fail("lmdb", volume.lmdb, "put the volume on a local disk")
    elif volume.unsafe is None:
        yield Finding("lmdb", Level.OK, "a small ledger was written and read")
    if volume.lag is not None:
        yield _judge_lag(volume.lag)


def _judge_lag(lag: float) -> Finding:
    if abs(lag) <= MOST_LAG:
        return Finding("file times", Level.OK, "file times agree with the clock")
    where = "behind" if lag < 0 else "ahead of"
    found = f"a new file is {abs(lag):,.0f} s {where} the clock"
    advice = (
        "set the clocks of this machine and of the file server: changed files are detected by "
        "their time"
    )
    return Finding("file times", Level.WARNING, found, advice)


def _examine_ledger(ledger: Ledger) -> Iterator[Finding]:
    yield _judge_ledger(ledger)
    if ledger.shortage is not None:
        name = f"gathering {ledger.pipeline}"
        yield _fail(name, ledger.shortage, "enlarge the volume before the run ends")


def _judge_ledger(ledger: Ledger) -> Finding:
    name = f"ledger {ledger.pipeline}"
    if ledger.failure is not None:
        return _fail(name, ledger.failure, "restore its files from a copy, or move them away")
    level, found, advice = _judge_lease(ledger.lease)
    found += f"; {ledger.finished:,} finished"
    if not ledger.stale:
        return Finding(name, level, found, advice)
    found += f"; dead readers: {', '.join(map(str, ledger.stale))}"
    advice = "dead readers make the file grow until the next run removes them"
    return Finding(name, Level.WARNING, found, advice)


def _judge_lease(lease: Lease | None) -> tuple[Level, str, str]:
    if lease is None:
        return Level.OK, "no attempt has begun", ""
    attempt = f"attempt {lease.attempt}"
    if lease.has_ended:
        return Level.OK, f"{attempt} has ended", ""
    if lease.is_alive:
        return Level.OK, f"{attempt} is running as process {lease.pid}", ""
    advice = "run the pipeline again; it continues where it stopped"
    if lease.is_alive is False:
        return Level.WARNING, f"{attempt} was killed: process {lease.pid} is gone", advice
    # The age may be negative, because the clock of the other host may be ahead.
    ago = f"{max(0.0, lease.age):,.0f} s ago"
    seen = f"{attempt} on another host, container or boot last reported {ago}"
    return (Level.OK, seen, "") if lease.age < RECENT_SECONDS else (Level.WARNING, seen, advice)


def _examine_stages(stages: StagesProbe, machine: Machine) -> Iterator[Finding]:
    cpus = sum(need.workers * need.cpu for need in stages.needs)
    found = f"{machine.cpus} for stages that request at least {cpus:g}"
    shares = "; the stages share them" if cpus > machine.cpus else ""
    yield Finding("cpus", Level.OK, found + shares)
    for sentence in stages.lacks:
        yield _fail("packages", sentence, "install it")
    for sentence in stages.unmet:
        yield _fail("requests", sentence, "request less")
    yield _judge_reservations(stages, machine)
    if stages.failure is not None:
        yield _fail(
            "output", stages.failure, "make it writable, or name another location in the sink"
        )
    else:
        tried = " (a URL, not tried)" if stages.is_url else ""
        yield Finding("output", Level.OK, f"{stages.output}{tried}")


def _judge_reservations(stages: StagesProbe, machine: Machine) -> Finding:
    memory = sum(need.workers * (need.memory or 0) for need in stages.needs)
    usable = machine.usable_memory
    found = f"stages reserve at least {format_size(memory)} of {format_size(usable)}"
    advice = "lower resources.memory or workers.min of the stages, or run on a larger cluster"
    if memory > usable:
        return Finding("reservations", Level.PROBLEM, found, advice)
    if memory > (1 - STORE_SHARE) * usable:
        return Finding("reservations", Level.WARNING, f"{found}; Ray's objects take 30 %", advice)
    return Finding("reservations", Level.OK, found)


def _fail(name: str, sentence: str, otherwise: str) -> Finding:
    """Convert an error message to a problem. The end of the message may be the advice."""
    found, _, advice = sentence.rpartition("; ")
    return Finding(name, Level.PROBLEM, found or sentence, advice if found else otherwise)


def format_size(size: int) -> str:
    """Format a number of bytes for people: 24.1 GB, 64 MB."""
    return f"{size / 1e9:,.1f} GB" if size >= 10**9 else f"{size / 1e6:,.0f} MB"
