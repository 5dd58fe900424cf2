"""Records of sent batches: a later attempt waits for them, instead of paying twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder
from strandline.storage.outputs.disk.whole_files import write_whole

FOLDER = "batches"


class BatchRecord(NamedTuple):
    """A batch whose answers are not all in the log.

    Attributes:
        mark: name of the record, also stored with the batch.
        server: address of the vendor.
        digests: digests of the requests.
        batch: the vendor's id, or empty if the batch may not have been sent.
    """

    mark: str
    server: str
    digests: tuple[bytes, ...]
    batch: str = ""


class BatchRecords:
    """The records of a stage, a file for each batch.

    Args:
        folder: folder of the stage's log.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def list(self) -> Iterator[BatchRecord]:
        """Yield the records of all workers and attempts, in a fixed order.

        Raises:
            VolumeError: a record can't be read.
        """
        with naming_volume(self._folder):
            for path in sorted(self._folder.glob("*.json")):
                try:
                    content = json.loads(path.read_bytes())
                except FileNotFoundError:  # another worker has stored its answers
                    continue
                digests = tuple(map(bytes.fromhex, content["digests"]))
                yield BatchRecord(path.stem, content["server"], digests, content["batch"])

    def write(self, record: BatchRecord) -> None:
        """Store a record durably.

        Raises:
            VolumeError: the disk fails.
        """
        make_folder(self._folder)
        content = {
            "server": record.server,
            "batch": record.batch,
            "digests": [digest.hex() for digest in record.digests],
        }
        path = self._folder / f"{record.mark}.json"
        with naming_volume(path):
            write_whole(path, [json.dumps(content).encode()])

    def remove(self, record: BatchRecord) -> None:
        """Remove the record of a batch whose answers are stored.

        Raises:
            VolumeError: the disk fails.
        """
        path = self._folder / f"{record.mark}.json"
        with naming_volume(path):
            path.unlink(missing_ok=True)
