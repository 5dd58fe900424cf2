"""Manages a node's lifecycle from outside: a lock on its folder, its namespaces, and cleanup.

Three processes watch each other. The process that the user started holds the terminal; a keeper
holds the lock and cleans up; the first process of the namespaces does the rest. If any of the three
is killed, the others end everything that remains. This module must not depend on the parts of a
node.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, MappingProxyType

from real_node import cgroups, layout
from real_node.binaries import provide_binaries, provide_packages
from real_node.errors import NodeError

NAMESPACES = ("--net", "--mount", "--pid", "--uts", "--ipc")
# Slave mounts propagate the machine's unmounts to the node, but no mount of the node to the
# machine.
UNSHARE = (
    *("setpriv", "--pdeathsig=KILL", "unshare", *NAMESPACES),
    *("--propagation=slave", "--kill-child", "--mount-proc"),
)
KEEP = ("setpriv", "--pdeathsig=TERM")
HIDDEN = (Path("/run"), Path("/var/log"))
PID = "pid"
KILLED = 128 + signal.SIGKILL


def bring_up(
    folder: Path,
    command: Sequence[str],
    report: Callable[[str], None],
    also: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Start a node, run a command on it, shut the node down, and return the exit code.

    Args:
        folder: folder of the node; its logs remain afterwards.
        command: command with its arguments. If empty, the node runs until Ctrl-C.
        report: called with messages for the user.
        also: additional programs that the command needs, with their Debian packages.

    Raises:
        NodeError: if no node can run here, or if one is already running.
    """
    check_folder(folder)
    provide_packages(report, also)
    built = provide_binaries(report)
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        pass  # fail before any process starts if a node is running
    words = (str(folder), str(built.cluster), str(built.dns), str(built.pause), *command)
    keeper = subprocess.Popen([*KEEP, *build_call("keep"), *words], env=describe_environment())
    code = wait_for(keeper, lambda: keeper.send_signal(signal.SIGTERM))
    if code < 0:
        sweep(folder)
    return code if code >= 0 else 128 - code


def keep(folder: Path, words: Sequence[str]) -> int:
    """Run the first process of a node in new namespaces, with cleanup before and after.

    Raises:
        NodeError: if a node is running already, or leftovers cannot be removed.
    """
    with lock(folder):
        clear(folder)
        for name in (layout.STATE, layout.LOG_FOLDER):
            (folder / name).mkdir(mode=0o755)
        unshare = subprocess.Popen([*UNSHARE, *build_call("supervise"), str(folder), *words])
        (folder / PID).write_text(f"{unshare.pid}\n", encoding="ascii")
        code = wait_for(unshare, lambda: stop_first(unshare.pid))
        ended = (folder / layout.ENDED).exists()
        clear(folder, logs=False)
    return code if ended else KILLED


def wait_for(process: subprocess.Popen[bytes], stop: Callable[[], None]) -> int:
    """Wait for a process. Pass SIGTERM to the process; Ctrl-C reaches it anyway."""

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            stop()

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()


def build_call(part: str) -> tuple[str, ...]:
    """Return the command line that runs an internal command of this package."""
    return (sys.executable, "-m", "real_node", part)


def describe_environment() -> dict[str, str]:
    """Return this process's environment, extended so that this package is importable everywhere."""
    ours = str(Path(__file__).parents[2])
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([ours, *others])}


def find_first(unshare: int) -> int | None:
    """Return the first process in an `unshare` process's namespaces, or None if it has ended."""
    with suppress(OSError):
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def find_node(folder: Path) -> int:
    """Return the first process of a running node.

    Raises:
        NodeError: if no node is running.
    """
    with suppress(OSError):
        first = find_first(int((folder / PID).read_text()))
        if first and (folder / layout.ENVIRONMENT).exists():
            return first
    raise NodeError(f"no node is up in {folder}")


def enter(folder: Path, command: Sequence[str]) -> int:
    """Run a command on a running node, with the environment of the node's own command.

    Raises:
        NodeError: if no node is running.
    """
    first = find_node(folder)
    ours: dict[str, str] = json.loads((folder / layout.ENVIRONMENT).read_text(encoding="utf-8"))
    nsenter = ("nsenter", f"--target={first}", "--all", "env", f"--chdir={Path.cwd()}")
    done = subprocess.run([*nsenter, *command], env={**os.environ, **ours}, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def stop_first(unshare: int) -> None:
    """Request the first process to end."""
    first = find_first(unshare)
    os.kill(first or unshare, signal.SIGTERM if first else signal.SIGKILL)


def check_folder(folder: Path) -> None:
    """Check that a node can run in the folder.

    Raises:
        NodeError: if the folder is unsuitable. The message contains the remedy.
    """
    if os.geteuid():
        raise NodeError("a node needs root: it makes namespaces, mounts and cgroups")
    for hidden in HIDDEN:
        if folder.is_relative_to(hidden.resolve()):
            raise NodeError(f"a node has a {hidden} of its own: name a folder outside of it")


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder during the block.

    Raises:
        NodeError: if a node is running in that folder.
    """
    with (folder / layout.LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NodeError(f"a node is already up in {folder}") from None
        yield


def sweep(folder: Path) -> None:
    """Remove leftovers of a killed node. Its logs stay.

    Raises:
        NodeError: if the node is running, or leftovers cannot be removed.
    """
    if folder.is_dir():
        with lock(folder):
            clear(folder, logs=False)


def clear(folder: Path, *, logs: bool = True) -> None:
    """Remove cgroups and state. Also remove the logs if a new node starts.

    Raises:
        NodeError: if something cannot be removed.
    """
    stubborn = cgroups.sweep_cgroups(layout.name_cgroup(folder))
    if stubborn:
        raise NodeError(f"cannot remove the cgroup {stubborn[0]}: it has processes that don't die")
    (folder / PID).unlink(missing_ok=True)
    (folder / layout.KUBECONFIG).unlink(missing_ok=True)
    for name in (layout.STATE, *([layout.LOG_FOLDER] if logs else [])):
        if (folder / name).exists():
            shutil.rmtree(folder / name)
