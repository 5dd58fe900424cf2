"""What one commit changes in a table: which files it adds and which it removes. Pure.

The name of a file in a table has a digest of its bytes, so that the file of a source that changed
is another one, readers of former snapshots keep theirs, and a source that did not change costs
nothing. It must not know any format of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from strandline.run.handover.errors import TargetRefusedError
from strandline.run.handover.shipment import Shipment, ShippedFile

REVISION = "strandline.revision"
PIPELINE = "strandline.pipeline"
SUFFIX = ".parquet"
_DIGITS = 16


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


def require_ours(target: str, pipeline: str, properties: Mapping[str, object] | None) -> None:
    """Refuse a table that another has written.

    Args:
        pipeline: namespace and name.
        properties: of the last commit of ours; None: there is none.

    Raises:
        TargetRefusedError: it is another's.
    """
    owner = None if properties is None else properties.get(PIPELINE)
    if owner != pipeline:
        whose = f"the pipeline {owner}" if owner else "somebody else"
        raise TargetRefusedError(
            f"{target}: {whose} has written this table, and a push replaces all rows of one; name "
            "another table"
        )
