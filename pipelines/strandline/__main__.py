"""Entry points of the `strandline` and `kubectl strandline` commands.

A user may press Ctrl-C while the program is loading, so the module handles the signal before it
imports anything large.
"""

from __future__ import annotations

# `_signal` is the built-in part of `signal`, so this import reads no file.
import _signal as signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

# Exit codes after Ctrl-C during the start. Commands that run attempts exit with the code for "run
# it again"; other commands exit as a shell's commands do.
_INTERRUPTED, _KEYS_PRESSED = 75, 130
_ATTEMPTS = frozenset({"run", "drive", "retry"})
_OTHER_ENGINES = frozenset({"ray", "inline", "--engine=ray", "--engine=inline"})  # fork nothing
# Number of new objects between two garbage collections. With Python's default, a seventh of the
# load time goes into searches through newly loaded modules, which contain no garbage.
NEW_OBJECTS = 50_000
_ended_with: list[object] = []  # exit code of the finished command


def main_on_cluster() -> None:
    """Run the `kubectl strandline` command and exit with its code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave_quietly)
    _fill_streams()
    from strandline.cli.commands.cluster.plugin import plugin  # noqa: PLC0415 - the same

    # The command deletes the Jobs that it has created, so raise KeyboardInterrupt from now on
    # instead of exiting directly.
    if signal.getsignal(signal.SIGINT) is _leave_quietly:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plugin.main(prog_name="kubectl strandline")


def main() -> None:
    """Run the `strandline` command and exit with its code.

    The working directory is added to the import path, so that a manifest can name local classes as
    `module:Class`.
    """
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(_skip_teardown)  # registered first, so called last
    makes_attempts = bool(_ATTEMPTS.intersection(sys.argv[1:2]))
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored in background jobs
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
        # Python removes its signal handlers before the process ends, so a late Ctrl-C would kill a
        # command that has already finished.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # If a KeyboardInterrupt leaves code compiled from a string (dataclasses compile such code),
        # Python remembers the interrupt and ends by SIGINT, regardless of the exit code. Executing
        # another string clears this memory.
        exec("")  # noqa: S102


def _skip_teardown() -> None:
    """Exit without tearing down modules, which takes a third of a second.

    Also, if the process ends while Arrow starts a thread, Arrow's thread pool aborts the process.
    This happens about once in several hundred exits, after all work is done.
    """
    code = _ended_with[-1] if _ended_with else None
    if not isinstance(code, int):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # the stream is closed or broken
        return
    os._exit(code)


def _fork_driver() -> None:
    """Fork the driver of `run`. In the child, return once the parent orders a driver."""
    # Large modules that the command and its driver need. They start no thread.
    from strandline.run.manifest import yaml_file  # noqa: F401, PLC0415 - see above
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
    """Start what the parent expects this driver to need, before the driver loads any modules."""
    from strandline.run.supervise.variables import (  # noqa: PLC0415 - it loads nothing
        AHEAD,
        ALL,
        FORKS,
    )

    if is_fork and FORKS not in os.environ:
        _end_forks()
    if FORKS not in os.environ and AHEAD not in os.environ:
        return
    # The started processes must not inherit the variables, but later code reads them again.
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


def _end_forks() -> None:
    from strandline.engine.processes.fork_program import (  # noqa: PLC0415 - loaded before
        end_ahead,
    )

    end_ahead()


def _start_ray(workers: str) -> None:
    """Start a local Ray instance.

    Meanwhile, load the driver's modules, which takes about as long.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        from strandline.engine.ray.connection import start_ahead  # noqa: PLC0415 - the first of all

        start_ahead(int(workers) if workers else None, _load_driver)
    except ImportError:  # the engine reports later that Ray is missing
        return
    except SystemExit:  # Ray exits on SIGTERM during its start
        _leave()
    signal.signal(signal.SIGTERM, before)


def _load_spare() -> None:
    if not _OTHER_ENGINES.intersection(sys.argv):
        # The program loads its modules, for example Arrow and pandas, while this process loads the
        # driver's. If the order is to start no program, or another, this one is ended.
        _start_forks(is_fork=True)
    _load_driver()
    from strandline.engine.processes import engine  # noqa: F401, PLC0415 - see above


def _load_driver() -> None:
    from strandline.cli.app import commands  # noqa: F401, PLC0415 - see above
    from strandline.cli.commands.runs import drive  # noqa: F401, PLC0415 - see above


def _fill_streams() -> None:
    """Connect closed standard streams to the null device, in this process and its children.

    Otherwise the next opened file, for example the ledger, would get the descriptor of a standard
    stream, and every print would write into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # `os.open` returns the lowest free descriptor, which is `number`: all lower descriptors
            # are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - its signature
            mode = "w" if number else "r"
            stream = open(number, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - as long as this
            setattr(sys, name, stream)


def _leave(*_: object) -> None:
    """Exit immediately: no work has begun, or everything started so far has been stopped."""
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
