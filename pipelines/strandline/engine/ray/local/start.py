"""Starts a local Ray instance with only the necessary processes and without idle waits.

Ray has few settings for this. Therefore, this module replaces some of Ray's private functions
during the start, but only in versions that were tested. Other versions start normally. The module
must not depend on how the running Ray is used.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import ray

from strandline.engine.ray.local.dropped_exits import repeating_exits
from strandline.plan.errors import StrandlineError
from strandline_api.outcome.causes import Cause

# Range of versions, inclusive, that `make ray-versions` has tested with the replaced functions.
_OLDEST, _NEWEST = (2, 50), (2, 60)
START_SECONDS = 180.0  # Ray's own limit of 30 s is too short on a busy machine
_MOST_TIMES = 5.0  # maximum factor of the limit, if other processes use the CPUs
_TRIES = 3  # maximum starts if Ray dies early; retries are harmless
RAYLET = "raylet"
_GCS = "gcs_server"
_NODE_SECONDS = 0.02  # interval between polls
_PORT_MILLISECONDS = 500  # timeout of a single poll
_ANSWER_SECONDS = 2.0  # timeout for the list of nodes
_END_SECONDS = 1.0  # time for workers to exit after Ray's end
# Matches a fatal line of Ray's C++ log: `[time, level, pid, tid] file.cc:12: what is wrong`.
_FATAL = re.compile(r"^\[[^\]]* [FC] [^\]]*\] (?:\([^)]*\) )?[\w.]+:\d+: +(.+)$", re.MULTILINE)
_VERSION = re.compile(r"(\d+)\.(\d+)\.")
_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # `ray job submit` sets this for the jobs that it starts


class RayStartError(StrandlineError):
    """Raised with the reason if the local Ray instance did not start; a retry may succeed."""

    cause: Cause | None = Cause.RAY_NOT_STARTED


def start_local(cpus: int, folder: Path, **options: Any) -> Any:  # noqa: ANN401 - Ray's own
    """Start a local Ray instance and connect to it. Retry if one of Ray's processes dies early.

    Args:
        cpus: CPUs of the local Ray instance.
        folder: folder for Ray's files and sockets.
        options: further options of `ray.init`.

    Returns:
        Ray's context.

    Raises:
        RayStartError: if Ray did not start.
    """
    seconds = None
    if replaces_functions(ray.__version__):
        seconds = choose_start_limit(os.getloadavg()[0], len(os.sched_getaffinity(0)))
    for tries_left in reversed(range(_TRIES)):
        # Remember the caller's own children: if the start fails, only other processes are killed.
        before = set(psutil.Process().children())
        try:
            # Unset the job configuration of another Ray instance. With it, a local Ray instance
            # would search for files that only the other Ray has, and spend minutes installing
            # packages that are already installed here.
            with setting(_JOB, None), repeating_exits():
                if seconds is None:
                    return _init(cpus, folder, _USUAL | options)
                with waiting_for_node(seconds):
                    is_first = tries_left == _TRIES - 1
                    return _init_small(cpus, folder, _USUAL | options, is_first=is_first)
        except Exception as error:
            # Kill the processes of a failed start: Ray forgets them, so in a notebook they would
            # run on.
            kill_trees(set(psutil.Process().children()) - before)
            if isinstance(error, _ProcessDiedError) and tries_left:
                continue
            failed = RayStartError(_describe_start(error, seconds, read_last_error(folder)))
            failed.is_lasting = isinstance(error, PermissionError) or is_about_token(error)
            raise failed from error
    raise AssertionError  # unreachable: the last try returns or raises


def replaces_functions(version: str) -> bool:
    """Return whether this module replaces functions when this version of Ray starts.

    Args:
        version: Ray's own version string, such as `2.60.0`.
    """
    found = _VERSION.match(version)
    return found is not None and _OLDEST <= (int(found[1]), int(found[2])) <= _NEWEST


def stop_local() -> None:
    """Disconnect from our local Ray instance and end it, including workers that hang during exit.

    A worker that still has data to send at its exit may wait for itself forever. Ray has already
    disconnected from such a worker, and does not kill it.
    """
    raylet, workers = find_child(RAYLET), list[psutil.Process]()
    with suppress(psutil.Error):  # the process has died, and its workers end with it
        workers = raylet.children(recursive=True) if raylet is not None else []
    ray.shutdown()
    _, left = psutil.wait_procs(workers, timeout=_END_SECONDS)
    kill_trees(left)


_USUAL = {"include_dashboard": False, "logging_level": logging.ERROR, "log_to_driver": False}
# Ray's default interval of reports to its dashboard takes a sixth of the time of a small call.
_EVENTS = "RAY_task_events_report_interval_ms"
_NOBODY = "127.0.0.1:9"  # the discard port, where no service listens


def _init(cpus: int, folder: Path, options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Ray's own
    # Start a local Ray instance even if RAY_ADDRESS is set.
    return ray.init(address="local", num_cpus=cpus, _temp_dir=str(folder), **options)


def _init_small(cpus: int, folder: Path, options: Mapping[str, Any], *, is_first: bool) -> Any:  # noqa: ANN401 - Ray's own
    with ExitStack() as stack:
        for module, name, stand_in in _list_unneeded(options):
            stack.enter_context(_replaced(module, name, partial(_take_other, stand_in)))
        if not options["include_dashboard"]:
            if is_first:  # a retry uses Ray's own agent, in case this version needs it
                replace = partial(_replace_agent, folder / _AGENT_FILE)
                stack.enter_context(_replaced("services", _INTERPRETER, replace))
            stack.enter_context(setting(_EVENTS, os.environ.get(_EVENTS, "0")))
        context = _init(cpus, folder, options)
    if not options["include_dashboard"]:
        _name_dashboard(_NOBODY)
    return context


def _list_unneeded(options: Mapping[str, Any]) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield functions of Ray that start unneeded services, each with a replacement.

    Each service is a process that would load Ray at the same time as the first workers, and would
    delay the end.
    """
    yield "node.Node", "start_monitor", _start_nothing  # only for clusters that grow
    yield "utils", "set_sigterm_handler", _set_patient_handler
    if not options["log_to_driver"]:
        yield "node.Node", "start_log_monitor", _start_nothing
    if not options["include_dashboard"]:
        yield "node.Node", "start_api_server", _start_nothing
        # Prevent a dashboard in Ray's agent too: simulate missing dependencies.
        yield "utils", "get_dashboard_dependency_error", lambda: ImportError("not asked for")


