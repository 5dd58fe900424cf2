"""Forks the current process so that the fork behaves like a new Python interpreter.

A fork has every module of its parent loaded, so a command starts in milliseconds. Everything else
that a program can observe is reset to the state of a new interpreter: arguments, module search
path, environment, standard streams, signal handlers, exit handlers, and warning filters.
"""

from __future__ import annotations

import atexit
import contextvars
import ctypes
import faulthandler
import io
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

# Signals whose default actions the fork restores, unless they are ignored.
OWN_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
FLUSH_FAILED = 120  # exit code of an interpreter that cannot flush its standard output

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A parsed command line of the Python interpreter.

    Attributes:
        kind: `-m`, `-c`, or `script`.
        subject: name of the module, source text, or path of the script.
        words: arguments of the program.
        warning_options: values of `-W`.
        is_safe_path: whether `-P` is set, so that the interpreter adds no folder to the search
            path.
    """

    kind: str
    subject: str
    words: tuple[str, ...]
    warning_options: tuple[str, ...] = ()
    is_safe_path: bool = False

    @classmethod
    def parse(cls, arguments: Sequence[str | os.PathLike[str]]) -> PythonCommand | None:
        """Parse a command line. Return None if a fork cannot run it."""
        names = _decode(arguments)
        if not _is_own_python(names[0]):
            return cls("script", names[0], tuple(names[1:])) if _is_own_script(names[0]) else None
        words, options, is_safe_path = names[1:], [], False
        while words and words[0] in {"-P", "-W"}:
            if words.pop(0) == "-P":
                is_safe_path = True
            else:
                options.append(words.pop(0))
        if words[:1] in (["-m"], ["-c"]) and len(words) > 1:
            kind, subject, words = words[0], words[1], words[2:]
        elif words and not words[0].startswith("-"):
            kind, subject, words = "script", words[0], words[1:]
        else:
            return None
        return cls(kind, subject, tuple(words), tuple(options), is_safe_path)

    def run(self) -> None:
        """Run the program in this process as its `__main__` module."""
        main = types.ModuleType("__main__")
        vars(main).update(__annotations__={}, __builtins__=__builtins__)
        sys.modules["__main__"] = main
        sys.argv = ["-m" if self.kind == "-m" else self.subject, *self.words]
        if self.kind == "-m":
            # A new interpreter has not imported the module that it runs.
            sys.modules.pop(f"{self.subject}.__main__", None)
            if not hasattr(sys.modules.get(self.subject), "__path__"):
                sys.modules.pop(self.subject, None)
            runpy._run_module_as_main(self.subject)  # type: ignore[attr-defined]
        elif self.kind == "-c":
            sys.argv[0] = "-c"
            exec(compile(self.subject, "<string>", "exec"), vars(main))  # noqa: S102
        else:
            text = Path(self.subject).read_bytes()
            vars(main).update(__file__=self.subject, __cached__=None)
            exec(compile(text, self.subject, "exec"), vars(main))  # noqa: S102

    def find_first_folder(self) -> list[str]:
        """Return the folder that the interpreter puts first in the search path, if any."""
        if self.is_safe_path:
            return []
        if self.kind == "script":
            return [str(Path(self.subject).resolve().parent)]
        return [os.getcwd() if self.kind == "-m" else ""]


def _decode(arguments: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Convert arguments, such as paths, to the plain strings that an interpreter receives."""
    return [os.fsencode(argument).decode() for argument in arguments]


def _is_own_python(path: str) -> bool:
    own, named = Path(sys.executable), Path(path)
    return named == own or (named.parent == own.parent and named.name.startswith("python"))


def _is_own_script(path: str) -> bool:
    """Return True for an installed console script of this interpreter's environment."""
    with suppress(OSError), open(path, "rb") as file:
        return file.readline().strip() == f"#!{sys.executable}".encode()
    return False


@dataclass(slots=True)
class CleanState:
    """State of a new interpreter, recorded before and after modules are loaded.

    Attributes:
        search_path: `sys.path` without the entries of `PYTHONPATH`.
        default_filters: warning filters before any import.
        library_filters: warning filters added by the loaded libraries.
        exit_handlers: exit handlers registered by the loaded libraries.
    """

    search_path: list[str] = field(default_factory=lambda: list(sys.path))
    default_filters: list[Any] = field(default_factory=lambda: list(warnings.filters))
    library_filters: list[Any] = field(default_factory=list)
    exit_handlers: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = field(
        default_factory=list
    )

    def record_exit_handlers(self) -> None:
        """Record every exit handler that is registered from now on."""
        register = atexit.register

        def record(function: FunctionT, *values: Any, **named: Any) -> FunctionT:
            self.exit_handlers.append((function, values, named))
            register(function, *values, **named)
            return function

        atexit.register = record  # type: ignore[assignment]

    def finish(self) -> None:
        """Record the effects of all modules that have been loaded."""
        known = self.default_filters
        self.library_filters = [each for each in warnings.filters if each not in known]


STATE = CleanState()
_register_exit_handler = atexit.register


class ForkedProcess(subprocess.Popen[Any]):
    """A `subprocess.Popen` that forks this process instead of executing Python again.

    The arguments are those of `subprocess.Popen`. Command lines of other programs are executed.
    """

    def _execute_child(self, *given: Any) -> None:
        command = PythonCommand.parse(given[0])
        if command is None or given[2] is not None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pass_fds, cwd, env = given[4:7]
        in_read, in_write, out_read, out_write, err_read, err_write = given[10:16]
        umask, session, group = given[20:23]
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with warnings.catch_warnings():
            # Newer releases of Python warn about a fork if another thread is running.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            self._child_created = True
            self._close_pipe_fds(  # type: ignore[attr-defined]
                in_read, in_write, out_read, out_write, err_read, err_write
            )
            return
        try:
            _reset_process(session, group, umask, cwd)
            _reset_descriptors((in_read, out_write, err_write), pass_fds)
            _reset_memory(command, _decode(given[0]), env)
            _reset_signals()
        except BaseException:  # noqa: BLE001 - the fork must never return into its parent's code
            traceback.print_exc()
            os._exit(1)
        contextvars.Context().run(_run_to_end, command)


