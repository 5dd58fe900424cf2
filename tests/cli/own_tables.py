"""Tables in a folder as targets of pushes. Tests access the tables with their own libraries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import lance
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

MINE = pa.table({"text": ["mine"]})


class OwnTable(Protocol):
    """A table named `table`. Pushes reach it as `target`."""

    target: str
    first: int
    """Number of its first version."""

    def read_rows(self, version: int | None = None) -> list[dict[str, Any]]: ...
    def read_texts(self, version: int | None = None) -> list[str]: ...
    def count_commits(self) -> int: ...
    def read_properties(self) -> Mapping[str, Any]:
        """Return the properties of its only commit."""

    def compact(self) -> None: ...
    def write_mine(self) -> None:
        """Create the table without a push."""


class OwnDelta:
    target, first = "delta:table", 0

    def __init__(self, folder: Path) -> None:
        self._path = folder / "table"

    def read_rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return list(DeltaTable(self._path, version=version).to_pyarrow_table().to_pylist())

    def read_texts(self, version: int | None = None) -> list[str]:
        return sorted(row["text"] for row in self.read_rows(version))

    def count_commits(self) -> int:
        return (
            DeltaTable(self._path).version() + 1 if DeltaTable.is_deltatable(str(self._path)) else 0
        )

    def read_properties(self) -> Mapping[str, Any]:
        (commit,) = DeltaTable(self._path).history()
        return commit

    def compact(self) -> None:
        DeltaTable(self._path).optimize.compact()

    def write_mine(self) -> None:
        write_deltalake(self._path, MINE)


class OwnLance:
    target, first = "lance:table", 1

    def __init__(self, folder: Path) -> None:
        self._path = folder / "table"

    def read_rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return list(lance.dataset(self._path, version=version).to_table().to_pylist())

    def read_texts(self, version: int | None = None) -> list[str]:
        return sorted(row["text"] for row in self.read_rows(version))

    def count_commits(self) -> int:
        is_there = (self._path / "_versions").exists()
        return len(lance.dataset(self._path).versions()) if is_there else 0

    def read_properties(self) -> Mapping[str, Any]:
        (transaction,) = lance.dataset(self._path).get_transactions()
        properties = transaction.transaction_properties if transaction else None
        assert properties is not None
        return properties

    def compact(self) -> None:
        lance.dataset(self._path).optimize.compact_files()

    def write_mine(self) -> None:
        lance.write_dataset(MINE, self._path)


class OwnIceberg:
    """A table of the catalog `trial`, which environment variables name for pushing processes."""

    target = "iceberg:trial/notes.texts"

    def __init__(self, folder: Path) -> None:
        (folder / "warehouse").mkdir()
        self._settings = {
            "TYPE": "sql",
            "URI": f"sqlite:///{folder}/catalog.db",
            "WAREHOUSE": f"file://{folder}/warehouse",
        }
        self._home = str(folder)

    @property
    def variables(self) -> dict[str, str]:
        named = {f"PYICEBERG_CATALOG__TRIAL__{name}": at for name, at in self._settings.items()}
        return {**named, "PYICEBERG_HOME": self._home}

    def read_texts(self) -> list[str]:
        return sorted(row["text"] for row in self._load().scan().to_arrow().to_pylist())

    def count_commits(self) -> int:
        try:
            return len(self._load().snapshots())
        except NoSuchTableError:
            return 0

    def open_catalog(self) -> Catalog:
        settings = {name.lower(): value for name, value in self._settings.items()}
        return load_catalog("trial", **settings)

    def _load(self) -> Table:
        return self.open_catalog().load_table("notes.texts")
