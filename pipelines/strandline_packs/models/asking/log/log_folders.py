"""Finds, measures, and prunes the logs of a stage.

The module reads only logs in files; for logs in a store, only the location is known. The module
must not depend on the callers that send requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from strandline.data.files.globs import is_url
from strandline.plan.stages.stage import Stage
from strandline_packs.models.asking.answers import BYTES_OF_TOKEN, Usage
from strandline_packs.models.asking.log.log_blocks import LogEntry, find_blocks
from strandline_packs.models.asking.log.request_log import (
    FileLog,
    list_files,
    open_reader,
    prune_file,
)
from strandline_packs.models.asking.parameters import AskParams
from strandline_packs.models.asking.spending.account import FILE_NAME, Account
from strandline_packs.models.asking.spending.terms import (
    SpendingTerms,
    SpentTotals,
    TokenPrices,
)


class LogSize(NamedTuple):
    """Size of a stage's log: answers, files, and bytes on the disk."""

    requests: int
    files: int
    bytes: int


class LogFolder(NamedTuple):
    """The folder with the logs of a stage, and the stage's token prices."""

    stage: str
    path: Path
    prices: TokenPrices | None = None

    def measure(self) -> LogSize:
        """Return the size of the log. Requests in damaged blocks do not count.

        Raises:
            VolumeError: a file can't be read.
        """
        size = LogSize(0, 0, 0)
        for file in list_files(self.path):
            with open_reader(file) as (reader, length):
                requests = sum(len(block.digests) for block in find_blocks(reader, 0, length))
            size = LogSize(size.requests + requests, size.files + 1, size.bytes + length)
        return size

    def count_spent(self) -> SpentTotals:
        """Return the usage of all readable answers in the logs.

        Raises:
            VolumeError: a log can't be read.
        """
        spent = SpentTotals()
        for answer in (entry.answer for entry in self.read()):
            usage = Usage(answer.prompt_tokens, answer.completion_tokens)
            # Estimate the tokens of an answer if the server reported no counts.
            if usage == Usage() and answer.vector is None:
                usage = Usage(0, len(answer.text) // BYTES_OF_TOKEN, is_known=False)
            spent = spent.add(usage)._replace(requests=spent.requests + 1)
        return spent

    def read(self) -> Iterator[LogEntry]:
        """Yield the readable entries of the logs, file by file.

        Raises:
            VolumeError: a log can't be read.
        """
        for file in list_files(self.path):
            yield from FileLog(file).read()

    def prune(self, before: float) -> int:
        """Remove entries older than a point in time, and return the number of removed requests.

        Raises:
            VolumeError: a log can't be read or written.
        """
        return sum(prune_file(file, before) for file in list_files(self.path))


def locate_log(requests: str | None, volume_folder: Path | None, stage: str) -> str | None:
    """Return the folder or URL of a stage's logs, or None if the stage keeps no log.

    Args:
        requests: location from the pipeline, or None.
        volume_folder: the pipeline's folder on the volume.
    """
    if requests is not None:
        return requests
    return None if volume_folder is None else str(volume_folder / "requests" / stage)


def open_account(
    folder: str | None, terms: SpendingTerms, name: str, time: Callable[[], float]
) -> Account:
    """Return the account of a stage, a file next to the stage's logs.

    Args:
        folder: folder that all workers share, usually with the logs on the volume.
        name: name of the stage in messages.
        time: clock in seconds since the epoch.

    Raises:
        ValueError: `folder` is None.
    """
    if folder is None:
        msg = (
            "`budget` and rates are counted in a folder that all workers reach: mount the volume "
            "on their nodes, or name a shared folder by `requests`"
        )
        raise ValueError(msg)
    logs = LogFolder(name, Path(folder))
    return Account(logs.path / FILE_NAME, terms, name, time, logs.count_spent)


def find_folder(stage: Stage, name: str, volume_folder: Path) -> LogFolder | str | None:
    """Return the folder or URL of a stage's logs, or None if the stage has no log."""
    if not isinstance(stage.params, AskParams):
        return None
    found = locate_log(stage.params.requests, volume_folder, name)
    if found is None or is_url(found):
        return found
    params = stage.params
    return LogFolder(name, Path(found), None if params.prices is None else params.spending.prices)
