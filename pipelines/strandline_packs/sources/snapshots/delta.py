"""Delta tables at a version, by `deltalake`: partitions and columns that came later are filled in.

Deletion vectors and column mapping are refused: without them rows would come back, or go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError

from strandline.data.tables.formats.registry import DataFile, TableError

_UNCHANGED = "0"
_ADVICE = "rewrite the table without that feature, as Spark's REORG TABLE … APPLY (PURGE) does"


class DeltaSnapshot:
    """A Delta table at a version.

    Args:
        location: folder or URL.
        number: of the version; None: the current one.

    Raises:
        TableError: there is no such table or version, or it has what can't be read.
    """

    def __init__(self, location: str, number: int | None) -> None:
        try:
            self._table = DeltaTable(location, version=number)
            dataset = self._table.to_pyarrow_dataset()
        except DeltaProtocolError as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: {what}; {_ADVICE}") from error
        except DeltaError as error:
            what = " ".join(str(error).split())
            raise TableError(f"{location}: no Delta table can be read there ({what})") from error
        self.number: int | None = self._table.version()
        self.schema: pa.Schema = dataset.schema
        self._fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}

    def list_files(self) -> Iterator[DataFile]:
        """Yield its data files; by Delta's protocol a name never gets other rows."""
        for path in self._fragments:
            yield DataFile(path, _UNCHANGED)

    def read(self, name: str, columns: Sequence[str] | None, most_rows: int) -> Iterator[pa.Table]:
        """Yield the rows of a data file, see `TableSnapshot`."""
        fragment = self._fragments[name]
        chosen = list(self.schema.names if columns is None else columns)
        for batch in fragment.to_batches(schema=self.schema, columns=chosen, batch_size=most_rows):
            yield pa.Table.from_batches([batch])
