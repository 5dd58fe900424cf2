"""Registry of table formats, and the protocol of their modules.

A format's module and library are loaded only when a table of that format is opened. The registry
must not depend on tasks or stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol

import pyarrow as pa

from strandline.data.shipments.shipment import PushResult, TargetRefusedError
from strandline.data.tables.formats.changes import TablePush, push_until_whole, require_tabular
from strandline.data.tables.formats.table_state import TableState
from strandline.plan.errors import StrandlineError
from strandline.plan.packages import load_module
from strandline.storage.outputs.remote import resolve_location


class TableFormat(NamedTuple):
    """A table format.

    Attributes:
        package: library that the format's module needs.
        form: syntax of a table's name, which follows the format's name and a colon.
        is_location: True if the name of a table is its folder or URL.
    """

    package: str
    form: str = "TABLE"
    is_location: bool = True


# Each key is the name of a module in this package.
FORMATS = {
    "delta": TableFormat("deltalake"),
    "iceberg": TableFormat("pyiceberg", "CATALOG/NAMESPACE.TABLE", is_location=False),
    "lance": TableFormat("lance"),
}
_VERSION_BYTES = 16
_NAMES = [f"{kind}:{each.form}" for kind, each in FORMATS.items()]
FORMS = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


class TableError(OSError):
    """Raised if a table can't be read. The message gives the reason."""


class VersionFile(NamedTuple):
    """A data file of a table.

    Attributes:
        name: name relative to the table. The name is the same in each version that has the file.
        version: changes if deletions or rewritten columns change the rows.
    """

    name: str
    version: str


class TableSnapshot(Protocol):
    """An immutable version of a table.

    Attributes:
        number: number of the version, or None if the table has no version yet.
        schema: schema of all rows.
    """

    number: int | None
    schema: pa.Schema

    def list_files(self) -> Iterator[VersionFile]:
        """Yield the data files."""

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file, without deleted rows.

        Args:
            columns: existing columns to read, or None for all columns.
            most_rows: maximum number of rows of each table.

        Raises:
            KeyError: if there is no file with that name.
        """


class FormatModule(Protocol):
    """Protocol of a format's module. Names of tables are passed without the format.

    Attributes:
        ERRORS: exceptions that the format's library raises to reject a push.
    """

    ERRORS: tuple[type[Exception], ...]

    def open_version(self, name: str, number: int | None) -> TableSnapshot:
        """Open a table at a version, or at the current version if `number` is None.

        Raises:
            TableError: if the version is missing or can't be read.
        """

    def inspect(self, name: str) -> TableState | None:
        """Return the state of a table, or None if the table is missing."""

    def commit(self, push: TablePush, *, is_forced: bool) -> PushResult:
        """Make a table contain the data set in one commit, unless the last commit already did so.

        Args:
            is_forced: True to commit even if the last commit has the same revision.

        Raises:
            BadTargetError: if the name has an invalid form.
            UnfitForPushError: if a file is missing, or its bytes differ from the ledger's record.
            TargetRefusedError: if the table belongs to another owner, or can't store these columns.
            VolumeError, CredentialsRefusedError: if the table's files can't be written.
        """

    def find_difference(self, push: TablePush) -> str | None:
        """Describe how visible rows differ from the data set, or return None if they match."""


def find_kind(table: str) -> str | None:
    """Return the format at the start of a table's name, or None if the format is unknown."""
    kind = table.partition(":")[0]
    return kind if kind in FORMATS else None


def locate_table(table: str) -> str:
    """Return a table's name without the format, in a form independent of the working directory."""
    kind = table.partition(":")[0]
    name = table.removeprefix(f"{kind}:")
    return resolve_location(name) if FORMATS[kind].is_location else name


def load_format(kind: str) -> FormatModule:
    """Return the module of a format.

    Raises:
        ImportError: if the library is missing; the message explains how to install it.
    """
    load_module(FORMATS[kind].package)
    module: FormatModule = load_module(f"{__package__}.{kind}")
    return module


def open_snapshot(table: str, number: int | None = None) -> TableSnapshot:
    """Open a table at a version.

    Args:
        table: name of the table, in one of the `FORMS`.
        number: number of the version or snapshot, or None for the current version.

    Raises:
        TableError: if the table or version is missing, or uses unsupported features.
    """
    kind, _, rest = table.partition(":")
    try:
        module = load_format(kind)
    except ImportError as error:
        raise TableError(f"{table}: {error}") from error
    return module.open_version(rest, number)


def digest_parts(parts: Iterable[str]) -> str:
    """Return a version that changes if any of the parts changes."""
    return blake2b("\n".join(parts).encode(), digest_size=_VERSION_BYTES).hexdigest()


def push_to_table(kind: str, push: TablePush) -> PushResult:
    """Make a table contain exactly the data set.

    Raises:
        BadTargetError, UnfitForPushError, TargetRefusedError, VolumeError, CredentialsRefusedError:
            see `FormatModule.commit`.
    """
    require_tabular(push.shipment)
    module = load_format(kind)
    commit: Callable[..., PushResult] = partial(module.commit, push)
    try:
        return push_until_whole(push.name, commit, partial(module.find_difference, push))
    # Raise our own errors unchanged: a format's ERRORS may include all exceptions.
    except StrandlineError:
        raise
    except module.ERRORS as error:
        what = " ".join(str(error).split())
        raise TargetRefusedError(f"{push.name}: the table rejected the write ({what})") from error
