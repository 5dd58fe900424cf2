"""Servers that a worker starts: ready, watched, replaced, and ended with their owner."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from pydantic import ValidationError

from strandline.plan.errors import StageStoppedError
from strandline.plan.task import FailedRow, Task
from strandline.stages import AskModel
from strandline_api.outcome.causes import Cause
from strandline_packs.models import model_files
from strandline_packs.models.asking.serving.commands import ServeParams, render_command

pytestmark = pytest.mark.first(reason="servers hang until they are replaced")

ENGINE = Path(__file__).parent / "fake_engine.py"
# A worker process, to be killed.
_WORKER = """
import sys
from pathlib import Path
from test_own_servers import open_stage
open_stage(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.read()
"""


def serve(folder: Path, **more: Any) -> dict[str, Any]:
    command = [sys.executable, str(ENGINE), "{port}", "{name}", str(folder)]
    return {"engine": "command", "model": "weights.gguf", "command": command, **more}


def open_stage(folder: Path, **more: Any) -> AskModel:
    values = {"model": "small", "prompt": "{{ text }}", "serve": serve(folder), **more}
    stage = AskModel(AskModel.Params.model_validate(values))
    stage.setup()
    return stage


def ask(stage: AskModel, *prompts: str) -> list[str]:
    answer = stage.process(Task(pa.table({"text": list(prompts)})))
    assert isinstance(answer, Task)
    return list(answer.table["answer"].to_pylist())


def list_started(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("started-")) for path in folder.glob("started-*")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_until_gone(pid: int) -> None:
    """Wait; the requesting thread may hold a stage for a moment after its last answer."""
    while is_alive(pid):
        gc.collect()
        time.sleep(0.02)


def test_a_worker_starts_and_ends_its_own_server(tmp_path: Path) -> None:
    stage = open_stage(tmp_path)
    assert ask(stage, "a", "b") == ["small: a", "small: b"]
    (pid,) = list_started(tmp_path)
    del stage
    wait_until_gone(pid)


def test_a_dead_server_is_replaced_and_its_requests_are_repeated(tmp_path: Path) -> None:
    stage = open_stage(tmp_path)
    prompts = [*"abcdef", "die", "die again"]
    assert ask(stage, *prompts) == [f"small: {prompt}" for prompt in prompts]
    # Both fatal requests may reach the same server, which then dies only once.
    assert len(list_started(tmp_path)) in {2, 3}
    answered = Counter((tmp_path / "answered").read_text().splitlines())
    assert set(answered) == set(prompts)


@pytest.mark.timeout(100)
def test_a_request_to_an_ended_server_is_repeated(tmp_path: Path) -> None:
    """The connection stays open, for example if another process has it or took the port."""
    stage = open_stage(tmp_path)
    assert ask(stage, "orphan") == ["small: orphan"]
    assert len(list_started(tmp_path)) == 2


def test_a_port_is_kept_for_a_server_that_binds_it_late(tmp_path: Path) -> None:
    program = (
        "import runpy, socket, sys\n"
        "try:\n"
        "    socket.socket().bind(('127.0.0.1', int(sys.argv[1])))\n"
        "except OSError:\n"
        "    runpy.run_path(sys.argv[4], run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program, "{port}", "{name}", str(tmp_path), str(ENGINE)]
    stage = open_stage(tmp_path, serve=serve(tmp_path, command=command))
    assert ask(stage, "a") == ["small: a"]
    assert len(list_started(tmp_path)) == 1


def test_a_server_that_does_not_reuse_addresses_starts_at_the_second_try(tmp_path: Path) -> None:
    program = (
        "import runpy, socketserver, sys\n"
        "from http.server import ThreadingHTTPServer\n"
        "ThreadingHTTPServer.allow_reuse_address = False\n"
        "runpy.run_path(sys.argv[4], run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program, "{port}", "{name}", str(tmp_path), str(ENGINE)]
    stage = open_stage(tmp_path, serve=serve(tmp_path, command=command))
    assert ask(stage, "a") == ["small: a"]
    assert len(list_started(tmp_path)) == 2


def test_a_row_that_kills_the_server_each_time_fails_alone(tmp_path: Path) -> None:
    stage = open_stage(tmp_path, tries=2)
    slots = stage.process(Task(pa.table({"text": ["poison"]})))
    assert isinstance(slots, list)
    (mark,) = slots
    assert isinstance(mark, FailedRow)
    assert "the server failed on it 2 times" in mark.msg
    assert ask(stage, "a", "b") == ["small: a", "small: b"]


@pytest.mark.more
def test_a_server_that_hangs_is_replaced(tmp_path: Path) -> None:
    stage = open_stage(tmp_path, timeouts={"total": 3, "read": 3})
    assert ask(stage, "hang", "b") == ["small: hang", "small: b"]
    first, second = list_started(tmp_path)
    assert sum(map(is_alive, (first, second))) == 1


@pytest.mark.more
def test_a_stopped_server_process_is_replaced(tmp_path: Path) -> None:
    stage = open_stage(tmp_path, timeouts={"total": 3, "read": 3})
    assert ask(stage, "a") == ["small: a"]
    (pid,) = list_started(tmp_path)
    os.kill(pid, signal.SIGSTOP)
    assert ask(stage, "b", "c") == ["small: b", "small: c"]
    wait_until_gone(pid)
    assert len(list_started(tmp_path)) == 2


def test_weights_of_a_url_are_served_from_the_copy_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(model_files, "open_binary", lambda _: io.BytesIO(b"weights"))
    digest, url = sha256(b"weights").hexdigest(), "s3://b/w.gguf"
    command = [sys.executable, str(ENGINE), "{port}", "{model}", str(tmp_path)]
    stage = open_stage(tmp_path, serve=serve(tmp_path, model=url, digest=digest, command=command))
    (answer,) = ask(stage, "a")
    path = Path(answer.removesuffix(": a"))
    assert path.name == f"{digest}.gguf"
    assert path.read_bytes() == b"weights"


def test_unexpected_weights_end_the_attempt_with_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(model_files, "open_binary", lambda _: io.BytesIO(b"others"))
    digest, url = sha256(b"weights").hexdigest(), "s3://b/w.gguf"
    with pytest.raises(StageStoppedError) as caught:
        open_stage(tmp_path, serve=serve(tmp_path, model=url, digest=digest))
    assert caught.value.is_lasting
    found = sha256(b"others").hexdigest()
    assert str(caught.value).endswith(f"{url}: its SHA-256 is {found}, not {digest}")
    assert not list(tmp_path.rglob("*.part"))


def test_workers_of_a_node_that_begin_at_once_copy_weights_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    is_second = threading.Event()

    def open_slowly(path: str) -> BinaryIO:
        opened.append(path)
        if len(opened) > 1:
            is_second.set()
        is_second.wait(0.5)  # a second copy would begin meanwhile
        return io.BytesIO(b"weights")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(model_files, "open_binary", open_slowly)
    copy = partial(model_files.copy_weights, "s3://b/w.gguf", sha256(b"weights").hexdigest())
    with ThreadPoolExecutor(2) as pool:
        one, other = (pool.submit(copy) for _ in range(2))
        assert one.result() == other.result()
    assert len(opened) == 1


def test_a_server_that_never_starts_ends_the_attempt_with_its_output(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(StageStoppedError, match="3 times in a row") as caught:
        open_stage(tmp_path)
    assert caught.value.is_lasting
    assert caught.value.cause is Cause.MODEL_UNAVAILABLE
    assert "its own command: its server ended with code 1" in str(caught.value)
    assert "the weights are torn" in str(caught.value)


def test_a_killed_worker_ends_its_server(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(tmp_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    while worker.stdout.readline() != b"ready\n":
        assert worker.poll() is None
    (pid,) = list_started(tmp_path)
    assert is_alive(pid)
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    wait_until_gone(pid)


def test_engines_are_started_with_their_own_arguments() -> None:
    values = {"engine": "vllm", "model": "org/model", "args": ["--max-model-len", "4096"]}
    words = render_command(ServeParams.model_validate(values), "m", 9000)
    assert " ".join(words) == (
        "vllm serve org/model --served-model-name m --host 127.0.0.1 --port 9000 "
        "--max-model-len 4096"
    )
    values = {"engine": "llama-cpp", "model": "/w.gguf", "args": ["--n_ctx", "8"], "python": "/p"}
    words = render_command(ServeParams.model_validate(values), "m", 9000)
    assert " ".join(words) == (
        "/p -m llama_cpp.server --model /w.gguf --model_alias m --host 127.0.0.1 --port 9000 "
        "--n_ctx 8"
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "set either `url` or `serve`"),
        ({"url": "http://a/v1", "serve": {"engine": "vllm", "model": "m"}}, "either `url` or"),
        ({"serve": {"engine": "vllm", "model": "m", "command": ["a"]}}, "`command` and `engine"),
        ({"serve": {"engine": "command", "model": "m"}}, "`command` and `engine"),
        ({"serve": {"engine": "command", "model": "m", "command": ["a"]}}, "must contain `{port}`"),
        (
            {"serve": {"engine": "vllm", "model": "s3://b/m"}},
            "`digest` must be set if `model` is a URL",
        ),
        (
            {"serve": {"engine": "vllm", "model": "m", "digest": 64 * "a"}},
            "`digest` must be set if `model` is a URL",
        ),
        ({"serve": {"engine": "vllm", "model": "m"}, "key": {"env": "A"}}, "`key` requires `url`"),
    ],
)
def test_invalid_servers_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AskModel.Params.model_validate({"model": "m", "prompt": "a", **values})


def test_weights_change_the_pipeline_and_arguments_do_not(tmp_path: Path) -> None:
    def digest(**more: Any) -> dict[str, str]:
        values = {"model": "m", "prompt": "a", "serve": serve(tmp_path, **more)}
        return AskModel(AskModel.Params.model_validate(values)).digest_inputs()

    assert digest(args=["--fast"]) == digest() != digest(model="other.gguf")
    assert "serve" in AskModel.not_fingerprinted


def test_a_killed_guard_ends_the_server(tmp_path: Path) -> None:
    """Ray kills the processes of a worker when the worker ends; the guard is such a process."""
    stage = open_stage(tmp_path)
    assert ask(stage, "a") == ["small: a"]
    (pid,) = list_started(tmp_path)
    guard = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    wait_until_gone(pid)
    assert ask(stage, "b") == ["small: b"]
