"""Paths on a volume: `<volume>/<namespace>/<pipeline>/{ledger,attempts,latest,…}`."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from strandline.storage.errors import naming_volume
from strandline_api.outcome.driver_log import LOGS

# Default volume, used without an option.
VOLUME = "./strandline-data"
_NAMESPACE = "default"  # namespace of a pipeline that names no other
# Also matches `s3:/bucket`, because `Path` turns two slashes into a single slash.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # arguments of renameat2(2)
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def require_folder(volume: str | os.PathLike[str]) -> Path:
    """Return the path of a volume.

    Raises:
        ValueError: if the volume is a URL. Otherwise the URL would become a local folder named
            `s3:`.
    """
    path = Path(volume)
    if _URL.match(str(path)):
        msg = (
            f"{volume}: a volume is a folder on this machine, not a URL; set the path of the sink "
            "to write outputs to a store"
        )
        raise ValueError(msg)
    return path


def list_folders(path: Path) -> tuple[PipelineFolder, PipelineFolder]:
    """Return the folders that a user may mean by `VOLUME/NAMESPACE/NAME`, or by `VOLUME/NAME`."""
    return PipelineFolder(path), PipelineFolder(path.parent / _NAMESPACE / path.name)


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """The folder of a pipeline on a volume, identified by namespace and name."""

    path: Path

    @classmethod
    def on_volume(cls, volume: Path, namespace: str, name: str) -> PipelineFolder:
        """Return the absolute folder of pipeline `name` in `namespace`. It need not exist."""
        return cls(volume.absolute() / namespace / name)

    @property
    def manifest(self) -> Path:
        """The manifest of a pipeline that was built in Python."""
        return self.path / "pipeline.yaml"

    @property
    def ledger(self) -> Path:
        """The folder of the ledger, an LMDB environment."""
        return self.path / "ledger"

    @property
    def restoring(self) -> Path:
        """The folder of a ledger copy that is about to be restored."""
        return self.path / "ledger-restoring"

    @property
    def replaced(self) -> Path:
        """The previous ledger, which the last restored copy replaced."""
        return self.path / "ledger-replaced"

    @property
    def listed(self) -> Path:
        """The file with the inodes and digests from the last listing."""
        return self.path / "listed-files"

    @property
    def output(self) -> Path:
        """The default folder for outputs."""
        return self.path / "output"

    @property
    def shards(self) -> Path:
        """The folder of gathered state: pieces and merged files."""
        return self.path / "shards"

    @property
    def writers_lock(self) -> Path:
        """Lock file that all processes that write outputs on this host hold shared."""
        return self.path / "writers.lock"

    @property
    def run_lock(self) -> Path:
        """Lock file of the process that starts attempts; contains its pid."""
        return self.path / "run.lock"

    @property
    def progress(self) -> Path:
        """The file with the latest progress report of the running driver."""
        return self.path / "progress.json"

    @property
    def notices(self) -> Path:
        """The file with notices about leaving nodes, which the driver's parent has received."""
        return self.path / "notices.json"

    @property
    def attempts(self) -> Path:
        """The folder that contains all attempt folders."""
        return self.path / "attempts"

    @property
    def logs(self) -> Path:
        """The folder of driver logs, with a log for each attempt."""
        return self.path / LOGS

    @property
    def latest(self) -> Path:
        """The link to the current publication for readers."""
        return self.path / "latest"

    @property
    def pinned(self) -> Path:
        """The link to the publication that a user has pinned; usually absent."""
        return self.path / "pinned"

    def attempt(self, number: int) -> Path:
        """Return the folder of an attempt."""
        return self.attempts / f"{number:04d}"

    def publication(self, attempt: int, number: int) -> Path:
        """Return the folder of a publication."""
        return self.attempt(attempt) / f"p{number:04d}"


def make_folder(path: Path) -> None:
    """Create a folder and its parents.

    Raises:
        VolumeError: if the folder can't be created or is not writable.
    """
    with naming_volume(path):
        path.mkdir(parents=True, exist_ok=True)
        check_writable(path, os.W_OK | os.X_OK)


def is_mounted_readonly(path: Path) -> bool:
    """Return True if the path is on a volume that is mounted read-only."""
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def check_writable(path: Path, mode: int = os.W_OK) -> None:
    """Check write permission without writing.

    Raises:
        OSError: if writing is not permitted. The errno distinguishes read-only volumes from missing
            permissions.
    """
    if not os.access(path, mode):
        number = errno.EROFS if is_mounted_readonly(path) else errno.EACCES
        raise OSError(number, os.strerror(number))


def make_durable(path: Path) -> None:
    """Create a folder and its parents, and make their names durable.

    Sync existing folders too: their creator may have been killed before the sync.

    Raises:
        VolumeError: if the folder can't be created or is not writable.
    """
    make_folder(path)
    with naming_volume(path):
        below = path.stat().st_dev
        for parent in path.absolute().parents:
            if parent.stat().st_dev != below:  # a mount point is not a new name
                return
            try:
                sync_folder(parent)
            except PermissionError:  # an unreadable folder can't contain a name created just now
                return


def sync_filesystem(handle: int) -> None:
    """Make all data written to a file system durable, both names and contents.

    Args:
        handle: descriptor of any file on the file system, opened before the writes to sync.
    """
    if _LIBC.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def sync_folder(path: Path | str) -> None:
    """Sync a folder, to make the names of its entries durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_folder(path: Path, new: Path, aside: Path) -> bool:
    """Replace a folder with another folder durably, and keep the previous folder.

    If the file system can exchange folders, `path` exists at every moment.

    Args:
        path: path of the folder to replace; it need not exist.
        new: the new folder, on the same file system.
        aside: path for the previous folder. An existing folder there is removed.

    Returns:
        True if there was a previous folder.

    Raises:
        VolumeError: if the replacement fails.
    """
    with naming_volume(path):
        if aside.exists():
            shutil.rmtree(aside)
        had_former = path.exists()
        if not had_former:
            new.rename(path)
        # After the exchange, the previous folder is at the path `new`.
        elif _exchange(new, path):
            new.rename(aside)
        else:
            path.rename(aside)
            new.rename(path)
        sync_folder(path.parent)
    return had_former


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step. Return False if the file system does not support this."""
    exchange = getattr(_LIBC, "renameat2", None)
    if exchange is None:  # an older C library lacks the function
        return False
    paths = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
    if exchange(*paths, _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number))