def _take_other(stand_in: Callable[..., Any], _: object) -> Callable[..., Any]:
    return stand_in


def _start_nothing(*_: object, **__: object) -> None:
    """Do nothing, in place of a function of Ray that starts a process."""


# Modules with callbacks that Python may run after a fork, or between any two lines of other code.
_CALLED_BACK = frozenset({"importlib._bootstrap", "logging", "random", "threading", "weakref"})
_AGAIN_SECONDS = 0.05


def _set_patient_handler(handler: Callable[[int, FrameType | None], object]) -> None:
    """Install Ray's SIGTERM handler, which ends the process with an exception."""
    signal.signal(signal.SIGTERM, partial(_answer_patiently, handler))


def _answer_patiently(
    handler: Callable[[int, FrameType | None], object], number: int, frame: FrameType | None
) -> None:
    # Send the signal again later: Python would print and drop an exception that is raised in a
    # callback, and the request to end would be lost.
    if frame is not None and frame.f_globals.get("__name__") in _CALLED_BACK:
        threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number)).start()
        return
    handler(number, frame)


_INTERPRETER = "_build_python_executable_command_memory_profileable"
_AGENT, _AGENT_FILE = "dashboard_agent", "agent.py"
_AGENT_PORTS = (
    "METRICS_AGENT_PORT_NAME",
    "METRICS_EXPORT_PORT_NAME",
    "DASHBOARD_AGENT_LISTEN_PORT_NAME",
)
# A program that announces no ports, like an agent that serves nothing, and runs as long as the
# node.
_AGENT_CODE = """\
import os, sys, time
given = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
for name in {names}:
    path = os.path.join(given["session-dir"], name + "_" + given["node-id"])
    with open(path + ".new", "w") as file:
        file.write("-1")
    os.rename(path + ".new", path)
node = int(os.environ.get("RAY_RAYLET_PID") or os.getppid())  # it may be gone already
while os.getppid() == node:
    time.sleep(0.5)
"""


