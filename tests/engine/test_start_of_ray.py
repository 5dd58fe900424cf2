"""The start of a local Ray that is slow or fails, and of a cluster that requires authentication."""

from __future__ import annotations

import errno
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray._private import node, ray_constants, services
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray._raylet import (  # type: ignore[attr-defined]
    DASHBOARD_AGENT_LISTEN_PORT_NAME as LISTEN_PORT_NAME,
)
from ray._raylet import (  # type: ignore[attr-defined]
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    wait_for_persisted_port,
)

from strandline.engine.ray.connection import (
    ClusterRefusedError,
    connected,
    sharing_local,
    start_ahead,
)
from strandline.engine.ray.engine import list_modules
from strandline.engine.ray.local import start as local_start
from strandline.engine.ray.local.start import (
    START_SECONDS,
    RayStartError,
    choose_start_limit,
    read_last_error,
)
from strandline.plan.errors import code_of
from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.stage import Stage
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sources.files import Files
from strandline_packs.tables.read_files import ReadFiles

ADVICE = "; `strandline doctor` checks the machine, and --workers 1 makes Ray start fewer processes"
NODE = "ab" * 28
MODULES = "RAY_preload_python_modules"
SLOW = "The current node timed out during startup. This could happen because some of the raylet"


class AuthenticationError(Exception):
    """A class with the name of an error of newer versions of Ray."""


def begin(error: Exception, begun: list[subprocess.Popen[bytes]]) -> Callable[..., None]:
    """Return a `ray.init` that starts a process and then fails."""

    def init(**_: object) -> None:
        begun.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        raise error

    return init


def refuse(error: Exception) -> Callable[..., None]:
    """Return a `ray.init` that fails."""

    def init(**_: object) -> None:
        raise error

    return init