def _reset_process(session: bool, group: int, umask: int, cwd: str | None) -> None:
    if session:
        os.setsid()
    if group >= 0:
        os.setpgid(0, group)
    if umask >= 0:
        os.umask(umask)
    if cwd is not None:
        os.chdir(cwd)


def _reset_descriptors(streams: Sequence[int], passed: Sequence[int]) -> None:
    """Connect the standard streams, and close all descriptors that are not passed on."""
    # Copy the descriptors to numbers above 2, so that `dup2` overwrites none of them.
    copies = [os.dup(stream) if stream >= 0 else -1 for stream in streams]
    while any(0 <= copy < 3 for copy in copies):
        copies = [os.dup(copy) if copy >= 0 else -1 for copy in copies]
    for target, copy in enumerate(copies):
        if copy >= 0:
            os.dup2(copy, target)
    kept = [2, *sorted(passed), os.sysconf("SC_OPEN_MAX")]
    for low, high in pairwise(kept):
        os.closerange(low + 1, high)
    for number in passed:
        os.set_inheritable(number, True)


def _reset_memory(
    command: PythonCommand, arguments: list[str], environment: Mapping[Any, Any] | None
) -> None:
    """Reset the interpreter's state in memory."""
    if environment is not None:
        named = {os.fsdecode(name): os.fsdecode(text) for name, text in environment.items()}
        os.environ.clear()
        os.environ.update(named)
    time.tzset()
    tempfile.tempdir = None
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.orig_argv[:] = arguments
    _write_title(arguments)
    _reset_exit_handlers()
    _reset_warnings(command)
    paths = os.environ.get("PYTHONPATH") or None
    folders = [] if paths is None else [os.path.abspath(path) for path in paths.split(os.pathsep)]
    sys.path[:] = [*command.find_first_folder(), *folders, *STATE.search_path]
    sys.path_importer_cache.clear()
    _reset_streams()
    if "fsspec" in sys.modules and any(name.startswith("FSSPEC") for name in os.environ):
        config = sys.modules["fsspec.config"]
        config.set_conf_env(config.conf_dict)


def _reset_exit_handlers() -> None:
    """Register the handlers of loaded libraries after the program's first handler.

    In a new interpreter, a program registers its first handler before it loads the libraries.
    """
    atexit._clear()

    def register_first(function: FunctionT, *values: Any, **named: Any) -> FunctionT:
        atexit.register = _register_exit_handler
        _register_exit_handler(function, *values, **named)
        _register_library_handlers()
        return function

    atexit.register = register_first  # type: ignore[assignment]


def _register_library_handlers() -> None:
    for function, values, named in STATE.exit_handlers:
        _register_exit_handler(function, *values, **named)


def _reset_warnings(command: PythonCommand) -> None:
    options = [each for each in os.environ.get("PYTHONWARNINGS", "").split(",") if each]
    options += command.warning_options
    sys.warnoptions[:] = options
    warnings.filters[:] = STATE.default_filters  # type: ignore[index]
    warnings._processoptions(options)  # type: ignore[attr-defined]
    warnings.filters[:0] = STATE.library_filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _reset_streams() -> None:
    """Open new stream objects, because the buffers of the old may contain the parent's text."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        old = getattr(sys, f"__{name}__")
        buffering = 0 if is_unbuffered and number else -1
        binary = open(number, f"{mode}b", buffering=buffering, closefd=False)  # noqa: SIM115 - lasts as long as the process
        raw: Any = getattr(binary, "raw", binary)
        raw.name = f"<{name}>"
        stream = io.TextIOWrapper(
            binary,
            encoding=encoding or old.encoding,
            errors=old.errors if number == 2 else errors or old.errors,
            newline="\n" if number else None,
            line_buffering=not is_unbuffered and (number == 2 or binary.isatty()),
            write_through=is_unbuffered,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    faulthandler.disable()
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in OWN_SIGNALS:
        # Keep an ignored signal ignored, as a new interpreter does, such as SIGHUP under nohup.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _write_title(arguments: Sequence[str]) -> None:
    """Show the command line in `/proc`, cut to the length of the server's command line."""
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    words = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    room = end - start
    ctypes.memmove(start, words[: room - 1].ljust(room, b"\0"), room)


def _run_to_end(command: PythonCommand) -> NoReturn:
    """Run a program, and end the process as an interpreter does."""
    code = 1
    try:
        code = _run(command)
        threading._shutdown()  # type: ignore[attr-defined]
        if atexit.register is not _register_exit_handler:
            _register_library_handlers()
        atexit._run_exitfuncs()
        code = _flush(code)
    finally:
        os._exit(code)


def _run(command: PythonCommand) -> int:
    try:
        command.run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        with suppress(OSError, ValueError):
            print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - the interpreter prints any error
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            _flush(0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def _flush(code: int) -> int:
    """Flush the standard streams. Return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError) as error:
            if stream is sys.stdout:
                with suppress(OSError, ValueError):
                    sys.stderr.write(f"Exception ignored in: {stream!r}\n")
                    sys.stderr.write(f"{type(error).__name__}: {error}\n")
                code = FLUSH_FAILED
    return code
