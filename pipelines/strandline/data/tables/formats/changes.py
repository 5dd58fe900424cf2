"""What one commit changes in a table: which files it adds and which it removes. Pure.

The name of a file in a table has a digest of its bytes, so that the file of a source that changed
is another one, readers of former snapshots keep theirs, and a source that did not change costs
nothing. It must not know any format of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import PushResult, Shipment, ShippedFile, TargetRefusedError

SUFFIX = ".parquet"
_DIGITS = 16
_MOST_COMMITS = 4  # in a push, where another writer commits too


class TablePush(NamedTuple):
    """A data set on its way into a table.

    Attributes:
        contents: the bytes of its files.
        name: of the table, without the format.
        time: wall clock, seconds since the epoch.
        fence: raises where the attempt that pushes is not the ledger's any more.
    """

    shipment: Shipment
    contents: Contents
    name: str
    time: Callable[[], float]
    fence: Callable[[], None]


class TableChanges(NamedTuple):
    """What a commit changes.

    Attributes:
        added: files by the names that they get below the table's folder.
        removed: names of the files that the table has and the data set does not.
    """

    added: Mapping[str, ShippedFile]
    removed: frozenset[str]


def name_data_file(file: ShippedFile) -> str:
    """Return the name of a file below a table's folder."""
    return f"{file.name.removesuffix(SUFFIX)}.{file.digest.hex()[:_DIGITS]}{SUFFIX}"


def find_changes(shipment: Shipment, there: Iterable[str]) -> TableChanges:
    """Return what makes a table hold the data set and nothing else.

    Args:
        there: names of the files that the table has now.
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
    """Push, and again where another writer's commit came between our listing and our commit.

    Args:
        push: makes one commit; with `is_forced` also where the last one of ours has this revision.
        find_difference: returns how what readers see differs from the data set; None: not at all.

    Raises:
        TargetRefusedError: it differs after several commits.
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
            f"{target}: another writer has changed the table while it was pushed ({difference}); "
            "push again when no other writes there"
        )
    return result


def describe_difference(
    shipment: Shipment, there: Iterable[str], rows: int | None = None
) -> str | None:
    """Return how files and rows of a table differ from the data set; None: not at all.

    Args:
        there: names of the files that the table has.
        rows: that readers see; None: not known.
    """
    added, removed = find_changes(shipment, there)
    if added or removed:
        return f"{len(added)} files are missing and {len(removed)} are of another writer"
    if rows is not None and rows != shipment.rows:
        return f"readers see {rows:,} rows and {shipment.rows:,} were pushed"
    return None


def require_parquet(what: str, file: str) -> None:
    """Refuse a file that no table takes.

    Args:
        what: the sentence is about.
        file: name of the file, or the end of it.

    Raises:
        TargetRefusedError: it is no Parquet.
    """
    if not file.endswith(SUFFIX):
        raise TargetRefusedError(f"{what}: a table takes Parquet alone; use the sink parquet")


def require_tabular(shipment: Shipment) -> None:
    """Refuse a data set that is not all Parquet, or is empty, before anything is written.

    Raises:
        TargetRefusedError: it is.
    """
    for file in shipment.files:
        require_parquet(file.name, file.name)
    if not shipment.files:
        raise TargetRefusedError("the data set has no file, so a table would have no columns")
