"""What a doctor looks at: a machine, a volume, its ledgers and a pipeline, as plain facts.

Neither how they were found nor what they mean is known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Package(NamedTuple):
    """A library or Python itself: its version, None where it is missing, and what is required."""

    version: str | None
    bounds: str


class RayStart(NamedTuple):
    """What came of a small pipeline on a local Ray: its seconds, and why it failed; empty: not."""

    seconds: float
    problem: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, as far as a run on it depends on it.

    Attributes:
        python, ray: what is there.
        cpus: cores that this process may use.
        memory: bytes.
        limit: bytes that the cgroup allows; None without a limit.
        shared_memory: free bytes in /dev/shm; None where there is no such folder.
        open_files: most files that one process may have open.
        time: wall clock, seconds since the epoch.
        free_memory: bytes that no process uses; None where that is not known.
        load: processes that run or wait to, in the mean of a minute.
        temporary: the folder for temporary files, where Ray has logs and what it spills.
        temporary_disk: its disk; None where that is not known.
        token_mode: what RAY_AUTH_MODE says; empty where it is not set.
        has_token: there is one that Ray would show to a cluster.
        ray_start: how it went to run something on a local Ray; None: that was not tried.
    """

    python: Package
    ray: Package
    cpus: int
    memory: int
    limit: int | None
    shared_memory: int | None
    open_files: int
    time: float
    free_memory: int | None = None
    load: float = 0.0
    temporary: str = ""
    temporary_disk: Disk | None = None
    token_mode: str = ""
    has_token: bool = False
    ray_start: RayStart | None = None

    @property
    def usable_memory(self) -> int:
        """Bytes that the processes of a run may take together."""
        return min(self.memory, self.limit or self.memory)


class Disk(NamedTuple):
    """Size and free space in bytes, inodes and free ones; 0 inodes where they are not counted."""

    size: int
    free: int
    inodes: int
    free_inodes: int


@dataclass(frozen=True, slots=True)
class VolumeFact:
    """A volume, or where it would be made.

    Attributes:
        path: the volume.
        location: the folder that was examined: the volume, or the nearest one above that is there.
        blocked: why nothing could be examined.
        filesystem: such as `ext4`.
        unsafe: why a ledger can't live there.
        writing, lmdb: why a trial failed; None where it did not, or was not made.
        lag: seconds by which the time of a fresh file is off the clock; None without a trial.
    """

    path: str
    location: str
    blocked: str | None = None
    filesystem: str = "unknown"
    unsafe: str | None = None
    disk: Disk | None = None
    writing: str | None = None
    lmdb: str | None = None
    lag: float | None = None


class Lease(NamedTuple):
    """The last writer of a ledger.

    Attributes:
        is_alive: whether that process lives; None where that can't be told from this machine.
        age: seconds since it was last heard of.
    """

    attempt: int
    pid: int
    has_ended: bool
    is_alive: bool | None
    age: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger on the volume.

    Attributes:
        failure: why it can't be read.
        stale: left by readers that died.
        shortage: why what was gathered can't be merged.
    """

    pipeline: str
    failure: str | None = None
    lease: Lease | None = None
    finished: int = 0
    stale: tuple[int, ...] = ()
    shortage: str | None = None


class Need(NamedTuple):
    """What the workers of a stage reserve at least: their number, CPUs and bytes of each."""

    stage: str
    workers: int
    cpu: float
    memory: int | None


@dataclass(frozen=True, slots=True)
class StagesProbe:
    """A pipeline: its stages, where it writes, and why it can't; URLs are not tried.

    Attributes:
        lacks: packages that are not installed, a sentence each.
        unmet: what a run on this machine would be refused for, a sentence each.
    """

    needs: tuple[Need, ...]
    output: str
    is_url: bool
    failure: str | None = None
    lacks: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen; `stages` is None where no pipeline was named."""

    machine: Machine
    volume: VolumeFact
    ledgers: tuple[Ledger, ...] = ()
    stages: StagesProbe | None = None
