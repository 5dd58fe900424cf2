"""The log of answered requests in an object store: each group of answers is an object.

Objects can't grow, so each name is used once. The module must not depend on rows or servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from strandline.plan.errors import StrandlineError
from strandline.storage.access.refusals import describe_store_error, naming_rejection
from strandline.storage.access.stores import open_store
from strandline.storage.errors import VolumeError
from strandline_packs.models.asking.log.log_blocks import Reader, ReadWindow
from strandline_packs.models.asking.log.request_log import (
    ANSWERS,
    SUFFIX,
    AppendResult,
    LogPart,
)

_AHEAD = 1 << 18  # first read, larger than the directory of a group


class StoreLog:
    """The objects of a log below a URL.

    Args:
        url: URL of the log.
        writer: prefix of this process' object names, unique among processes.
    """

    threads = 16  # concurrent requests to the store

    def __init__(self, url: str, writer: str) -> None:
        self._url = url.rstrip("/")
        self._writer, self._written = writer, 0

    def list_parts(self) -> Sequence[LogPart]:
        """See `RequestLog`.

        Raises:
            VolumeError, CredentialsRefusedError: the store does not answer.
        """
        with self._naming("read"):
            store, root = open_store(self._url)
            try:
                found = store.find(root, detail=True)
            except FileNotFoundError:
                return []
        names = sorted(str(name) for name in found if str(name).endswith(SUFFIX))
        return [LogPart(name, 0, int(found[name]["size"])) for name in names]

    @contextmanager
    def open_part(self, part: LogPart) -> Iterator[Reader]:
        """See `RequestLog`.

        Raises:
            VolumeError, CredentialsRefusedError: the store does not answer.
        """

        def read(start: int, size: int) -> bytes:
            if start >= part.size:
                return b""
            with self._naming("read"):
                store, _ = open_store(self._url)
                try:
                    end = min(start + size, part.size)
                    return bytes(store.cat_file(part.name, start=start, end=end))
                except FileNotFoundError:  # removed by a lifecycle rule of the store
                    return b""

        yield ReadWindow(read, _AHEAD)

    def append(self, block: bytes) -> AppendResult:
        """See `RequestLog`; a written object is durable without a sync.

        Raises:
            VolumeError, CredentialsRefusedError: the store rejects the object.
        """
        with self._naming("written"):
            store, root = open_store(self._url)
            folder = f"{root.rstrip('/')}/{ANSWERS}"
            name = f"{folder}/{self._writer}-{self._written:06d}{SUFFIX}"
            self._written += 1
            store.makedirs(folder, exist_ok=True)
            store.pipe_file(name, block)
        return AppendResult(LogPart(name, 0, len(block)), 0)

    def sync(self) -> None:
        """See `RequestLog`."""

    @contextmanager
    def _naming(self, done: str) -> Iterator[None]:
        try:
            with naming_rejection(self._url):
                yield
        except StrandlineError:
            raise
        except Exception as error:  # store libraries define many error classes
            why = describe_store_error(error)
            msg = f"{self._url}: the log of requests can't be {done} ({why})"
            raise VolumeError(msg) from error
