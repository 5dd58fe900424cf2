"""Being connected to Ray: a local one of our own, an existing one, or the caller's.

Ray tells a driver late, and without a reason, that its own node has died; so this room looks at
the process itself where it has started it.
"""

from __future__ import annotations

# Locks are taken when a fork begins and released when it is over. Loaded by a thread while Ray's
# processes are forked, this lock would be released only, and Python says so with a traceback.
import concurrent.futures.thread  # noqa: F401
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psutil
import ray
from ray.exceptions import RayTaskError

from strandline.engine.ray.local.start import (
    RAYLET,
    find_child,
    is_about_token,
    is_running,
    setting,
    start_local,
    stop_local,
)
from strandline.plan.errors import StrandlineError
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.temporary import owned_folder
from strandline_api.outcome.exit_codes import ExitCode

_USAGE = "RAY_USAGE_STATS_ENABLED"
_ANSWER_SECONDS = 2.0
_MOST_BYTES = 107  # most of a socket's name; the kernel takes no more
# Modules that workers import before they are asked for anything, side by side with the driver.
_MODULES = "RAY_preload_python_modules"
_HERE = __name__.rpartition(".")[0]
_NEEDED = (f"{_HERE}.worker", f"{_HERE}.ledger_actor")


def unwrap(error: RayTaskError) -> Exception:
    """Return what was raised in the actor, as itself."""
    return error.cause if isinstance(error.cause, Exception) else error


def first_line(error: Exception) -> str:
    """Return the first line of what Ray says of a loss; the rest is about its logs."""
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0]


class ClusterRefusedError(StrandlineError):
    """An existing Ray can't be entered as it was asked to; the message says what to set."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


class ClusterLostError(StrandlineError):
    """The local Ray died under the run; what was committed is kept."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to Ray.

    Attributes:
        cpus: CPUs that are free.
        raylet: the process of the local node, where we have started it.
        dashboard: host and port of Ray's own, where the cluster has one.
        capacity: all that a local one of our own has, by kind; None: others may bring more.
    """

    cpus: float
    raylet: psutil.Process | None = None
    dashboard: str | None = None
    capacity: Mapping[str, float] | None = None

    def is_alive(self) -> bool:
        """Return False where the local node is known to have died."""
        return self.raylet is None or is_running(self.raylet)

    def check_alive(self) -> None:
        """Raise a `ClusterLostError` where the local node is known to have died."""
        if not self.is_alive():
            msg = "the local Ray was killed; run again to go on"
            raise ClusterLostError(msg)

    def is_stopping(self, must_stop: Callable[[], bool]) -> bool:
        """Return whether a Ray of this process's own may have been asked to stop as well."""
        return self.raylet is not None and must_stop()


@contextmanager
def connected(
    address: str | None, workers: int | None, modules: Iterable[str] = ()
) -> Iterator[Connection]:
    """Connect to Ray for the time of a run.

    Args:
        address: of an existing cluster, such as `auto` or `ray://head:10001`; None starts a local
            one, unless this process is connected already.
        workers: CPUs of the local one; None: as many as this process may use.
        modules: that processes of a local one import as they start; each must be the same one
            wherever it is imported.

    Raises:
        ConnectionError: there is no cluster at the address.
        ClusterRefusedError: there is one, and it wants something.
        RayStartError: a local one did not start.
        VolumeError: a local one has no room for its sockets' names.
    """
    kept = _KEPT.get()
    if kept is not None and not address:
        yield kept.enter(_choose_cpus(workers), modules)
    elif ray.is_initialized():
        yield Connection(_count_cpus())
    elif address:
        os.environ.setdefault(_USAGE, "0")
        found = _enter(address)
        try:
            yield Connection(_count_cpus(), dashboard=found.dashboard_url or None)
        finally:
            ray.shutdown()
    else:
        with _started(_choose_cpus(workers), modules) as connection:
            yield connection


class _KeptRay:
    """A local Ray that outlives a run, so that the next one need not start it."""

    def __init__(self) -> None:
        self._ray = ExitStack()
        self._connection: Connection | None = None
        self._cpus = 0

    def enter(self, cpus: int, modules: Iterable[str]) -> Connection:
        """Return the connection, of a new one where there is none, or not such a one."""
        known = self._connection
        if known is None or cpus != self._cpus or not known.is_alive():
            self.close()
            # The stages of one run would be loaded by the workers of all.
            of_all = [name for name in modules if name.startswith(_HERE)]
            known = self._ray.enter_context(_started(cpus, of_all))
            self._connection, self._cpus = known, cpus
        return known

    def close(self) -> None:
        """End it."""
        self._connection = None
        self._ray.close()


