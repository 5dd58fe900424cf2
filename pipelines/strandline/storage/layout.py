"""Where things lie on a volume: `<volume>/<namespace>/<pipeline>/{ledger,attempts,latest,…}`."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from strandline.storage.errors import naming_volume
from strandline_api.outcome.driver_log import LOGS

# The volume where no option names one.
VOLUME = "./strandline-data"
_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # arguments of renameat2(2)
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """The folder of one pipeline on a volume; it belongs to its namespace and name."""

    path: Path

    @classmethod
    def of(cls, volume: Path, namespace: str, name: str) -> PipelineFolder:
        """Return the folder of pipeline `name` of `namespace`, absolute; it need not exist."""
        return cls(volume.absolute() / namespace / name)

    @property
    def ledger(self) -> Path:
        """The LMDB environment."""
        return self.path / "ledger"

    @property
    def restoring(self) -> Path:
        """A copy of a ledger that is about to be restored."""
        return self.path / "ledger-restoring"

    @property
    def replaced(self) -> Path:
        """The ledger that the last restored copy has replaced."""
        return self.path / "ledger-replaced"

    @property
    def listed(self) -> Path:
        """Return the file with inodes and digests of the last listing."""
        return self.path / "listed-files"

    @property
    def output(self) -> Path:
        """Return where sinks write that name no place of their own."""
        return self.path / "output"

    @property
    def shards(self) -> Path:
        """Return what stages have gathered: the pieces, and what they were merged to."""
        return self.path / "shards"

    @property
    def writers_lock(self) -> Path:
        """Held shared by every process that writes outputs on this host."""
        return self.path / "writers.lock"

    @property
    def run_lock(self) -> Path:
        """Held by the one process that makes attempt after attempt; it holds that one's pid."""
        return self.path / "run.lock"

    @property
    def progress(self) -> Path:
        """Return how far the running driver is, by its own word a moment ago."""
        return self.path / "progress.json"

    @property
    def notices(self) -> Path:
        """Return what the running driver's parent was told of nodes that are going."""
        return self.path / "notices.json"

    @property
    def attempts(self) -> Path:
        """One folder for each attempt."""
        return self.path / "attempts"

    @property
    def logs(self) -> Path:
        """Return what drivers have printed, a file for each attempt."""
        return self.path / LOGS

    @property
    def latest(self) -> Path:
        """The link to the publication that readers are to take."""
        return self.path / "latest"

    @property
    def pinned(self) -> Path:
        """The link to the publication that a user chose; mostly there is none."""
        return self.path / "pinned"

    def attempt(self, number: int) -> Path:
        """Return the folder of one attempt."""
        return self.attempts / f"{number:04d}"

    def publication(self, attempt: int, number: int) -> Path:
        """Return the folder of one publication of an attempt."""
        return self.attempt(attempt) / f"p{number:04d}"


def make_folder(path: Path) -> None:
    """Make a folder and its parents.

    Raises:
        VolumeError: it can't be made, or it can't be written to.
    """
    with naming_volume(path):
        path.mkdir(parents=True, exist_ok=True)
        check_writable(path, os.W_OK | os.X_OK)


def is_mounted_readonly(path: Path) -> bool:
    """Return whether no process can write there, since the volume is mounted read-only."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def check_writable(path: Path, mode: int = os.W_OK) -> None:
    """Check that one may write, without writing.

    Raises:
        OSError: one may not; the number tells a volume that is read-only from missing rights.
    """
    if not os.access(path, mode):
        number = errno.EROFS if is_mounted_readonly(path) else errno.EACCES
        raise OSError(number, os.strerror(number))


def make_durable(path: Path) -> None:
    """Make a folder and its parents durable by name, whichever process has made them.

    Another process may have made some and been killed before it synced them.

    Raises:
        VolumeError: it can't be made, or it can't be written to.
    """
    make_folder(path)
    with naming_volume(path):
        below = path.stat().st_dev
        for parent in path.absolute().parents:
            if parent.stat().st_dev != below:  # a mount has no name there that could be lost
                return
            try:
                sync_folder(parent)
            except PermissionError:  # nor can a name have been made where nothing may be read
                return


def sync_filesystem(handle: int) -> None:
    """Make all that was written to a file system durable, names and contents.

    Args:
        handle: of anything on it, opened before what it is asked about was written.
    """
    if _LIBC.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_folder(path: Path | str) -> None:
    """Make names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_folder(path: Path, new: Path, aside: Path) -> bool:
    """Put a folder in the place of another one, durably, and keep the former one aside.

    Where the file system can exchange folders, there is no moment without either of them.

    Args:
        path: where the new folder is put; nothing needs to be there.
        new: the folder, on the same file system.
        aside: where the former one goes; an earlier one there is removed.

    Returns:
        Whether there was a former one.

    Raises:
        VolumeError: it can't be done.
    """
    with naming_volume(path):
        if aside.exists():
            shutil.rmtree(aside)
        had_former = path.exists()
        if not had_former:
            new.rename(path)
        elif _exchange(new, path):
            new.rename(aside)
        else:
            path.rename(aside)
            new.rename(path)
        sync_folder(path.parent)
    return had_former


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; return False if the file system can't."""
    exchange = getattr(_LIBC, "renameat2", None)
    if exchange is None:  # an older C library
        return False
    paths = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
    if exchange(*paths, _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number))