@pytest.mark.parametrize(
    ("error", "load", "sentence"),
    [
        (
            Exception(SLOW),
            1.0,
            "the local Ray did not start within 180 s, for example because the machine is busy or "
            f"its disk is full{ADVICE}",
        ),
        (
            Exception(SLOW),
            3.0,
            "the local Ray did not start within 540 s, for example because the machine is busy or "
            f"its disk is full{ADVICE}",
        ),
        (
            RuntimeError("no room in /dev/shm.\nSee its logs."),
            1.0,
            f"the local Ray did not start: no room in /dev/shm{ADVICE}",
        ),
    ],
)
def test_a_failed_start_of_ray_is_reported_and_leaves_no_process(
    error: Exception,
    load: float,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    share = load * len(os.sched_getaffinity(0))
    monkeypatch.setattr("os.getloadavg", lambda: (share, 0.0, 0.0))
    monkeypatch.setattr("ray.init", begin(error, begun))
    with pytest.raises(RayStartError) as caught, connected(None, 1):
        pass
    assert str(caught.value) == sentence
    assert (ExitCode.APPLICATION_ERROR, False) == (code_of(caught.value), caught.value.is_lasting)
    assert caught.value.cause is Cause.RAY_NOT_STARTED
    (process,) = begun
    assert -signal.SIGKILL == process.wait()
    process.communicate()


def test_a_failed_early_start_is_reported_by_the_run_that_needs_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    monkeypatch.setattr("ray.init", refuse(RuntimeError("no room")))
    start_ahead(1, lambda: begun.append("beside"))
    assert begun == ["beside"]
    with pytest.raises(RayStartError, match="no room"), sharing_local(), connected(None, 1):
        pass


@given(load=st.floats(0, 1e4), cpus=st.integers(1, 256))
def test_law_ray_has_more_time_to_start_on_a_busy_machine(load: float, cpus: int) -> None:
    seconds = choose_start_limit(load, cpus)
    assert START_SECONDS <= seconds <= 900.0
    assert seconds == START_SECONDS or load > cpus
    assert seconds <= choose_start_limit(load * 2, cpus)


def test_a_local_ray_inherits_no_configuration_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = '{"runtime_env": {"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}}'
    monkeypatch.setenv(RAY_JOB_CONFIG_JSON_ENV_VAR, job)
    seen: list[str | None] = []

    def init(**_: object) -> None:
        seen.append(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR))
        raise RuntimeError

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(RayStartError), connected(None, 1):
        pass
    assert seen == [None]
    assert os.environ[RAY_JOB_CONFIG_JSON_ENV_VAR] == job
    with pytest.raises(RuntimeError), connected("ray://127.0.0.1:1", None):
        pass
    assert seen == [None, job]  # required to connect to the Ray that runs the job


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, []),
        ({"include_dashboard": True}, ["start_api_server"]),
        ({"log_to_driver": True}, ["start_log_monitor"]),
    ],
)
def test_a_local_ray_starts_no_unused_process(
    options: dict[str, bool], left: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("start_api_server", "start_gcs_server", "start_log_monitor", "start_monitor")
    own = {name: getattr(node.Node, name) for name in names}
    monkeypatch.delenv(local_start._EVENTS, raising=False)
    seen: list[str] = []
    intervals: list[str | None] = []
    addresses: list[str] = []

    def put(_: str, address: str, **__: object) -> None:
        addresses.append(address)

    def init(**_: object) -> None:
        seen.extend(name for name in names if getattr(node.Node, name) is own[name])
        intervals.append(os.environ.get(local_start._EVENTS))

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.experimental.internal_kv._internal_kv_put", put)
    local_start.start_local(1, tmp_path, **options)
    assert addresses == ([] if "include_dashboard" in options else ["127.0.0.1:9"])
    assert seen == sorted([*left, "start_gcs_server"])
    assert intervals == [None if "include_dashboard" in options else "0"]
    assert local_start._EVENTS not in os.environ
    assert own == {name: getattr(node.Node, name) for name in names}


@pytest.mark.parametrize("before", [None, "numpy"])
def test_workers_preload_the_modules_they_need(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MODULES, raising=False)
    if before is not None:
        monkeypatch.setenv(MODULES, before)
    seen: list[str | None] = []

    def init(**_: object) -> None:
        seen.append(os.environ.get(MODULES))
        raise RuntimeError

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(RayStartError), connected(None, 1, ["json", "csv"]):
        pass
    assert seen == ["json,csv"]
    assert os.environ.get(MODULES) == before


def test_modules_of_users_are_not_preloaded() -> None:
    stages = [
        StagePlan("read", "read-files", ReadFiles()),
        StagePlan(
            "own",
            "stages:Own",
            type("Own", (Stage,), {"__module__": "stages", "process": lambda _, task: task})(),
        ),
        StagePlan("write", "jsonl", JsonlSink()),
    ]
    plan = check_plan("test", "test", StagePlan("files", "files", Files(paths=["*"])), stages)
    assert list_modules(plan) == [
        "strandline.engine.ray.worker",
        "strandline.engine.ray.ledger_actor",
        ReadFiles.__module__,
        JsonlSink.__module__,
    ]


def test_an_unwritable_folder_of_ray_fails_at_once_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", "/data/me/.ray")
    monkeypatch.setattr("ray.init", refuse(refused))
    with pytest.raises(RayStartError) as caught, connected(None, 1):
        pass
    assert caught.value.is_lasting
    assert str(caught.value) == (
        "the local Ray did not start: no permission to write /data/me/.ray; set HOME, or TMPDIR, "
        "to a writable folder"
    )


def test_an_unreadable_token_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = "RAY_AUTH_TOKEN_PATH is set but file cannot be opened or is empty: /nowhere"
    refused = AuthenticationError(f"{problem}. Ensure that the token for the cluster is available")
    monkeypatch.setattr(refused, "message", problem, raising=False)
    monkeypatch.setattr("ray.init", refuse(refused))
    with pytest.raises(RayStartError) as caught, connected(None, 1):
        pass
    assert caught.value.is_lasting
    assert str(caught.value) == (
        f"the local Ray did not start: {problem}; unset RAY_AUTH_TOKEN_PATH, and Ray creates a "
        "token"
    )


WAITS = [(services, "get_node"), (node, "wait_for_persisted_port")]


def ask_ray(
    monkeypatch: pytest.MonkeyPatch, wait: tuple[ModuleType, str], *, fails: int, seconds: float
) -> list[int]:
    """Return the requests to a process of Ray that answers after `fails` requests."""
    asked: list[int] = []
    module, name = wait

    def ask(*_: object, timeout_ms: int = 0) -> dict[str, Any]:
        assert timeout_ms <= 1000  # signals wait until the request ends
        asked.append(1)
        if len(asked) <= fails:
            raise RuntimeError("it is not there yet")
        return {"node": 1}

    monkeypatch.setattr(module, name, ask)
    monkeypatch.setattr(local_start, "_NODE_SECONDS", 0.0)
    with local_start.waiting_for_node(seconds):
        assert getattr(module, name)("gcs", "id", "port") == {"node": 1}
    assert getattr(module, name) is ask
    return asked


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait[1])
def test_a_slow_process_of_ray_is_awaited(
    wait: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_start, "find_child", lambda _: psutil.Process())
    assert 5 == len(ask_ray(monkeypatch, wait, fails=4, seconds=600.0))
    with pytest.raises(RuntimeError, match="not there yet"):
        ask_ray(monkeypatch, wait, fails=2, seconds=-1.0)


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait[1])
def test_a_dead_process_of_ray_is_not_awaited(
    wait: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(local_start._ProcessDiedError, match="died at the start"):
        ask_ray(monkeypatch, wait, fails=1, seconds=600.0)


def test_a_node_is_looked_up_once_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_start, "find_child", lambda _: psutil.Process())
    monkeypatch.setattr(local_start, "_NODE_SECONDS", 0.0)
    seen = iter([[], [b"\x01"], [b"\x01", b"\xab"], []])
    local_start._await_node(lambda: next(seen), "ab", math.inf)
    assert list(seen) == [[]]
    local_start._await_node(list, "ab", -math.inf)  # after the deadline
    monkeypatch.setattr(local_start, "find_child", lambda _: None)
    local_start._await_node(list, "ab", math.inf)  # the node has died


