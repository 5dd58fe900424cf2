"""The facts that `strandline doctor` judges: a machine, a volume, its ledgers, and a pipeline.

This module must not depend on the collection or the judgment of facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Package(NamedTuple):
    """A library, or Python itself: the installed version or None, and the required versions."""

    version: str | None
    bounds: str


class RayStart(NamedTuple):
    """Result of a small pipeline on a local Ray instance: seconds, and the problem if any."""

    seconds: float
    problem: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The properties of a machine that matter for a run.

    Attributes:
        python, ray: the installed versions.
        cpus: cores that this process may use.
        memory: bytes of memory.
        limit: bytes that the cgroup allows, or None if there is no limit.
        shared_memory: free bytes in /dev/shm, or None if the folder is missing.
        open_files: maximum number of open files per process.
        time: wall clock, in seconds since the epoch.
        free_memory: bytes available to new processes, or None if unknown.
        load: number of running or waiting processes, averaged over a minute.
        temporary: the folder for temporary files, where Ray writes logs and spilled objects.
        temporary_disk: the disk of that folder, or None if unknown.
        token_mode: value of RAY_AUTH_MODE, or empty if unset.
        has_token: whether Ray has a token to send to a cluster.
        ray_start: result of a trial run on a local Ray instance, or None if there was no trial.
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
        """Bytes of memory that all processes of a run together can use."""
        return min(self.memory, self.limit or self.memory)


class Disk(NamedTuple):
    """Total and free space of a disk in bytes, and total and free inodes.

    Inodes are 0 if the file system does not count them.
    """

    size: int
    free: int
    inodes: int
    free_inodes: int


@dataclass(frozen=True, slots=True)
class VolumeFact:
    """A volume, or the location where the volume would be created.

    Attributes:
        path: the volume.
        location: the examined folder: the volume, or its nearest existing parent.
        blocked: why nothing could be examined, or None.
        filesystem: type of the file system, such as `ext4`.
        unsafe: why the file system is unsafe for a ledger, or None.
        writing, lmdb: why a trial failed, or None if it succeeded or did not run.
        lag: modification time of a new file minus the clock, in seconds, or None if there is no
            trial.
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
        is_alive: whether the process is alive, or None if this machine can't find out.
        age: seconds since the lease was last renewed.
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
        failure: why the ledger can't be read, or None.
        stale: pids of dead readers that are still registered.
        shortage: why gathered statistics can't be merged, or None.
    """

    pipeline: str
    failure: str | None = None
    lease: Lease | None = None
    finished: int = 0
    stale: tuple[int, ...] = ()
    shortage: str | None = None


class Need(NamedTuple):
    """The minimum reservation of a stage: number of workers, and CPUs and bytes per worker."""

    stage: str
    workers: int
    cpu: float
    memory: int | None


@dataclass(frozen=True, slots=True)
class StagesProbe:
    """Facts about a pipeline: the needs of its stages, and the location of its outputs.

    Attributes:
        failure: why the location is not writable, or None. URLs are not tried.
        lacks: a sentence for each missing package.
        unmet: a sentence for each reason that a run on this machine would be rejected.
    """

    needs: tuple[Need, ...]
    output: str
    is_url: bool
    failure: str | None = None
    lacks: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts. `stages` is None if no pipeline was given."""

    machine: Machine
    volume: VolumeFact
    ledgers: tuple[Ledger, ...] = ()
    stages: StagesProbe | None = None
