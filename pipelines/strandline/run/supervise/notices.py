"""Passes notices about departing nodes from a driver's parent to the driver, through a file.

This module must not depend on the origin of notices, or on the driver's reaction. It loads no
engine, because the parent must stay small.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from strandline.storage.outputs.disk.whole_files import show_whole

MOST_BYTES = 4096
_MOST_NODES = 10_000
_MOST_NAME = 253  # maximum number of characters in a DNS name
_MOST_WORDS = 500  # maximum number of characters of a reason
_MOST_SECONDS = 1e6  # maximum time until departure: about 11 days
# Seconds after which an expired notice is dropped: the node has stayed, or another node has its
# address by now.
_PAST_SECONDS = 120.0


class NoticeError(ValueError):
    """Raised if the request is not a valid notice. The message has the reason."""


class NodeNotice(NamedTuple):
    """A notice that a node is about to leave.

    Attributes:
        node: address of the node, or its ID in Ray.
        goes_at: time of departure, on the clock that all processes of this machine share
            (`time.monotonic`).
        why: a short reason for people; may be empty.
    """

    node: str
    goes_at: float
    why: str = ""


def parse_notice(body: bytes, now: float) -> NodeNotice:
    """Parse the notice in a request.

    Raises:
        NoticeError: if the request is not a valid notice.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise NoticeError("the body must be JSON") from None
    if not isinstance(content, dict):
        raise NoticeError("the body must be an object")
    node, seconds, why = (content.get(name) for name in ("node", "seconds", "why"))
    if not isinstance(node, str) or not 0 < len(node) <= _MOST_NAME:
        raise NoticeError("`node` must be the address of a node")
    # In Python, a boolean is an int.
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise NoticeError("`seconds` must be a number")
    if not 0 <= seconds <= _MOST_SECONDS:
        raise NoticeError(f"`seconds` must be from 0 to {_MOST_SECONDS:g}")
    if not isinstance(why, str | None):
        raise NoticeError("`why` must be text")
    # Reasons are shown in terminals, where control characters could do harm.
    words = "".join(each if each.isprintable() else " " for each in why or "")
    return NodeNotice(node, now + seconds, words[:_MOST_WORDS])


class NoticeFile:
    """The file of notices, with one writer and any number of readers.

    Args:
        path: path of the file; its folder may be missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._notices: tuple[NodeNotice, ...] = ()

    def clear(self) -> None:
        """Remove the notices of another attempt."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def add(self, notice: NodeNotice, now: float) -> None:
        """Add a notice. If a node has several notices, keep the earliest departure."""
        known = {each.node: each for each in self.read() if each.goes_at > now - _PAST_SECONDS}
        before = known.get(notice.node)
        if before is not None and before.goes_at <= notice.goes_at:
            return
        known[notice.node] = notice
        show_whole(self._path, json.dumps(list(known.values())[-_MOST_NODES:]).encode())

    def read(self) -> tuple[NodeNotice, ...]:
        """Return all notices. Read the file only if it has changed."""
        try:
            status = self._path.stat()
            # Compare inodes too: the file is replaced at every change, and times may be too coarse.
            seen = status.st_ino, status.st_mtime_ns, status.st_size
            if seen != self._seen:
                content = json.loads(self._path.read_bytes())
                self._notices = tuple(NodeNotice(*each) for each in content)
                self._seen = seen
        except (OSError, ValueError, TypeError):
            self._seen, self._notices = None, ()
        return self._notices


class NoticeBoard:
    """Receives notices for a driver.

    Args:
        file: the file that the driver reads.
        leave: called once if the notice is for this machine.
        now: the clock of `NodeNotice`.
        is_own: returns whether an address belongs to this machine.
    """

    def __init__(
        self,
        file: NoticeFile,
        leave: Callable[[], object],
        now: Callable[[], float],
        is_own: Callable[[str], bool],
    ) -> None:
        self._file = file
        self._leave = leave
        self._now = now
        self._is_own = is_own
        self._has_left = False

    def add(self, body: bytes) -> str:
        """Store a notice, and return the name of its node.

        Raises:
            NoticeError: if the request is not a valid notice.
        """
        notice = parse_notice(body, self._now())
        self._file.add(notice, self._now())
        if self._is_own(notice.node) and not self._has_left:
            self._has_left = True  # only once: a second request would end the run immediately
            self._leave()
        return notice.node


def is_own_address(address: str) -> bool:
    """Return True if the name of this machine resolves to an address."""
    with suppress(OSError):
        own = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)}
        return address in own
    return False


def read_pending(shown: object, node: str) -> int | None:
    """Return the number of the run's items on a node, or None if the driver has not reported it."""
    leaving = shown.get("leaving") if isinstance(shown, dict) else None
    pending = leaving.get(node) if isinstance(leaving, dict) else None
    is_count = isinstance(pending, int | float) and math.isfinite(pending)
    return max(0, int(pending)) if is_count and pending is not None else None