def test_the_unused_agent_opens_no_port_and_ends_with_its_node(tmp_path: Path) -> None:
    own = services._build_python_executable_command_memory_profileable
    build = local_start._replace_agent(tmp_path / "agent.py", own)
    assert build("log_monitor", "session") == own("log_monitor", "session")
    assert local_start._replace_agent(tmp_path / "not" / "yet" / "agent.py", own) is not own
    command = build(ray_constants.PROCESS_TYPE_DASHBOARD_AGENT, "session")
    command += ["agent.py", f"--session-dir={tmp_path}", f"--node-id={NODE}", "--head", "--ip=::1"]
    node = f"import subprocess; print(subprocess.Popen({command}).pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", node], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        agent = psutil.Process(int(parent.stdout.readline()))
        ports = (METRICS_AGENT_PORT_NAME, METRICS_EXPORT_PORT_NAME, LISTEN_PORT_NAME)
        for name in ports:
            assert wait_for_persisted_port(str(tmp_path), NODE, name, timeout_ms=20_000) == -1
        assert agent.is_running()
        parent.stdin.close()
    agent.wait(20)


def test_an_agent_of_a_version_without_named_ports_is_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr("ray._raylet.METRICS_EXPORT_PORT_NAME")
    own = services._build_python_executable_command_memory_profileable
    assert local_start._replace_agent(tmp_path / "agent.py", own) is own
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_hangs_at_its_end_does_not_outlive_its_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hang = "import time; time.sleep(600)"
    node = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {hang!r}]).pid)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{node}; sys.stdout.flush(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as raylet:
        assert raylet.stdout is not None
        worker = psutil.Process(int(raylet.stdout.readline()))
        monkeypatch.setattr(local_start, "find_child", lambda _: psutil.Process(raylet.pid))
        monkeypatch.setattr(local_start, "_END_SECONDS", 0.05)
        monkeypatch.setattr("ray.shutdown", raylet.kill)
        local_start.stop_local()
    worker.wait(20)
    monkeypatch.setattr(local_start, "find_child", lambda _: None)
    monkeypatch.setattr("ray.shutdown", lambda: None)
    local_start.stop_local()  # does nothing if no Ray was started


@pytest.mark.parametrize("deaths", [1, 2, 3])
def test_a_start_of_ray_with_a_dying_process_is_tried_three_times(
    deaths: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    died = local_start._ProcessDiedError("its gcs_server died at the start")
    own = services._build_python_executable_command_memory_profileable
    has_stand_in: list[bool] = []

    def init(**_: object) -> None:
        build = services._build_python_executable_command_memory_profileable
        has_stand_in.append(build is not own)
        if len(begun) < deaths:
            begin(died, begun)()

    monkeypatch.setattr("ray.init", init)
    if deaths < 3:
        local_start.start_local(1, tmp_path)
    else:
        with pytest.raises(RayStartError) as caught:
            local_start.start_local(1, tmp_path)
        assert str(caught.value) == (
            f"the local Ray did not start: its gcs_server died at the start{ADVICE}"
        )
    assert has_stand_in == [True, False, False][: deaths + 1]
    for process in begun:
        assert -signal.SIGKILL == process.wait()
        process.communicate()


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (
            "",
            "requires a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's token",
        ),
        (
            "Token",
            "requires its own token; set RAY_AUTH_TOKEN to the token, or "
            "RAY_AUTH_TOKEN_PATH to a file with the token",
        ),
    ],
)
def test_a_cluster_that_requires_a_token_is_reported_with_the_setting(
    mode: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr("ray.init", refuse(AuthenticationError("token is missing")))
    with pytest.raises(ClusterRefusedError) as caught, connected("ray://head:10001", None):
        pass
    assert str(caught.value) == f"the Ray cluster at ray://head:10001 {sentence}"
    assert code_of(caught.value) is ExitCode.BAD_SPEC


def test_a_missing_client_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ValueError("Ray Client requires pip package `ray[client]`. If you installed the")
    monkeypatch.setattr("ray.init", refuse(needs))
    with pytest.raises(ClusterRefusedError) as caught, connected("ray://head:10001", None):
        pass
    wanted = (
        "ray://head:10001 needs Ray's client, which is not installed; pip install 'ray[client]'"
    )
    assert str(caught.value) == wanted


def test_the_end_of_a_process_of_ray_is_explained_by_its_log() -> None:
    program = """
import sys
from pathlib import Path
from strandline.engine.ray.local.start import RayStartError, start_local
try:
    start_local(1, Path(sys.argv[1]), _system_config={"not_there": 1})  # which it can't read
except RayStartError as error:
    print(error)
"""
    with TemporaryDirectory(prefix="ray-") as folder:  # a socket's path must be short
        words = [sys.executable, "-c", program, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "the local Ray did not start: its gcs_server died at the start; its log ends with: "
        f"gcs_server: Received unexpected config parameter not_there{ADVICE}"
    )


def test_the_newest_log_session_and_the_cause_of_death_are_used(tmp_path: Path) -> None:
    assert read_last_error(tmp_path) == ""
    head = "[2026-11-26 20:08:44,862 {} 14046 14046]"
    for at, name in enumerate(("session_old", "session_new")):
        logs = tmp_path / name / "logs"
        logs.mkdir(parents=True)
        lines = (
            f"{head.format('I')} main.cc:8: fine",
            f"{head.format('C')} (raylet) file.cc:12: {name} can't go on: no port",
            f"{head.format('E')} file.cc:13: an error that ends nothing",
            "*** StackTrace Information ***",
        )
        (logs / "raylet.out").write_text("\n".join(lines))
        os.utime(logs, (at, at))
    assert read_last_error(tmp_path) == "raylet: session_new can't go on: no port"


@pytest.mark.parametrize("module", ["logging", "importlib._bootstrap"])
def test_a_request_to_end_is_not_lost_in_a_callback(module: str) -> None:
    """Python prints an exception in a callback and continues, so the request would be lost.

    `logging` has callbacks after a fork, and the import system has some for locks of modules.
    """
    program = (
        "import os, signal, subprocess, sys, time\n"
        "from strandline.engine.ray.local.start import _set_patient_handler\n"
        f"import {module} as module\n"
        "_set_patient_handler(lambda number, _: sys.exit(number))\n"
        "code = 'def call(kill, pid, number):\\n    kill(pid, number)\\n    pass\\n'\n"
        "exec(code, module.__dict__)\n"
        "os.register_at_fork(after_in_parent=lambda: module.call(os.kill, os.getpid(), 15))\n"
        "pid = os.fork()\n"
        "pid or os._exit(0)\n"
        "time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=50
    )
    assert (done.returncode, done.stderr) == (15, "")