_KEPT: ContextVar[_KeptRay | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_local() -> Iterator[None]:
    """Have the runs of the block share a local Ray: one that was started ahead, or the first's."""
    kept = _KEPT.get() or _KeptRay()
    _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.set(None)
        kept.close()


def start_ahead(workers: int | None, meanwhile: Callable[[], object]) -> None:
    """Start the local Ray of the next `keeping_local`, as processes that load Python themselves.

    Where that fails, the run that wants it tries again, and says why it can't be had.

    Args:
        workers: see `connected`.
        meanwhile: is called beside it, in a thread; what it raises is passed over.
    """
    kept = _KeptRay()
    beside = threading.Thread(target=_call_quietly, args=(meanwhile,), daemon=True)
    beside.start()
    with suppress(StrandlineError, OSError):
        kept.enter(_choose_cpus(workers), _NEEDED)
        _KEPT.set(kept)
    beside.join()


def _call_quietly(function: Callable[[], object]) -> None:
    with suppress(Exception):
        function()


@contextmanager
def _started(cpus: int, modules: Iterable[str]) -> Iterator[Connection]:
    os.environ.setdefault(_USAGE, "0")
    with owned_folder("ray") as folder:
        _check_length(folder)
        try:
            with setting(_MODULES, ",".join(modules) or None):
                start_local(cpus, folder)
            _silence_raylet()
            yield Connection(_count_cpus(), find_child(RAYLET), capacity=ray.cluster_resources())
        finally:
            stop_local()


def _enter(address: str) -> Any:  # noqa: ANN401 - Ray's context
    if _wants_token(address):
        raise ClusterRefusedError(_describe_token(address))
    try:
        return ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:
        if is_about_token(error):
            raise ClusterRefusedError(_describe_token(address)) from None
        if "ray[client]" in str(error):
            msg = f"{address} needs Ray's client, which is not installed; pip install 'ray[client]'"
            raise ClusterRefusedError(msg) from error
        raise


def _wants_token(address: str) -> bool:
    """Return whether a cluster that answers wants another token; Ray itself asks for 20 s.

    Raises:
        ClusterRefusedError: there is none to show.
    """
    try:
        _take_token(address)
        from ray._private.services import canonicalize_bootstrap_address  # noqa: PLC0415 - private
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # noqa: PLC0415 - private

        found = str(canonicalize_bootstrap_address(address))
        host, _, port = found.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        GcsClient(address=found)
    except ClusterRefusedError:
        raise
    except Exception as error:  # noqa: BLE001 - what else is wrong is seen when it is entered
        return is_about_token(error)
    return False


def _take_token(address: str) -> None:
    """Do about tokens what Ray does as it enters a cluster, and has its client take for done.

    Raises:
        ClusterRefusedError: Ray is to show a token and has none; its client would end this process.
    """
    from ray._private.authentication import authentication_token_setup as ray_tokens  # noqa: PLC0415

    if address == "auto" and hasattr(ray_tokens, "maybe_enable_token_auth_if_token_available"):
        ray_tokens.logger.setLevel(logging.ERROR)  # Ray's warning tells how to do without a token
        ray_tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        ray_tokens.ensure_token_if_auth_enabled(None, create_token_if_missing=False)
    except Exception as error:
        if not is_about_token(error):
            raise
        msg = (
            f"there is no token to show to the Ray at {address}; set RAY_AUTH_TOKEN to the one of"
            " the cluster, RAY_AUTH_TOKEN_PATH to a file with it, or, where it wants none,"
            " RAY_AUTH_MODE=disabled"
        )
        raise ClusterRefusedError(msg) from error


def _describe_token(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        todo = "set RAY_AUTH_TOKEN to it, or RAY_AUTH_TOKEN_PATH to its file"
        return f"the Ray at {address} wants the token of its cluster; {todo}"
    todo = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the one of the cluster"
    return f"the Ray at {address} wants a token; {todo}"


def _check_length(folder: Path) -> None:
    # Ray makes a folder of each session below it, named by the microsecond and this process.
    session = f"session_2026-11-23_09-30-00_123456_{os.getpid()}"
    excess = len(os.fsencode(folder / session / "sockets" / "plasma_store")) - _MOST_BYTES
    if excess > 0:
        path = folder.parent
        share = f"by {excess} of its {len(os.fsencode(path))} bytes"
        msg = (
            f"{path}: the name of this temporary folder is too long for Ray's sockets, {share}; "
            "set TMPDIR to a shorter one, such as /tmp"
        )
        raise VolumeError(msg)


def _silence_raylet() -> None:
    # Ray prints half a page for each lost worker, of which the driver tells in a line itself. Ray
    # has no public switch for that; where the private one is gone, it prints.
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    if worker is not None:
        vars(worker)["_worker_logs_enabled"] = False


def _choose_cpus(workers: int | None) -> int:
    return workers or len(os.sched_getaffinity(0))


def find_capacity(workers: int | None, *, is_whole: bool) -> Mapping[str, float] | None:
    """Return what a local Ray would have, by kind; None where this process is connected already.

    Args:
        workers: CPUs that it is to have; None: as many as this process may use.
        is_whole: more than the CPUs is wanted; None where this Ray does not tell before it starts.
    """
    if ray.is_initialized() and _KEPT.get() is None:
        return None
    from strandline.engine.autoscaler.inputs import CPU  # noqa: PLC0415 - Ray starts before that

    cpus = _choose_cpus(workers)
    if not is_whole:
        return {CPU: float(cpus)}
    try:
        from ray._private.resource_and_label_spec import ResourceAndLabelSpec  # noqa: PLC0415

        seen = ResourceAndLabelSpec(num_cpus=cpus)
        seen.resolve(is_head=True, node_ip_address="127.0.0.1")
        return dict(seen.to_resource_dict())
    except Exception:  # noqa: BLE001 - Ray has no public way, and tells once it is started
        return None


def _count_cpus() -> float:
    return float(ray.available_resources().get("CPU", 0.0))
