"""Fault injection for tests: makes a step fail. Inactive unless the environment names a step.

`STRANDLINE_FAULT=step:action[:nth]` arms a fault for a process and its children: when `step` is
reached for the nth time (1 by default), the process is killed (`kill`), or the step raises the
error `enospc` or `eio`. `STRANDLINE_FAULT_LOG` names a file that receives a line before the fault
fires. With this file, a test can prove that the fault happened, and happened only once across all
processes.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter

STEPS = (
    "listing.marked",
    "output.placed",
    "output.opened",
    "output.written",
    "output.synced",
    "output.renamed",
    "piece.kept",
    "source.settled",
    "commit.begun",
    "shard.appended",
    "shard.synced",
    "commit.written",
    "commit.synced",
    "commit.cleaned",
    "lease.written",
    "lease.ended",
    "attempt.written",
    "attempt.synced",
    "attempt.renamed",
    "merged.written",
    "merged.synced",
    "pack.written",
    "pack.synced",
    "gather.committed",
    "gather.cleaned",
    "artifacts.written",
    "publication.begun",
    "publication.written",
    "publication.synced",
    "manifest.written",
    "manifest.synced",
    "manifest.renamed",
    "list.written",
    "list.synced",
    "list.renamed",
    "latest.linked",
    "latest.renamed",
    "latest.synced",
    "retention.begun",
    "retention.hidden",
    "retention.removed",
)
# Steps of commands that deliver a data set; runs do not reach them.
STEPS_OF_PUSHES = (
    "push.copied",
    "push.described",
    "push.published",
    "push.uploaded",
    "push.widened",
    "push.committed",
    "push.tagged",
)
ACTIONS = ("kill", "enospc", "eio")

_reached: Counter[str] = Counter()


def reach(step: str) -> None:
    """Report that `step` is reached. Return immediately unless this step is armed.

    Raises:
        OSError: if the armed action is an error.
    """
    armed = os.environ.get("STRANDLINE_FAULT")
    if armed is not None:
        _fire(step, armed)


def _fire(step: str, armed: str) -> None:
    name, _, rest = armed.partition(":")
    action, _, nth = rest.partition(":")
    if name != step:
        return
    _reached[step] += 1
    if _reached[step] != int(nth or 1) or not _claim(f"{step} {action} {os.getpid()}\n"):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    number = {"enospc": errno.ENOSPC, "eio": errno.EIO}[action]
    raise OSError(number, f"{os.strerror(number)} (fault injected at {step})")


def _claim(line: str) -> bool:
    """Write the log line. Return False if the fault has already fired in another process."""
    path = os.environ.get("STRANDLINE_FAULT_LOG")
    if path is None:
        return True
    try:
        # With exclusive creation, only one process succeeds.
        log = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    os.write(log, line.encode())
    os.fsync(log)
    os.close(log)
    return True
