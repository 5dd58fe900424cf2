"""Runs commands as forks of a process that has all modules loaded, instead of new interpreters.

A new interpreter needs a second of processor time for its imports; a fork needs some milliseconds.
Tests whose subject is the start of the interpreter call `start_interpreter`.
"""

from __future__ import annotations

import array
import atexit
import errno
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fork_program
from forked_process import PythonCommand

PATIENCE = 300.0
# Modules to load. A name that ends in `.*` stands for every module of a package.
MODULES = (
    "PIL.Image",
    "aiohttp",
    "av",
    "datasketch",
    "fasttext",
    "ftfy",
    "httpx",
    "httpx2",
    "jinja2",
    "jsonschema",
    "numpy",
    "pandas",
    "prometheus_client",
    "psutil",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "resiliparse.extract.html2text",
    "rich.live",
    "sqlalchemy.orm",
    "strictyaml",
    "tokenizers",
    "trafilatura",
    "strandline.cli.*",
    "strandline.engine.inline",
    "strandline.engine.processes.*",
    "strandline.python.pipeline",
    "strandline.run.attempt.*",
    "strandline.run.manifest.*",
    "strandline.run.supervise.*",
    "strandline_packs.*",
)
# Maximum length of a command line in `/proc`. A fork can only overwrite the server's own arguments.
TITLE_BYTES = 8192
# An interpreter reads these variables before any module, so a fork cannot apply them.
START_VARIABLES = ("LC_", "LANG", "LD_", "PYTHON", "MALLOC_")
APPLIED_VARIABLES = {
    "PYTHONBREAKPOINT",  # Python reads it at each call, and Ray sets it in its driver
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER",
    "PYTHONIOENCODING",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONWARNINGS",
}


class CommandServer:
    """A process that forks one process for each command.

    Args:
        modules: names of the modules to load.
        folders: additional folders to load them from.

    Attributes:
        pid: process ID of the server.
        environment: environment variables of the server.
    """

    def __init__(self, modules: Sequence[str] = MODULES, folders: Sequence[Path] = ()) -> None:
        # Use a single thread, because a fork would lose all others.
        self.environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        self.environment = {
            name: text for name, text in self.environment.items() if name not in APPLIED_VARIABLES
        }
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, fork_program.MESSAGE_BYTES)
        program = Path(fork_program.__file__)
        request = {
            "control": theirs.fileno(),
            "parent": os.getpid(),
            "modules": list(modules),
            "folders": [str(folder) for folder in folders],
            "here": str(program.parent),
        }
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, program, json.dumps(request), " " * TITLE_BYTES],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.pid = self._process.pid

    def start(self, arguments: Sequence[str | os.PathLike[str]], **settings: Any) -> ForkedCommand:
        """Start a command. Settings have the same meaning as in `subprocess.Popen`."""
        return ForkedCommand(self, arguments, **settings)

    def execute(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        timeout: float = PATIENCE,
        **settings: Any,
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command until its end, and kill it after the timeout.

        Both output streams are captured unless the settings redirect them.
        """
        pipes = {
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
        }  # fmt: skip
        with self.start(arguments, **{**pipes, "text": True, **settings}) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def send(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Send a request, with descriptors for its report and the three standard streams."""
        message = json.dumps(request).encode()
        numbers = array.array("i", descriptors)
        self._control.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])

    def close(self) -> None:
        """End the server, and kill the commands that still run."""
        self._control.close()
        self._process.wait(PATIENCE)


