"""The owner of an output root: a small file in it names the one ledger with outputs there.

Two pipelines over the same files would give their outputs the same names. The file's own name
begins with a dot, as readers of data sets pass over. Which pipeline may take what from which is
decided by the caller; what a ledger is stays unknown here: an id and the name of its pipeline.
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

SHORT = 12  # characters of an id that are shown, and that temporary names begin with
_FILE_BYTES = 1 << 16  # more is no owner's file


class PlaceTakenError(StrandlineError):
    """The place belongs to another; the pipeline has to name one of its own."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


class UnreadablePlaceError(StrandlineError):
    """A store did not answer; it may the next time."""


class Owner(NamedTuple):
    """A ledger's id, and its pipeline as `namespace/name`."""

    ledger: str
    pipeline: str

    def __str__(self) -> str:
        return f"{self.pipeline} (ledger {self.ledger[:SHORT]})"


class _Root(Protocol):
    """An output root as far as its owner is concerned."""

    def read(self) -> bytes | None:
        """Return the owner's file; None where there is none."""

    def create(self, content: bytes, writer: str) -> None:
        """Write the owner's file where there is none; nothing where another was quicker."""

    def replace(self, content: bytes, writer: str) -> None:
        """Write the owner's file over the one that is there."""

    def remove(self) -> None:
        """Remove the owner's file, if it is there."""


def read_owner(location: str) -> Owner | None:
    """Return the owner of the outputs at a folder or fsspec URL; None where they have none.

    Raises:
        PlaceTakenError: a file is there and does not name its owner.
        VolumeError, UnreadablePlaceError: the place can't be read, a folder or a store.
    """
    content = _open_root(location).read()
    if content is None:
        return None
    try:
        found = json.loads(content)
        return Owner(str(found["ledger"]), str(found["pipeline"]))
    except (ValueError, TypeError, KeyError):
        msg = (
            f"{location}: {OWNER} there does not say whose these outputs are; remove it where no "
            "other pipeline writes to this place"
        )
        raise PlaceTakenError(msg) from None


def claim_location(location: str, owner: Owner, *, inherits: bool = False) -> None:
    """Make the output root at a folder or fsspec URL the owner's, durably.

    Args:
        inherits: see `refuse_other`.

    Raises:
        PlaceTakenError: it is another's; the message names it.
        VolumeError: the place can't be written to.
    """
    root, found = _open_root(location), read_owner(location)
    if found is None:
        root.create(_render(owner), owner.ledger[:SHORT])
        found = read_owner(location)  # two may have come at once
    refuse_other(location, found, owner, inherits=inherits)
    if found != owner:
        root.replace(_render(owner), owner.ledger[:SHORT])


def take_over_location(location: str, owner: Owner) -> None:
    """Make the output root the owner's, even if it is another's.

    Raises:
        VolumeError: the place can't be written to.
    """
    _open_root(location).replace(_render(owner), owner.ledger[:SHORT])


def release_location(location: str, owner: Owner) -> None:
    """Leave an output root that is the owner's to the next that comes; another's stays.

    Raises:
        VolumeError: the place can't be written to.
    """
    if read_owner(location) == owner:
        _open_root(location).remove()


def refuse_other(
    location: str, found: Owner | None, owner: Owner | None, *, inherits: bool = False
) -> None:
    """Refuse a place that is another's.

    Args:
        found: its owner; None: it has none.
        owner: the ledger that wants it; None: a run that keeps no ledger.
        inherits: what another ledger of the same pipeline left there is its, too.

    Raises:
        PlaceTakenError: it is another's; the message says what to do.
    """
    if found is None or (owner is not None and found.ledger == owner.ledger):
        return
    if owner is not None and inherits and found.pipeline == owner.pipeline:
        return
    if owner is None:
        advice = "a run without a volume needs a place of its own"
    else:
        advice = (
            "name another place, or, where that ledger is gone for good, take this one with "
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
                os.link(temporary, self._path)
            except FileExistsError:
                temporary.unlink()
                return
            except OSError:  # a file system without links: the last to come has it
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
        """Return the content in a temporary file, which the owner's next sweep would find."""
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
        except Exception as error:  # credentials that a library can't read, each its own way
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
        with suppress(Exception):  # many stores can't: then the last to come has it
            self._make_folder()
            self._filesystem.pipe_file(self._path, content, mode="create")
        if self.read() is None:
            self.replace(content, writer)

    def replace(self, content: bytes, writer: str) -> None:  # noqa: ARG002 - a put leaves nothing
        try:
            self._make_folder()
            self._filesystem.pipe_file(self._path, content)
        except Exception as error:  # store libraries have errors of their own
            raise explain_unwritten(self._url, error) from error

    def remove(self) -> None:
        try:
            self._filesystem.rm_file(self._path)
        except FileNotFoundError:
            return
        except Exception as error:
            raise explain_unwritten(self._url, error) from error

    def _find_reason(self, error: Exception) -> Exception:
        """Return what keeps a file from being read.

        Stores give a reason to listings, not to reads.
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
