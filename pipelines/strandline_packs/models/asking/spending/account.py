"""The account of a stage: a small file that the workers of a pipeline share under a lock.

If the account is missing or damaged, the usage in the stage's logs is the initial state. The module
must not depend on the content of requests.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from strandline.plan.errors import BudgetSpentError
from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder
from strandline.storage.outputs.disk.own_handles import locking
from strandline.storage.outputs.disk.whole_files import open_locked
from strandline_packs.models.asking.answers import BYTES_OF_TOKEN, Usage
from strandline_packs.models.asking.spending.terms import NextTimes, SpendingTerms, SpentTotals

FILE_NAME = "spent.account"
_CONTENT = Struct(">QQQQddd")  # `SpentTotals`, then `NextTimes`
_OLD_CONTENT = Struct(">QQQdd")  # lacks the estimates and the clock time
_CHECK_BYTES = 8


class Grant(NamedTuple):
    """Permission for a request.

    Attributes:
        wait: seconds until the next attempt to get permission; 0 if the request is allowed.
        tokens: tokens reserved for the request until its usage is reported.
    """

    wait: float
    tokens: int = 0


class Account:
    """The shared spending of a stage, which permits or delays further requests.

    Args:
        path: path of the file, in a folder that all workers share.
        terms: spending limits.
        name: name of the stage in messages.
        time: clock in seconds since the epoch.
        count_before: returns the usage to start with if the file is missing or damaged.
    """

    def __init__(
        self,
        path: Path,
        terms: SpendingTerms,
        name: str,
        time: Callable[[], float],
        count_before: Callable[[], SpentTotals],
    ) -> None:
        self._path, self._terms, self._name = path, terms, name
        self._time, self._count_before = time, count_before
        self._workers = path.with_suffix(".workers")

    def take(self, size: int) -> Grant:
        """Reserve and count a request, or return the time to wait.

        Args:
            size: size of the request's body in bytes.

        Raises:
            BudgetSpentError: the budget is spent.
            VolumeError: the file can't be read or written.
        """
        now = self._time()
        with naming_volume(self._path), open_locked(self._path) as file:
            spent, found = self._read(file)
            end = self._terms.find_end(spent)
            if end is not None:
                msg = f"{self._name}: its budget is spent ({end}); raise `budget` to continue"
                raise BudgetSpentError(msg)
            times = found.follow_clock(now)
            wait = times.find_wait(self._terms, now)
            if wait > 0:
                # Store times only if the clock was set back; a refused request changes nothing
                # else.
                if times != found:
                    _write(file, spent, times)
                return Grant(wait)
            # Reserve the average of earlier requests. The first request counts by size.
            tokens = spent.tokens // spent.requests if spent.tokens else size // BYTES_OF_TOKEN
            counted = spent._replace(requests=spent.requests + 1)
            _write(file, counted, times.take(self._terms, tokens, now))
        return Grant(0.0, tokens)

    def settle(self, grant: Grant, usage: Usage) -> None:
        """Replace the reservation of a request with its actual usage.

        Raises:
            VolumeError: the file can't be read or written.
        """
        more = usage.prompt + usage.completion - grant.tokens
        with naming_volume(self._path), open_locked(self._path) as file:
            spent, times = self._read(file)
            _write(file, spent.add(usage), times.correct(self._terms, more))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Mark this worker as busy while requests are in flight or answers are not durable.

        The mark is a lock on a file, so it disappears if this process dies.

        Raises:
            VolumeError: the file can't be opened.
        """
        make_folder(self._path.parent)
        with naming_volume(self._workers):
            file = self._workers.open("ab")
        with file, locking(file.fileno(), fcntl.LOCK_SH):
            yield

    def is_at_rest(self) -> bool:
        """Return whether no worker is busy: see `working`.

        Raises:
            VolumeError: the file can't be opened.
        """
        with naming_volume(self._workers), self._workers.open("ab") as file:
            # An exclusive lock fails while any worker holds a shared lock.
            try:
                with locking(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB):
                    return True
            except BlockingIOError:
                return False

    def _read(self, file: BinaryIO) -> tuple[SpentTotals, NextTimes]:
        found = unpack_account(file.read())
        return found if found is not None else (self._count_before(), NextTimes())


def read_spent(folder: Path) -> SpentTotals | None:
    """Return the totals in a stage's account, or None if there is no valid account.

    Args:
        folder: folder with the logs of the stage.

    Raises:
        OSError: the account can't be read.
    """
    try:
        found = unpack_account((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return None
    return None if found is None else found[0]


def unpack_account(data: bytes) -> tuple[SpentTotals, NextTimes] | None:
    """Return the content of an account, or None if the account is empty or damaged."""
    for layout in (_CONTENT, _OLD_CONTENT):
        content, check = data[: layout.size], data[layout.size :]
        if len(content) == layout.size and check == _check(content):
            fields = layout.unpack(content)
            if layout is _OLD_CONTENT:  # this layout lacks the clock's time, so the rates restart
                return SpentTotals(*fields[:3]), NextTimes()
            return SpentTotals(*fields[:4]), NextTimes(*fields[4:])
    return None


def _write(file: BinaryIO, spent: SpentTotals, times: NextTimes) -> None:
    """Write an account in a single step. The next lock holder, on any node, reads the new state.

    The write is not synced. If the node crashes, usage may be lost, and the same amount can be
    spent again.
    """
    content = _CONTENT.pack(*spent, *times)
    file.seek(0)
    file.write(content + _check(content))
    file.flush()


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_CHECK_BYTES).digest()
