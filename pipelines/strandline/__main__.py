"""The entry of the `strandline` command, and of the same program as kubectl finds it.

Ctrl-C may come while it is still being loaded, so what it means then is settled before anything is.
"""

from __future__ import annotations

# `_signal` is the built-in part of `signal`: it need not be loaded.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

# An attempt that never began goes on with the next one; other commands end as a shell's do.
_INTERRUPTED, _KEYS_PRESSED = 75, 130
_ATTEMPTS = frozenset({"run", "drive", "retry"})
# Garbage is looked for after so many new objects: modules that are loaded are none, and a
# seventh of the time that they take to load is the search through them.
NEW_OBJECTS = 50_000
_ended_with: list[object] = []  # the exit code, once a command has ended


def main_on_cluster() -> None:
    """Run what `kubectl strandline` calls, and exit with its code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave_quietly)
    _fill_streams()
    from strandline.cli.commands.cluster.plugin import plugin  # noqa: PLC0415 - the same

    # A Job that was made has to go, so a request to end is raised where that is done.
    if signal.getsignal(signal.SIGINT) is _leave_quietly:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plugin.main(prog_name="kubectl strandline")


def main() -> None:
    """Run the command line and exit with its code; `module:Class` is looked up from here."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(_skip_teardown)  # the first one, so it comes after all others
    makes_attempts = bool(_ATTEMPTS.intersection(sys.argv[1:2]))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as for a shell's background job
        signal.signal(signal.SIGINT, _leave if makes_attempts else _leave_quietly)
    _fill_streams()
    here = os.getcwd()  # noqa: PTH109 - `pathlib` need not be loaded before the rest is
    if here not in sys.path:
        sys.path.insert(0, here)
    _start_ahead()
    from strandline.cli.app.commands import program  # noqa: PLC0415 - it takes a while to load

    if sys.argv[1:2] == ["run"]:
        _fork_driver()
    if not makes_attempts and signal.getsignal(signal.SIGINT) is _leave_quietly:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program.main(prog_name="strandline")
    except SystemExit as end:
        _ended_with.append(end.code)
        raise
    finally:
        # Python takes down what handles signals before its own end: the signal would kill a
        # command that is done.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Python notes a KeyboardInterrupt that leaves code made of text, as dataclasses are made,
        # and dies of the signal in the end whatever the exit code; the next such code makes it
        # forget.
        exec("")  # noqa: S102


def _skip_teardown() -> None:
    """End without taking down libraries, where Arrow is one of them.

    Its pool of threads aborts one process of some hundred that end while a thread of it begins,
    after all that they had to do is done.
    """
    code = _ended_with[-1] if _ended_with else None
    if "pyarrow" not in sys.modules or not isinstance(code, int):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python says that of a stream which is gone
        return
    os._exit(code)


def _fork_driver() -> None:
    """Fork the driver of `run`. In the child, return once this process is to be the driver."""
    # The modules that the command and its driver need. They start no thread.
    from strandline.cli.commands.runs import run  # noqa: F401, PLC0415 - see above
    from strandline.run.supervise.driver.spare_driver import fork_spare  # noqa: PLC0415 - see above

    arguments = fork_spare(_load_spare)
    if arguments is None:
        return
    # A driver in an interpreter of its own does not search modules beside this program.
    script = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - as for `getcwd`
    sys.path[:] = [path for path in sys.path if path != script]
    sys.argv[1:] = arguments
    _start_ahead(is_fork=True)


def _start_ahead(*, is_fork: bool = False) -> None:
    """Start what the parent knows that this driver will want, before all that a driver loads."""
    from strandline.run.supervise.variables import (  # noqa: PLC0415 - it loads nothing
        AHEAD,
        ALL,
        FORKS,
    )

    if FORKS not in os.environ and AHEAD not in os.environ:
        return
    # The variables are read later, and what is started must not have them.
    ours = {name: os.environ.pop(name) for name in ALL if name in os.environ}
    try:
        if FORKS in ours:
            _start_forks(is_fork=is_fork)
        if AHEAD in ours:
            _start_ray(ours[AHEAD])
    finally:
        os.environ.update(ours)


def _start_forks(*, is_fork: bool) -> None:
    from strandline.engine.processes.fork_program import (  # noqa: PLC0415 - the first of all
        start_ahead,
    )

    start_ahead(is_fork=is_fork)


def _start_ray(workers: str) -> None:
    """Start a local Ray; its processes take as long as a driver's modules, loaded beside."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        from strandline.engine.ray.connection import start_ahead  # noqa: PLC0415 - the first of all

        start_ahead(int(workers) if workers else None, _load_driver)
    except ImportError:  # Ray is missing, and a sentence of the engine's says so
        return
    except SystemExit:  # Ray's answer to SIGTERM while it starts
        _leave()
    signal.signal(signal.SIGTERM, before)


def _load_spare() -> None:
    _load_driver()
    import pyarrow as pa  # noqa: PLC0415 - see above

    pa.array([])  # Arrow imports pandas with its first array, if installed, which is slow
    from strandline.engine.processes import (  # noqa: PLC0415 - see above
        engine,  # noqa: F401
        fork_server,  # noqa: F401
    )


def _load_driver() -> None:
    from strandline.cli.app import commands  # noqa: F401, PLC0415 - see above
    from strandline.cli.commands.runs import drive  # noqa: F401, PLC0415 - see above


def _fill_streams() -> None:
    """Have standard streams that are closed lead nowhere, here and in what is started.

    The next file to be opened would else be taken for one of them, and each print would write into
    it: it may be the ledger.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free is this one, since those below it are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - its signature
            mode = "w" if number else "r"
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - as long as this
            setattr(sys, name, stream)


def _leave(*_: object) -> None:
    """End at once: nothing was begun, or all of it was put down."""
    sentence = (
        b"strandline: error: the run was stopped during its start; run it again to continue\n"
    )
    try:
        os.write(2, sentence)
    finally:
        os._exit(_INTERRUPTED)


def _leave_quietly(*_: object) -> None:
    os._exit(_KEYS_PRESSED)


if __name__ == "__main__":
    main()
