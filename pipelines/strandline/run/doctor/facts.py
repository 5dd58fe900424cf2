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
    """

    python: Package
    ray: Package
    cpus: int
    memory: int
    limit: int | None
    shared_memory: int | None
    open_files: int
    time: float

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
class Volume:
    """A volume, or where it would be made.

    Attributes:
        path: the volume.
        place: the folder that was examined: the volume, or the nearest one above that is there.
        blocked: why nothing could be examined.
        filesystem: such as `ext4`.
        unsafe: why a ledger can't live there.
        writing, lmdb: why a trial failed; None where it did not, or was not made.
        lag: seconds by which the time of a fresh file is off the clock; None without a trial.
    """

    path: str
    place: str
    blocked: str | None = None
    filesystem: str = "unknown"
    unsafe: str | None = None
    disk: Disk | None = None
    writing: str | None = None
    lmdb: str | None = None
    lag: float | None = None


class Lease(NamedTuple):
    """Who wrote a ledger last.

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
        stale: whose readers died.
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
class Work:
    """A pipeline: its stages, where it writes, and why it can't; URLs are not tried."""

    needs: tuple[Need, ...]
    output: str
    is_url: bool
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen; `work` is None where no pipeline was named."""

    machine: Machine
    volume: Volume
    ledgers: tuple[Ledger, ...] = ()
    work: Work | None = None
