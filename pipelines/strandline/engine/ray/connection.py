"""Being connected to Ray: a local one of our own, an existing one, or the caller's.

Ray tells a driver late, and without a reason, that its own node has died; so this room looks at
the process itself where it has started it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import psutil
import ray
from ray.exceptions import RayTaskError

from strandline.engine.autoscaler.inputs import CPU
from strandline.plan.errors import StrandlineError
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.temporary import owned_folder
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode

_NODE_SECONDS = 0.02
_PORT_MILLISECONDS = 500
_ANSWER_SECONDS = 2.0
_MOST_BYTES = 107  # of a socket's name; the kernel takes no more
_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # by which `ray job submit` hands a job its environment
# What workers import before they are asked for anything, side by side with the driver.
_MODULES = "RAY_preload_python_modules"


def unwrap(error: RayTaskError) -> Exception:
    """Return what was raised in the actor, as itself."""
    return error.cause if isinstance(error.cause, Exception) else error


def first_line(error: Exception) -> str:
    """Return the first line of what Ray says of a loss; the rest is about its logs."""
    text = str(error).strip() or type(error).__name__
    return text.partition("\n")[0]


START_SECONDS = 180.0  # Ray's own wait, 30 s, is too short on a machine that is busy
_MOST_TIMES = 5.0  # of it, where others leave us less than a CPU
_TRIES = 3  # to start one whose processes die as they begin; nothing is lost by that
_GCS, _RAYLET = "gcs_server", "raylet"


class RayStartError(StrandlineError):
    """The local Ray did not start; the message says why, and another attempt may have it.

    Attributes:
        cause: it was waited for in vain; None: Ray itself said what is wrong.
    """

    cause: Cause | None = None


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
        return self.raylet is None or _lives(self.raylet)

    def check_alive(self) -> None:
        """Raise a `ClusterLostError` where the local node is known to have died."""
        if not self.is_alive():
            msg = "the local Ray was killed; run again to go on"
            raise ClusterLostError(msg)


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
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        yield Connection(_count_cpus())
    elif address:
        found = _enter(address)
        try:
            yield Connection(_count_cpus(), dashboard=found.dashboard_url or None)
        finally:
            ray.shutdown()
    else:
        with _started(_choose_cpus(workers), modules) as connection:
            yield connection


@contextmanager
def _started(cpus: int, modules: Iterable[str]) -> Iterator[Connection]:
    with owned_folder("ray") as folder:
        _check_length(folder)
        try:
            with _setting(_MODULES, ",".join(modules) or None):
                start_local(cpus, folder)
            _silence_raylet()
            yield Connection(_count_cpus(), _find_child(_RAYLET), capacity=ray.cluster_resources())
        finally:
            ray.shutdown()


def start_local(cpus: int, folder: Path, **options: Any) -> Any:  # noqa: ANN401 - Ray's own
    """Start a local Ray and enter it, again where one of its processes dies as it begins.

    Args:
        cpus: that it is to have.
        folder: for its files and sockets.
        options: more of `ray.init`'s.

    Returns:
        Ray's context.

    Raises:
        RayStartError: it did not start.
    """
    seconds = choose_start_limit(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    for tries_left in reversed(range(_TRIES)):
        before = set(psutil.Process().children())
        try:
            # A local Ray must not take over what this process was given as a job of another. It
            # would look for files that only the other has, and install once more, for minutes,
            # what is installed where this process runs.
            with _waiting_for_node(seconds), _setting(_JOB, None):
                return _init(cpus, folder, _USUAL | options)
        except Exception as error:
            # Ray knows no more of what it had begun, and a notebook would keep that for ever.
            _kill(set(psutil.Process().children()) - before)
            if isinstance(error, _ProcessDiedError) and tries_left:
                continue
            failed = RayStartError(_describe_start(error, seconds))
            failed.is_lasting = isinstance(error, PermissionError)
            failed.cause = Cause.SCHEDULING_TIMEOUT if _is_late(error) else None
            raise failed from error
    raise AssertionError  # the last try returns or raises


_USUAL = {"include_dashboard": False, "logging_level": logging.ERROR, "log_to_driver": False}
_NOBODY = "127.0.0.1:9"  # the port of what is discarded


def _init(cpus: int, folder: Path, options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Ray's own
    with ExitStack() as stack:
        for module, name, stand_in in _list_unneeded(options):
            stack.enter_context(_replaced(module, name, partial(_take_other, stand_in)))
        # Local whatever RAY_ADDRESS says.
        context = ray.init(address="local", num_cpus=cpus, _temp_dir=str(folder), **options)
    if not options["include_dashboard"]:
        _name_dashboard(_NOBODY)
    return context


def _list_unneeded(options: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield functions of Ray's own that start what nobody here asks anything, and stand-ins.

    Each such process loads Ray in Python while the first workers do, and is waited for at the end.
    """
    yield "node.Node", "start_monitor", _start_nothing  # of clusters that grow
    if not options["log_to_driver"]:
        yield "node.Node", "start_log_monitor", _start_nothing
    if not options["include_dashboard"]:
        yield "node.Node", "start_api_server", _start_nothing
        # So Ray's agent serves none either, as where Ray is installed without what that takes.
        yield "utils", "get_dashboard_dependency_error", lambda: ImportError("not asked for")


