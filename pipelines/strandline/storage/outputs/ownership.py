"""The owner of an output root: a small file in the root names the only ledger with outputs there.

Two pipelines that read the same files would write outputs with the same names, so they must not
share a root. The name of the owner's file begins with a dot, so readers of data sets ignore the
file. The caller decides which pipeline may take over which outputs. The module must not depend on
ledgers: it uses only an id and the name of the pipeline.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from strandline.plan.errors import StrandlineError
from strandline.storage.access.refusals import (
    explain_store_error,
    explain_unwritten,
    is_rejection,
)
from strandline.storage.access.stores import open_store, refresh
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.layout import make_durable, make_folder, sync_folder
from strandline.storage.outputs.names import OWNER, TEMPORARY
from strandline_api.outcome.exit_codes import ExitCode

SHORT = 12  # number of id characters in messages and in prefixes of temporary names
_FILE_BYTES = 1 << 16  # maximum size of an owner's file


class PlaceTakenError(StrandlineError):
    """Raised if the location belongs to another owner. The pipeline must use another location."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


class UnreadablePlaceError(StrandlineError):
    """Raised if a store did not respond. The failure may be temporary."""


class Owner(NamedTuple):
    """The owner of outputs: a ledger's id, and its pipeline as `namespace/name`."""

    ledger: str
    pipeline: str

    def __str__(self) -> str:
        return f"{self.pipeline} (ledger {self.ledger[:SHORT]})"


class _Root(Protocol):
    """An output root, with access to the owner's file."""

    def read(self) -> bytes | None:
        """Return the content of the owner's file, or None if the file is missing."""

    def create(self, content: bytes, writer: str) -> None:
        """Create the owner's file. Do nothing if another process has created it meanwhile."""

    def replace(self, content: bytes, writer: str) -> None:
        """Overwrite the owner's file."""

    def remove(self) -> None:
        """Remove the owner's file if it exists."""


def read_owner(location: str) -> Owner | None:
    """Return the owner of the outputs at a folder or fsspec URL, or None if there is no owner.

    Raises:
        PlaceTakenError: if the owner's file does not name an owner.
        VolumeError, UnreadablePlaceError: if the folder or the store can't be read.
    """
    content = _open_root(location).read()
    if content is None:
        return None
    try:
        found = json.loads(content)
        return Owner(str(found["ledger"]), str(found["pipeline"]))
    except (ValueError, TypeError, KeyError):
        msg = (
            f"{location}: the file {OWNER} there must name the owner of these outputs; remove the "
            "file if no other pipeline writes to this location"
        )
        raise PlaceTakenError(msg) from None


def claim_location(location: str, owner: Owner, *, inherits: bool = False) -> None:
    """Claim the output root at a folder or fsspec URL for an owner, durably.

    Args:
        inherits: see `refuse_other`.

    Raises:
        PlaceTakenError: if the root belongs to another owner; the message names the owner.
        VolumeError: if the location can't be written.
    """
    root, found = _open_root(location), read_owner(location)
    if found is None:
        root.create(_render(owner), owner.ledger[:SHORT])
        found = read_owner(location)  # another process may have claimed it at the same time
    refuse_other(location, found, owner, inherits=inherits)
    if found != owner:
        root.replace(_render(owner), owner.ledger[:SHORT])


def take_over_location(location: str, owner: Owner) -> None:
    """Make `owner` the owner of the output root, even if the root has another owner.

    Raises:
        VolumeError: if the location can't be written.
    """
    _open_root(location).replace(_render(owner), owner.ledger[:SHORT])


def release_location(location: str, owner: Owner) -> None:
    """Release an output root if it belongs to `owner`. Otherwise do nothing.

    Raises:
        VolumeError: if the location can't be written.
    """
    if read_owner(location) == owner:
        _open_root(location).remove()


