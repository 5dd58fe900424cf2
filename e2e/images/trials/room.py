"""Runs a command in a sandbox like a pod: a read-only root, /tmp, user 1000, and no network.

`unshare` runs this module in new namespaces, so nothing remains when the command ends. Usage:
`python -m images.trials.room ROOT ENVIRONMENT COMMAND...`, with the environment as JSON. This
module must not depend on the image.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

USER = 1000
DEVICES = ("full", "null", "random", "urandom", "zero")
UNSHARE = (
    "unshare",
    "--mount",
    "--net",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation=private",
)


def main(arguments: Sequence[str]) -> None:
    """Set up the sandbox, and replace this process with the command."""
    root, environment, *command = arguments
    furnish(Path(root))
    os.chroot(root)
    os.chdir("/tmp")  # noqa: S108 - the image's own
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    os.execvpe(command[0], command, json.loads(environment))  # noqa: S606 - that is its task


def furnish(root: Path) -> None:
    """Mount the folders that a container runtime mounts, and make everything else read-only."""
    _run("ip", "link", "set", "lo", "up")
    _run("mount", "--bind", str(root), str(root))
    _run("mount", "-t", "proc", "proc", str(root / "proc"))
    _run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(root / "tmp"))
    _make_devices(root / "dev")
    _run("mount", "-o", "remount,bind,ro", str(root))


def _make_devices(location: Path) -> None:
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(location))
    for name in DEVICES:
        (location / name).touch()
        _run("mount", "--bind", f"/dev/{name}", str(location / name))
    for name, target in (("fd", "/proc/self/fd"), ("stderr", "fd/2"), ("stdout", "fd/1")):
        (location / name).symlink_to(target)
    (location / "shm").mkdir()
    _run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(location / "shm"))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
