"""Connects to Ray: to a local instance, to an existing cluster, or to the caller's instance.

Ray reports the death of a driver's own node late, and without a reason. Therefore, if this process
has started the local node, the module watches the process of the node itself.
"""

from __future__ import annotations

# Import before Ray forks processes. Python acquires a lock of this module before a fork, and
# releases the lock after the fork. An import during a fork would only release the lock and print a
# traceback.
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
_ANSWER_SECONDS = 2.0  # seconds to wait for a response of the cluster
_MOST_BYTES = 107  # maximum length of a socket path in the kernel
# Lists the modules that workers import in advance, while the driver is preparing.
_MODULES = "RAY_preload_python_modules"
_HERE = __name__.rpartition(".")[0]
_NEEDED = (f"{_HERE}.worker", f"{_HERE}.ledger_actor")


def unwrap(error: RayTaskError) -> Exception:
    """Return the error that was raised in the actor."""
    return error.cause if isinstance(error.cause, Exception) else error


def first_line(error: Exception) -> str:
    """Return the first line of Ray's message about a loss. The other lines are about Ray's logs."""
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0]


class ClusterRefusedError(StrandlineError):
    """Raised if an existing Ray cluster rejects the connection. The message states what to set."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


class ClusterLostError(StrandlineError):
    """Raised if the local Ray instance died during the run. Committed work is kept."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to Ray.

    Attributes:
        cpus: number of free CPUs.
        raylet: the process of the local node if this process has started the node; otherwise None.
        dashboard: host and port of Ray's own dashboard; None if the cluster has no dashboard.
        capacity: resources of our own local Ray instance, by kind; None if others may add nodes.
    """

    cpus: float
    raylet: psutil.Process | None = None
    dashboard: str | None = None
    capacity: Mapping[str, float] | None = None

    def is_alive(self) -> bool:
        """Return False if the local node is known to have died."""
        return self.raylet is None or is_running(self.raylet)

    def check_alive(self) -> None:
        """Raise a `ClusterLostError` if the local node is known to have died."""
        if not self.is_alive():
            msg = "the local Ray instance was killed; run the pipeline again to continue"
            raise ClusterLostError(msg)

    def is_stopping(self, must_stop: Callable[[], bool]) -> bool:
        """Return whether our own local Ray instance may have received the same request to stop."""
        return self.raylet is not None and must_stop()


@contextmanager
def connected(
    address: str | None, workers: int | None, modules: Iterable[str] = ()
) -> Iterator[Connection]:
    """Connect to Ray for the duration of a run.

    Args:
        address: address of an existing cluster, such as `auto` or `ray://head:10001`. None starts a
            local Ray instance, unless this process is already connected.
        workers: CPUs of the local Ray instance; None means as many as this process may use.
        modules: modules that processes of a local Ray instance import at their start. A module must
            be the
            same
            in every process.

    Raises:
        ConnectionError: if there is no cluster at the address.
        ClusterRefusedError: if the cluster rejects the connection.
        RayStartError: if a local Ray instance did not start.
        VolumeError: if the path of a local Ray's sockets is too long.
    """
    shared = _SHARED.get()
    if shared is not None and not address:
        yield shared.enter(_choose_cpus(workers), modules)
    elif ray.is_initialized():
        yield Connection(_count_cpus())
    elif address:
        # Do not send usage statistics unless the user allows that.
        os.environ.setdefault(_USAGE, "0")
        found = _enter(address)
        try:
            yield Connection(_count_cpus(), dashboard=found.dashboard_url or None)
        finally:
            ray.shutdown()
    else:
        with _started(_choose_cpus(workers), modules) as connection:
            yield connection


class _SharedRay:
    """A local Ray instance that outlives a run, so that the next run need not start another."""

    def __init__(self) -> None:
        self._ray = ExitStack()
        self._connection: Connection | None = None
        self._cpus = 0

    def enter(self, cpus: int, modules: Iterable[str]) -> Connection:
        """Return the connection. Start a new Ray instance if necessary, or if the CPUs differ.

        Start a new Ray instance if none is running, or if the CPUs differ.
        """
        known = self._connection
        if known is None or cpus != self._cpus or not known.is_alive():
            self.close()
            # Preload only modules of the engine; otherwise the workers of every run would load the
            # stages of one run.
            of_all = [name for name in modules if name.startswith(_HERE)]
            known = self._ray.enter_context(_started(cpus, of_all))
            self._connection, self._cpus = known, cpus
        return known

    def close(self) -> None:
        """End the local Ray instance."""
        self._connection = None
        self._ray.close()


_SHARED: ContextVar[_SharedRay | None] = ContextVar("shared", default=None)


@contextmanager
def sharing_local() -> Iterator[None]:
    """Share a local Ray instance between the runs of the block.

    The first run starts it if needed.
    """
    shared = _SHARED.get() or _SharedRay()
    _SHARED.set(shared)
    try:
        yield
    finally:
        _SHARED.set(None)
        shared.close()


def start_ahead(workers: int | None, meanwhile: Callable[[], object]) -> None:
    """Start the local Ray instance for the next `sharing_local`.

    Its processes load Python in parallel. If the start fails, the run that needs Ray tries again
    and reports the reason.

    Args:
        workers: see `connected`.
        meanwhile: called in a thread during the start; its errors are ignored.
    """
    shared = _SharedRay()
    beside = threading.Thread(target=_call_quietly, args=(meanwhile,), daemon=True)
    beside.start()
    with suppress(StrandlineError, OSError):
        shared.enter(_choose_cpus(workers), _NEEDED)
        _SHARED.set(shared)
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
    """Return whether a responding cluster rejects the token. Ray would retry for 20 s.

    Raises:
        ClusterRefusedError: if no token is set.
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
    """Prepare the token as Ray does when it connects, because Ray's client expects this.

    Raises:
        ClusterRefusedError: if a token is required and missing. Ray's client would end this
            process.
    """
    from ray._private.authentication import authentication_token_setup as ray_tokens  # noqa: PLC0415

    if address == "auto" and hasattr(ray_tokens, "maybe_enable_token_auth_if_token_available"):
        ray_tokens.logger.setLevel(logging.ERROR)  # Ray's warning suggests working without a token
        ray_tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        ray_tokens.ensure_token_if_auth_enabled(None, create_token_if_missing=False)
    except Exception as error:
        if not is_about_token(error):
            raise
        msg = (
            f"no token is set for the Ray cluster at {address}; set RAY_AUTH_TOKEN to the "
            "cluster's token, RAY_AUTH_TOKEN_PATH to a file with the token, or "
            "RAY_AUTH_MODE=disabled if the cluster needs no token"
        )
        raise ClusterRefusedError(msg) from error


