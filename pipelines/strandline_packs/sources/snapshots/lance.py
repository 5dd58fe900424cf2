"""Lance data sets at a version: each fragment is a file, by its first file of data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import lance
import pyarrow as pa
from lance import FragmentMetadata

from strandline.data.tables.formats.registry import DataFile, TableError, digest_parts


class LanceSnapshot:
    """A Lance data set at a version.

    Args:
        location: folder or URL.
        number: of the version; None: the current one.

    Raises:
        TableError: there is no such data set or version.
    """

    def __init__(self, location: str, number: int | None) -> None:
        try:
            self._dataset = lance.dataset(location, version=number)
        except (OSError, ValueError) as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: no Lance data set can be read ({what})") from error
        self.number: int | None = self._dataset.version
        self.schema: pa.Schema = self._dataset.schema
        self._fragments = {
            fragment.metadata.files[0].path: fragment for fragment in self._dataset.get_fragments()
        }

    def list_files(self) -> Iterator[DataFile]:
        """Yield its fragments; the version of one has its columns' files and its deletions."""
        for name, fragment in self._fragments.items():
            yield DataFile(name, digest_parts(_list_parts(fragment.metadata)))

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a fragment, see `TableSnapshot`."""
        chosen = None if columns is None else list(columns)
        for batch in self._fragments[name].to_batches(columns=chosen, batch_size=most_rows):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _list_parts(fragment: FragmentMetadata) -> Iterator[str]:
    for file in fragment.files:
        yield f"{file.path} {file.fields}"
    deleted = fragment.deletion_file
    if deleted is not None:
        yield f"{deleted.read_version} {deleted.id} {deleted.num_deleted_rows}"
