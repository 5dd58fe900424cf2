"""The formats of tables, a line each, and what a module of a format does.

A format's module and its library are loaded only where a table of the format is opened. The
registry must not know tasks or stages.
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
    """A format of tables.

    Attributes:
        package: the library that its module needs.
        form: how users name a table after the format and a colon.
        is_location: a table is named by its folder or URL.
    """

    package: str
    form: str = "TABLE"
    is_location: bool = True


# A format is a module beside this one, with the name of its line.
FORMATS = {
    "delta": TableFormat("deltalake"),
    "iceberg": TableFormat("pyiceberg", "CATALOG/NAMESPACE.TABLE", is_location=False),
    "lance": TableFormat("lance"),
}
_VERSION_BYTES = 16
_NAMES = [f"{kind}:{each.form}" for kind, each in FORMATS.items()]
FORMS = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


class TableError(OSError):
    """A table that can't be read as it is; the message says why."""


class VersionFile(NamedTuple):
    """A data file of a table.

    Attributes:
        name: below the table, the same in each version that has the file.
        version: changes where its rows do: by deletions, or by columns that are written.
    """

    name: str
    version: str


class TableSnapshot(Protocol):
    """One version of a table; what it has never changes.

    Attributes:
        number: of the version; None: the table has none yet.
        schema: of all its rows.
    """

    number: int | None
    schema: pa.Schema

    def list_files(self) -> Iterator[VersionFile]:
        """Yield its data files."""

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file that are not deleted.

        Args:
            columns: to read, which it has; None: all.
            most_rows: of each table.

        Raises:
            KeyError: it has no such file.
        """


class FormatModule(Protocol):
    """A module of a format; names of tables come without the format.

    Attributes:
        ERRORS: exceptions of its library that refuse a push.
    """

    ERRORS: tuple[type[Exception], ...]

    def open_version(self, name: str, number: int | None) -> TableSnapshot:
        """Open a table at a version; None is the current one.

        Raises:
            TableError: the version is missing, or can't be read.
        """

    def inspect(self, name: str) -> TableState | None:
        """Return the state of a table, or None if there is no such table."""

    def commit(self, push: TablePush, *, is_forced: bool) -> PushResult:
        """Make a table hold the data set in one commit, unless its last one has done so.

        Args:
            is_forced: commit even if the last commit has the same revision.

        Raises:
            BadTargetError: the name is of no table.
            UnfitForPushError: a file is missing, or has other bytes than were written.
            TargetRefusedError: the table is another's, or can't hold these columns.
            VolumeError, CredentialsRefusedError: its files can't be written.
        """

    def find_difference(self, push: TablePush) -> str | None:
        """Return how readers see another data set, or None if they see this one."""


def find_kind(table: str) -> str | None:
    """Return the format that a table's name begins with; None: it is none that is known."""
    kind = table.partition(":")[0]
    return kind if kind in FORMATS else None


def locate_table(table: str) -> str:
    """Return a table's name without its format, the same from every working directory."""
    kind = table.partition(":")[0]
    name = table.removeprefix(f"{kind}:")
    return resolve_location(name) if FORMATS[kind].is_location else name


def load_format(kind: str) -> FormatModule:
    """Return the module of a format.

    Raises:
        ImportError: its library is missing; the message says how to get it.
    """
    load_module(FORMATS[kind].package)
    module: FormatModule = load_module(f"{__package__}.{kind}")
    return module


def open_snapshot(table: str, number: int | None = None) -> TableSnapshot:
    """Open a table at a version.

    Args:
        table: as `FORMS` has it.
        number: of the version or snapshot; None: the current one.

    Raises:
        TableError: there is no such table or version, or it has what can't be read.
    """
    kind, _, rest = table.partition(":")
    try:
        module = load_format(kind)
    except ImportError as error:
        raise TableError(f"{table}: {error}") from error
    return module.open_version(rest, number)


def digest_parts(parts: Iterable[str]) -> str:
    """Return a version that changes where one of the parts does."""
    return blake2b("\n".join(parts).encode(), digest_size=_VERSION_BYTES).hexdigest()


def push_to_table(kind: str, push: TablePush) -> PushResult:
    """Make a table hold a data set and nothing else.

    Raises:
        BadTargetError, UnfitForPushError, TargetRefusedError, VolumeError, CredentialsRefusedError:
            see `FormatModule.commit`.
    """
    require_tabular(push.shipment)
    module = load_format(kind)
    commit: Callable[..., PushResult] = partial(module.commit, push)
    try:
        return push_until_whole(push.name, commit, partial(module.find_difference, push))
    except StrandlineError:
        raise
    except module.ERRORS as error:
        what = " ".join(str(error).split())
        raise TargetRefusedError(f"{push.name}: the table did not take it ({what})") from error