def _replace_agent(path: Path, build: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Replace the node's first agent, which serves nothing here, with a program of a few lines.

    Ray's own agent would load Ray without need. It would do so at the same time as the second
    agent, and the node waits for both.

    Args:
        path: file for the program.
        build: Ray's own function, which builds the start of a command line.
    """
    raylet = getattr(ray, "_raylet", None)
    names = [getattr(raylet, constant, None) for constant in _AGENT_PORTS]
    if None in names:  # in this version, nodes do not wait for the ports of agents
        return build
    path.parent.mkdir(parents=True, exist_ok=True)  # Ray creates the folder later
    path.write_text(_AGENT_CODE.format(names=names), encoding="ascii")

    def build_command(component: str, *words: Any, **options: Any) -> list[str]:  # noqa: ANN401 - Ray's own
        if component == _AGENT:
            return [sys.executable, "-I", "-S", str(path)]
        return build(component, *words, **options)

    return build_command


def _name_dashboard(address: str) -> None:
    """Announce a dashboard address to Ray's agent.

    Without an address, the agent logs an error every second.
    """
    with suppress(Exception):  # in another version this may fail, which only fills a log
        from ray._private import ray_constants  # noqa: PLC0415 - private
        from ray.experimental.internal_kv import _internal_kv_put  # noqa: PLC0415 - private

        where = ray_constants.KV_NAMESPACE_DASHBOARD
        _internal_kv_put(ray_constants.DASHBOARD_ADDRESS, address, namespace=where)


def choose_start_limit(load: float, cpus: int) -> float:
    """Return the seconds that a local Ray instance may take to start.

    A busy machine gets more time.

    Args:
        load: average number of processes that requested a CPU over the last minute.
        cpus: CPUs that this process may use.
    """
    return START_SECONDS * min(max(load / cpus, 1.0), _MOST_TIMES)


@contextmanager
def setting(variable: str, value: str | None) -> Iterator[None]:
    """Set or unset an environment variable for processes that are started in the block."""
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
    """Raised if a process of the local Ray instance died before it was ready."""


@contextmanager
def waiting_for_node(seconds: float) -> Iterator[None]:
    """Make Ray wait longer for its own processes, but only while they live.

    Ray has no setting for this. Ray waits for a dead process as long as for a slow process, and
    during the wait, Python receives no signals.
    """
    until = time.monotonic() + seconds
    with (
        _replaced("services", "get_node", lambda ask: partial(_ask_node, ask, until)),
        _replaced("node", "wait_for_persisted_port", lambda ask: partial(_wait_port, ask, until)),
    ):
        yield


@contextmanager
def _replaced(module: str, name: str, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace one of Ray's private functions within the block, if this version has the function."""
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


def _ask_node(ask: Callable[..., Any], until: float, gcs: str, node: str, *words: Any) -> Any:  # noqa: ANN401 - Ray's own
    """Query a node once it exists.

    Ray itself would poll only once a second, and block signals meanwhile.
    """
    with suppress(Exception):  # in another version this may fail; then use Ray's own wait
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # noqa: PLC0415 - private

        list_nodes = partial(GcsClient(address=gcs).get_all_node_info, timeout=_ANSWER_SECONDS)
        _await_node(list_nodes, node, until)
    return _ask_again(ask, RAYLET, until, gcs, node, *words)


def _await_node(list_nodes: Callable[[], Iterable[Any]], node: str, until: float) -> None:
    """Wait until a node is listed, the raylet has died, or the time is up."""
    while time.monotonic() < until and is_running(find_child(RAYLET)):
        if any(found.hex() == node for found in list_nodes()):
            return
        time.sleep(_NODE_SECONDS)


def _wait_port(ask: Callable[..., Any], until: float, *words: Any, **_: Any) -> Any:  # noqa: ANN401 - Ray's own
    return _ask_again(partial(ask, timeout_ms=_PORT_MILLISECONDS), _GCS, until, *words)


def _ask_again(ask: Callable[..., Any], process: str, until: float, *words: Any) -> Any:  # noqa: ANN401 - Ray's own
    """Retry `ask` until it returns, the time is up, or the process that responds has died."""
    while True:
        try:
            return ask(*words)
        except RuntimeError:  # Ray is not ready yet
            if not is_running(find_child(process)):
                msg = f"its {process} died at the start"
                raise _ProcessDiedError(msg) from None
            if time.monotonic() > until:
                raise
            time.sleep(_NODE_SECONDS)


def kill_trees(processes: Iterable[psutil.Process]) -> None:
    """Kill processes and all their descendants."""
    for process in processes:
        with suppress(psutil.Error):
            # Kill descendants first: if a parent dies, its children get another parent and are not
            # found.
            for below in process.children(recursive=True):
                below.kill()
            process.kill()


def is_about_token(error: Exception) -> bool:
    """Return whether the error is a missing or wrong token of a cluster."""
    return type(error).__name__ == "AuthenticationError"  # older versions lack the class


def _is_late(error: Exception) -> bool:
    return "timed out" in str(error).lower()


def read_last_error(folder: Path) -> str:
    """Return the last fatal error in the logs of a folder's newest session, or an empty string.

    Other errors are ignored, because a Ray instance that starts successfully logs errors too.
    """
    with suppress(OSError, ValueError):  # the session is missing, or is being removed
        session = max(folder.glob("session_*/logs"), key=lambda path: path.stat().st_mtime)
        for name in ("raylet", "gcs_server"):
            for suffix in (".out", ".err"):
                path = session / f"{name}{suffix}"
                found = _FATAL.findall(path.read_text(errors="replace")) if path.exists() else []
                if found:
                    return f"{name}: {found[-1].strip()}"
    return ""


def _describe_start(error: Exception, seconds: float | None, log: str) -> str:
    if isinstance(error, PermissionError):  # Ray stores its token in the home folder
        todo = "set HOME, or TMPDIR, to a writable folder"
        return f"the local Ray did not start: no permission to write {error.filename}; {todo}"
    if is_about_token(error):
        why = getattr(error, "message", str(error))  # omits Ray's advice, which is about clusters
        return (
            f"the local Ray did not start: {why}; unset RAY_AUTH_TOKEN_PATH, and Ray creates a "
            "token"
        )
    log = f"; its log ends with: {log}" if log else ""
    advice = (
        "`strandline doctor` checks the machine, and --workers 1 makes Ray start fewer processes"
    )
    if _is_late(error):
        # If there is no limit of ours, Ray's own limit applies, which is unknown here.
        limit = "in time" if seconds is None else f"within {seconds:.0f} s"
        why = f"{limit}, for example because the machine is busy or its disk is full"
        return f"the local Ray did not start {why}{log}; {advice}"
    why = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
    return f"the local Ray did not start: {why}{log}; {advice}"


def find_child(name: str) -> psutil.Process | None:
    """Return this process's child with that name, if any."""
    children = psutil.Process().children()
    return next((child for child in children if child.name() == name), None)


def is_running(process: psutil.Process | None) -> bool:
    """Return whether a process is running. A zombie is not."""
    try:
        return process is not None and process.is_running() and not _is_zombie(process)
    except psutil.NoSuchProcess:
        return False


def _is_zombie(process: psutil.Process) -> bool:
    return bool(process.status() == psutil.STATUS_ZOMBIE)