class ForkedCommand(subprocess.Popen[Any]):
    """A `subprocess.Popen` whose process is forked by a command server.

    Args:
        server: server that forks the process.
        arguments: command line of Python, or a console script and its arguments.
        settings: other arguments of `subprocess.Popen`.
    """

    def __init__(
        self, server: CommandServer, arguments: Sequence[str | os.PathLike[str]], **settings: Any
    ) -> None:
        self._server = server
        self._report = -1
        self._pending = b""
        super().__init__(arguments, **settings)

    def _execute_child(self, *given: Any) -> None:
        arguments, _, preexec_fn, _, pass_fds, cwd, environment = given[:7]
        pipes = given[10:16]
        if PythonCommand.parse(arguments) is None or preexec_fn is not None or pass_fds:
            raise ValueError(f"a fork cannot run {arguments}: use start_interpreter")
        chosen = dict(os.environ if environment is None else environment)
        folder = os.path.abspath(os.getcwd() if cwd is None else cwd)
        os.stat(folder)  # raises the proper error if the folder is missing
        _check_variables(self._server.environment, chosen)
        settings = {
            "cwd": folder,
            "env": chosen,
            "umask": _read_umask() if given[20] < 0 else given[20],
            "start_new_session": given[21],
            "process_group": None if given[22] < 0 else given[22],
        }
        request = {"arguments": [os.fspath(each) for each in arguments], "settings": settings}
        streams = [
            number if stream < 0 else stream
            for number, stream in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        self._report, theirs = os.pipe()
        try:
            self._server.send(request, [theirs, *streams])
        finally:
            os.close(theirs)
        word, *rest = self._read_line().split(maxsplit=2)
        if word == "error":
            raise OSError(int(rest[0]), os.strerror(int(rest[0])), *rest[1:])
        if word != "pid":
            raise OSError(errno.ECHILD, "the command server has ended")
        self.pid = int(rest[0])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._wait(timeout=0.0, raises=False)

    def _wait(self, timeout: float | None, *, raises: bool = True) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is not None:
                return self.returncode
            if not self._pending and not select.select([self._report], [], [], timeout)[0]:
                if raises:
                    assert timeout is not None
                    raise subprocess.TimeoutExpired(self.args, timeout)
                return None
            word, code = self._read_line().split()
            # Without an exit code, the server has died, and its commands were killed with it.
            self.returncode = int(code) if word == "code" else -9
            os.close(self._report)
            self._report = -1
            return self.returncode

    def _read_line(self) -> str:
        """Read a line of the server's report. Return `gone 0` if the server has ended."""
        while b"\n" not in self._pending:
            content = os.read(self._report, 4096)
            if not content:
                return "gone 0"
            self._pending += content
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()


def _check_variables(known: Mapping[str, str], chosen: Mapping[str, str]) -> None:
    """Raise ValueError for variables that only a new interpreter applies."""
    for name in {*known, *chosen} - APPLIED_VARIABLES:
        if name.startswith(START_VARIABLES) and known.get(name) != chosen.get(name):
            raise ValueError(f"a fork cannot apply {name}: use start_interpreter")


def _read_umask() -> int:
    """Read the umask of this process without changing it: other threads may create files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith("Umask:"))
    return int(line.split()[1], 8)


_servers: dict[tuple[int, tuple[str, ...]], CommandServer] = {}


def find_server(*modules: str) -> CommandServer:
    """Return the command server of this process. The first call starts the server.

    Args:
        modules: names of modules that it loads in addition, such as clients of object stores.
    """
    key = os.getpid(), modules
    if key not in _servers:
        _servers[key] = CommandServer((*MODULES, *modules))
        atexit.register(_servers[key].close)
    return _servers[key]


def start_command(
    arguments: Sequence[str | os.PathLike[str]], **settings: Any
) -> subprocess.Popen[Any]:
    """Start Python or a console script as a fork. Settings have the same meaning as in `Popen`."""
    return find_server().start(arguments, **settings)


def execute_command(
    arguments: Sequence[str | os.PathLike[str]], **settings: Any
) -> subprocess.CompletedProcess[Any]:
    """Run Python or a console script until its end as a fork, and capture its output."""
    return find_server().execute(arguments, **settings)


def execute_strandline(*words: str, **settings: Any) -> subprocess.CompletedProcess[Any]:
    """Run a `strandline` command until its end as a fork, and capture its output."""
    return execute_command([sys.executable, "-m", "strandline", *words], **settings)


def start_interpreter(
    arguments: Sequence[str | os.PathLike[str]], **settings: Any
) -> subprocess.Popen[Any]:
    """Start a new interpreter, for tests of its start or of its imports."""
    return subprocess.Popen(arguments, **settings)


def execute_interpreter(
    arguments: Sequence[str | os.PathLike[str]], **settings: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a new interpreter until its end, for tests of its start or of its imports."""
    return subprocess.run(arguments, **{"timeout": PATIENCE, "check": False, **settings})  # noqa: PLW1510 - the settings have it