def refuse_other(
    location: str, found: Owner | None, owner: Owner | None, *, inherits: bool = False
) -> None:
    """Raise an error if a location belongs to another owner.

    Args:
        found: current owner, or None if there is no owner.
        owner: the ledger that claims the location, or None for a run without a ledger.
        inherits: True if outputs of another ledger of the same pipeline may be taken over.

    Raises:
        PlaceTakenError: if the location belongs to another owner; the message names a remedy.
    """
    if found is None or (owner is not None and found.ledger == owner.ledger):
        return
    if owner is not None and inherits and found.pipeline == owner.pipeline:
        return
    if owner is None:
        advice = "a run without a volume needs its own location"
    else:
        advice = (
            "name another location, or, if that ledger no longer exists, take over this one with "
            "`strandline ledger own-outputs`"
        )
    msg = f"the outputs at {location} belong to {found}, and would be overwritten; {advice}"
    raise PlaceTakenError(msg)


def _render(owner: Owner) -> bytes:
    return json.dumps(owner._asdict()).encode() + b"\n"


class _LocalRoot:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / OWNER

    def read(self) -> bytes | None:
        try:
            with naming_volume(self._path), self._path.open("rb") as file:
                return file.read(_FILE_BYTES)
        except VolumeError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return None
            raise

    def create(self, content: bytes, writer: str) -> None:
        with naming_volume(self._root):
            temporary = self._write_aside(content, writer)
            try:
                # Creating a link fails if the file exists. A rename would replace the file of a
                # faster process.
                os.link(temporary, self._path)
            except FileExistsError:
                temporary.unlink()
                return
            except OSError:  # this file system has no hard links, so the last writer wins
                temporary.rename(self._path)
            else:
                temporary.unlink()
            sync_folder(self._root)

    def replace(self, content: bytes, writer: str) -> None:
        with naming_volume(self._root):
            self._write_aside(content, writer).rename(self._path)
            sync_folder(self._root)

    def remove(self) -> None:
        with naming_volume(self._root):
            self._path.unlink(missing_ok=True)

    def _write_aside(self, content: bytes, writer: str) -> Path:
        """Write the content to a temporary file. The owner's next sweep removes leftovers."""
        make_durable(self._root)
        folder = self._root / TEMPORARY
        make_folder(folder)
        temporary = folder / f"{writer}-owner-{os.getpid()}"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return temporary


class _RemoteRoot:
    def __init__(self, url: str) -> None:
        self._url = url
        try:
            filesystem, root = open_store(url)
        except ImportError:
            raise
        except Exception as error:  # for example unreadable credentials
            raise _explain_unread(url, error) from error
        self._filesystem: Any = filesystem
        self._path = f"{root.rstrip('/')}/{OWNER}"

    def read(self) -> bytes | None:
        try:
            return bytes(refresh(self._filesystem).cat_file(self._path))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise _explain_unread(self._url, self._find_reason(error)) from error

    def create(self, content: bytes, writer: str) -> None:
        with suppress(Exception):  # many stores do not support this, so the last writer wins there
            self._make_folder()
            self._filesystem.pipe_file(self._path, content, mode="create")
        if self.read() is None:
            self.replace(content, writer)

    def replace(self, content: bytes, writer: str) -> None:  # noqa: ARG002 - a put leaves nothing
        try:
            self._make_folder()
            self._filesystem.pipe_file(self._path, content)
        except Exception as error:  # each store library has its own error classes
            raise explain_unwritten(self._url, error) from error

    def remove(self) -> None:
        try:
            self._filesystem.rm_file(self._path)
        except FileNotFoundError:
            return
        except Exception as error:
            raise explain_unwritten(self._url, error) from error

    def _find_reason(self, error: Exception) -> Exception:
        """Return the error that explains a failed read.

        Stores explain errors of listings, but not errors of reads.
        """
        try:
            refresh(self._filesystem).ls(self._path.rpartition("/")[0])
        except FileNotFoundError:
            pass
        except Exception as cause:  # noqa: BLE001 - each store's library has errors of its own
            return cause
        return error

    def _make_folder(self) -> None:
        self._filesystem.makedirs(self._path.rpartition("/")[0], exist_ok=True)


def _explain_unread(url: str, error: Exception) -> UnreadablePlaceError:
    failed = UnreadablePlaceError(f"{url}: can't be read {explain_store_error(error)}")
    failed.is_lasting = is_rejection(error)
    return failed


def _open_root(location: str) -> _Root:
    local = location.removeprefix("file://")
    return _RemoteRoot(location) if "://" in local else _LocalRoot(Path(local).absolute())