def _take_other(stand_in: Callable[..., Any], _: object) -> Callable[..., Any]:
    return stand_in


def _start_nothing(*_: object, **__: object) -> None:
    """Stand in for a start of Ray's own."""


def _name_dashboard(address: str) -> None:
    """Tell Ray's agent where a dashboard is: until it knows, it asks and complains each second."""
    with suppress(Exception):  # where a version has it otherwise; it only fills a log
        from ray._private import ray_constants  # noqa: PLC0415 - private
        from ray.experimental.internal_kv import _internal_kv_put  # noqa: PLC0415 - private

        where = ray_constants.KV_NAMESPACE_DASHBOARD
        _internal_kv_put(ray_constants.DASHBOARD_ADDRESS, address, namespace=where)


def choose_start_limit(load: float, cpus: int) -> float:
    """Return the seconds that a local Ray may take to start: more where it has to share.

    Args:
        load: processes that want a CPU, over the last minute.
        cpus: that this process may use.
    """
    return START_SECONDS * min(max(load / cpus, 1.0), _MOST_TIMES)


@contextmanager
def _setting(variable: str, value: str | None) -> Iterator[None]:
    """Set a variable of the environment, or unset it, for what is started meanwhile."""
    before = os.environ.pop(variable, None)
    if value is not None:
        os.environ[variable] = value
    try:
        yield
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


class _ProcessDiedError(Exception):
    """A process of the local Ray died before it was ready."""


@contextmanager
def _waiting_for_node(seconds: float) -> Iterator[None]:
    """Have Ray wait longer for its own processes, and only while they live.

    It has no setting for either: it waits for a dead one as for one that is slow, and where it
    does so no signal reaches Python.
    """
    until = time.monotonic() + seconds
    with (
        _replaced("services", "get_node", lambda ask: partial(_ask_again, ask, _RAYLET, until)),
        _replaced("node", "wait_for_persisted_port", lambda ask: partial(_wait_port, ask, until)),
    ):
        yield


@contextmanager
def _replaced(module: str, name: str, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace a function of Ray's own, where this version has it."""
    within = ray
    for part in ("_private", *module.split(".")):
        within = getattr(within, part, None)
    original = getattr(within, name, None)
    if original is None:
        yield
        return
    setattr(within, name, replace(original))
    try:
        yield
    finally:
        setattr(within, name, original)


def _wait_port(ask: Callable[..., Any], until: float, *words: Any, **_: Any) -> Any:  # noqa: ANN401 - Ray's own
    return _ask_again(partial(ask, timeout_ms=_PORT_MILLISECONDS), _GCS, until, *words)


def _ask_again(ask: Callable[..., Any], process: str, until: float, *words: Any) -> Any:  # noqa: ANN401 - Ray's own
    """Ask until there is an answer, it is too late, or who should give it has died."""
    while True:
        try:
            return ask(*words)
        except RuntimeError:  # it is not there yet
            if not _lives(_find_child(process)):
                msg = f"its {process} died as it began"
                raise _ProcessDiedError(msg) from None
            if time.monotonic() > until:
                raise
            time.sleep(_NODE_SECONDS)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            for below in process.children(recursive=True):
                below.kill()
            process.kill()


def _is_late(error: Exception) -> bool:
    return "timed out" in str(error).lower()


def _describe_start(error: Exception, seconds: float) -> str:
    if isinstance(error, PermissionError):  # its token is kept at home
        todo = "set HOME, or TMPDIR, to a folder that may be written to"
        return f"the local Ray did not start, without the right to write {error.filename}; {todo}"
    advice = "`strandline doctor` looks at the machine, and --workers 1 has Ray start less"
    if _is_late(error):
        why = f"within {seconds:.0f} s, as where a machine is busy or full"
        return f"the local Ray did not start {why}; {advice}"
    return f"the local Ray did not start: {first_line(error).rstrip('.')}; {advice}"


def _enter(address: str) -> Any:  # noqa: ANN401 - Ray's context
    if _wants_token(address):
        raise ClusterRefusedError(_describe_token(address))
    try:
        return ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:
        if _is_about_token(error):
            raise ClusterRefusedError(_describe_token(address)) from None
        if "ray[client]" in str(error):
            msg = f"{address} needs Ray's client, which is not installed; pip install 'ray[client]'"
            raise ClusterRefusedError(msg) from error
        raise


def _wants_token(address: str) -> bool:
    """Return whether a cluster that answers wants another token; Ray itself asks for 20 s."""
    try:
        from ray._private.services import canonicalize_bootstrap_address  # noqa: PLC0415 - private
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # noqa: PLC0415 - private

        found = str(canonicalize_bootstrap_address(address))
        host, _, port = found.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
        GcsClient(address=found)
    except Exception as error:  # noqa: BLE001 - what else is wrong is seen when it is entered
        return _is_about_token(error)
    return False


def _is_about_token(error: Exception) -> bool:
    return type(error).__name__ == "AuthenticationError"


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
    # It prints half a page for each lost worker, of which the driver tells in a line itself. Ray
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
    if ray.is_initialized():
        return None
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


def _find_child(name: str) -> psutil.Process | None:
    children = psutil.Process().children()
    return next((child for child in children if child.name() == name), None)


def _lives(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.is_running() and not _is_zombie(process)
    except psutil.NoSuchProcess:
        return False


def _is_zombie(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)
