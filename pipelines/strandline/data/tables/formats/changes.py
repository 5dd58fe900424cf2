"""Computes the changes of a commit to a table: added and removed files.

The name of a file in a table includes a digest of its bytes. A changed source therefore gets a new
file, readers of earlier snapshots keep the previous file, and unchanged sources cause no work. This
module has no side effects, and must not depend on any table format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import PushResult, Shipment, ShippedFile, TargetRefusedError

SUFFIX = ".parquet"
# Hexadecimal digits of the digest in a name: 64 bits are enough to distinguish versions of a file.
_DIGITS = 16
_MOST_COMMITS = 4  # maximum per push, if another writer commits at the same time


class TablePush(NamedTuple):
    """A push of a data set to a table.

    Attributes:
        contents: reads the bytes of the files.
        name: name of the table, without the format.
        time: wall clock, in seconds since the epoch.
        fence: raises an error if the pushing attempt has lost the ledger's lease.
    """

    shipment: Shipment
    contents: Contents
    name: str
    time: Callable[[], float]
    fence: Callable[[], None]


class TableChanges(NamedTuple):
    """The changes of a commit.

    Attributes:
        added: files by their new names, relative to the table's folder.
        removed: names of files in the table that the data set lacks.
    """

    added: Mapping[str, ShippedFile]
    removed: frozenset[str]


def name_data_file(file: ShippedFile) -> str:
    """Return the name of a file in a table, relative to the table's folder."""
    return f"{file.name.removesuffix(SUFFIX)}.{file.digest.hex()[:_DIGITS]}{SUFFIX}"


def find_changes(shipment: Shipment, there: Iterable[str]) -> TableChanges:
    """Return the changes that give a table exactly the files of the data set.

    Args:
        there: names of the files currently in the table.
    """
    wanted = {name_data_file(file): file for file in shipment.files if file.name.endswith(SUFFIX)}
    known = frozenset(there)
    added = {name: file for name, file in wanted.items() if name not in known}
    return TableChanges(added, known - wanted.keys())


def push_until_whole(
    target: str,
    push: Callable[..., PushResult],
    find_difference: Callable[[], str | None],
) -> PushResult:
    """Push, and repeat if another writer has committed between our listing and our commit.

    Args:
        push: makes one commit. With `is_forced`, `push` commits even if our last commit has this
            revision.
        find_difference: returns the difference between visible rows and the data set, or None.

    Raises:
        TargetRefusedError: if there is still a difference after several commits.
    """
    result = push(is_forced=False)
    difference = find_difference() if result.is_new else None
    for _ in range(_MOST_COMMITS - 1):
        if difference is None:
            break
        again = push(is_forced=True)
        result = result._replace(files=result.files + again.files)
        difference = find_difference()
    if difference is not None:
        raise TargetRefusedError(
            f"{target}: another writer changed the table during the push ({difference}); push "
            "again when there is no other writer"
        )
    return result


def describe_difference(
    shipment: Shipment, there: Iterable[str], rows: int | None = None
) -> str | None:
    """Describe how a table's files and rows differ from the data set, or return None if equal.

    Args:
        there: names of the files in the table.
        rows: number of rows visible to readers, or None if unknown.
    """
    added, removed = find_changes(shipment, there)
    if added or removed:
        return f"{len(added)} files are missing and {len(removed)} belong to another writer"
    if rows is not None and rows != shipment.rows:
        return f"readers see {rows:,} rows, but {shipment.rows:,} were pushed"
    return None


def require_parquet(what: str, file: str) -> None:
    """Raise an error if a file is not Parquet.

    Args:
        what: subject of the error message.
        file: name of the file, or its suffix.

    Raises:
        TargetRefusedError: if the file is not Parquet.
    """
    if not file.endswith(SUFFIX):
        raise TargetRefusedError(f"{what}: tables support only Parquet; use the sink parquet")


def require_tabular(shipment: Shipment) -> None:
    """Check before any write that a data set is not empty, and has only Parquet files.

    Raises:
        TargetRefusedError: if the data set is empty or has other files.
    """
    for file in shipment.files:
        require_parquet(file.name, file.name)
    if not shipment.files:
        raise TargetRefusedError("the data set has no files, so the table would have no columns")