def _describe_token(address: str) -> str:
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "token":
        todo = "set RAY_AUTH_TOKEN to the token, or RAY_AUTH_TOKEN_PATH to a file with the token"
        return f"the Ray cluster at {address} requires its own token; {todo}"
    todo = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's token"
    return f"the Ray cluster at {address} requires a token; {todo}"


def _check_length(folder: Path) -> None:
    # Ray creates a subfolder per session, named after the current microsecond and this process.
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
    # Silence Ray, which prints half a page for each lost worker; the driver reports the loss in one
    # line. Ray has no public switch for this. If the private switch disappears, Ray prints again.
    worker = getattr(getattr(ray, "_private", None), "worker", None)
    if worker is not None:
        vars(worker)["_worker_logs_enabled"] = False


def _choose_cpus(workers: int | None) -> int:
    return workers or len(os.sched_getaffinity(0))


def find_capacity(workers: int | None, *, is_whole: bool) -> Mapping[str, float] | None:
    """Return the resources of a future local Ray instance, by kind, or None if already connected.

    Args:
        workers: CPUs of the local Ray instance; None means as many as this process may use.
        is_whole: True to return all resources, False to return only the CPUs. With True, the result
            is
            None if Ray can't report other resources before its start.
    """
    if ray.is_initialized() and _SHARED.get() is None:
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
