"""A data set on the local hub, as a process with its environment variables sees it."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq

from hub_server import Hub, Repo

NAME = "org/notes"


class OwnHub:
    target = f"hf://datasets/{NAME}"

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.hub = hub
        self._home = str(folder / "hf")

    @property
    def variables(self) -> dict[str, str]:
        return {
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": self._home,
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": "token",
        }

    @property
    def repo(self) -> Repo:
        return self.hub.repos[NAME]

    def read_texts(self) -> list[str]:
        files = (file for name, file in self.repo.head().items() if name.endswith(".parquet"))
        tables = (pq.read_table(io.BytesIO(file)) for file in files)
        return sorted(text for table in tables for text in table["text"].to_pylist())

    def count_commits(self) -> int:
        """Count the commits except the hub's first commit."""
        return len(self.repo.commits) - 1 if NAME in self.hub.repos else 0
