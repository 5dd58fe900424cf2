"""Where things lie on a volume: `<volume>/<namespace>/<pipeline>/{ledger,attempts,output}`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from strandline.storage.errors import naming_volume


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """The folder of one pipeline on a volume; it belongs to its namespace and name."""

    path: Path

    @classmethod
    def of(cls, volume: Path, namespace: str, name: str) -> PipelineFolder:
        """The folder of pipeline `name` of `namespace`, absolute; it need not exist."""
        return cls(volume.absolute() / namespace / name)

    @property
    def ledger(self) -> Path:
        """The LMDB environment."""
        return self.path / "ledger"

    @property
    def output(self) -> Path:
        """Where sinks write that name no place of their own."""
        return self.path / "output"

    @property
    def writers_lock(self) -> Path:
        """Held shared by every process that writes outputs on this host."""
        return self.path / "writers.lock"

    def attempt(self, number: int) -> Path:
        """The folder of one attempt."""
        return self.path / "attempts" / f"{number:04d}"


def make_folder(path: Path) -> None:
    """Make a folder and its parents.

    Raises:
        VolumeError: it can't be made, or it can't be written to.
    """
    with naming_volume(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied")


def sync_folder(path: Path | str) -> None:
    """Make names in a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
