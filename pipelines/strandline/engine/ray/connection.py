"""Being connected to Ray: a local one of our own, an existing one, or the caller's.

Ray tells a driver late, and without a reason, that its own node has died; so this room looks at
the process itself where it has started it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import ray
from ray.exceptions import RayTaskError

from strandline.plan.errors import StrandlineError
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.temporary import owned_folder

_MOST_BYTES = 107  # of a socket's name; the kernel takes no more


def unwrap(error: RayTaskError) -> Exception:
    """What was raised in the actor, as itself."""
    return error.cause if isinstance(error.cause, Exception) else error


def first_line(error: Exception) -> str:
    """The first line of what Ray says of a loss; the rest is about its logs."""
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0]


class ClusterLostError(StrandlineError):
    """The local Ray died under the run; what was committed is kept."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to Ray.

    Attributes:
        cpus: CPUs that are free.
        raylet: the process of the local node, where we have started it.
        dashboard: host and port of Ray's own, where the cluster has one.
    """

    cpus: float
    raylet: psutil.Process | None = None
    dashboard: str | None = None

    def is_alive(self) -> bool:
        """False where the local node is known to have died."""
        if self.raylet is None:
            return True
        try:
            return self.raylet.is_running() and self.raylet.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def check_alive(self) -> None:
        """Raise a `ClusterLostError` where the local node is known to have died."""
        if not self.is_alive():
            msg = "the local Ray was killed; run again to go on"
            raise ClusterLostError(msg)


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[Connection]:
    """Connect to Ray for the time of a run.

    Args:
        address: of an existing cluster, such as `auto` or `ray://head:10001`; None starts a local
            one, unless this process is connected already.
        workers: CPUs of the local one; None: as many as this process may use.

    Raises:
        ConnectionError: there is no cluster at the address.
        VolumeError: a local one has no room for its sockets' names.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        yield Connection(_count_cpus())
    elif address:
        found = ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        try:
            yield Connection(_count_cpus(), dashboard=found.dashboard_url or None)
        finally:
            ray.shutdown()
    else:
        with _started(workers or len(os.sched_getaffinity(0))) as connection:
            yield connection


@contextmanager
def _started(cpus: int) -> Iterator[Connection]:
    with owned_folder("ray") as folder:
        _check_length(folder)
        try:
            ray.init(
                num_cpus=cpus,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=str(folder),
            )
            _silence_raylet()
            yield Connection(_count_cpus(), _find_raylet())
        finally:
            ray.shutdown()


def _check_length(folder: Path) -> None:
    # Ray makes a folder of each session below it, named by the microsecond and this process.
    session = f"session_2026-11-23_09-30-00_123456_{os.getpid()}"
    excess = len(os.fsencode(folder / session / "sockets" / "plasma_store")) - _MOST_BYTES
    if excess > 0:
        place = folder.parent
        share = f"by {excess} of its {len(os.fsencode(place))} bytes"
        msg = (
            f"{place}: the name of this temporary folder is too long for Ray's sockets, {share}; "
            "set TMPDIR to a shorter one, such as /tmp"
        )
        raise VolumeError(msg)


def _silence_raylet() -> None:
    # It prints half a page for each lost worker, of which the driver tells in a line itself. Ray
    # has no public switch for that; where the private one is gone, it prints.
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    if worker is not None:
        vars(worker)["_worker_logs_enabled"] = False


def _count_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0.0))


def _find_raylet() -> psutil.Process | None:
    children = psutil.Process().children()
    return next((child for child in children if child.name() == "raylet"), None)
