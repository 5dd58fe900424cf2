"""Files of a push target, in a folder or a store. Each file is complete or absent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from strandline.storage.access.refusals import naming_rejection
from strandline.storage.access.stores import open_store, refresh
from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.outputs.remote import put_files


class TargetFiles(Protocol):
    """Files of a target. Each file is durable, and complete or absent."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None if the file is missing."""

    def list_sizes(self, folder: str) -> Iterable[tuple[str, int]]:
        """Yield names, relative to a folder, and sizes in bytes of all files below the folder."""

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file, replacing an existing file with the same name."""


def open_target(location: str) -> TargetFiles:
    """Return the files in a folder or under a URL."""
    return _RemoteTarget(location) if "://" in location else _LocalTarget(Path(location))


class _LocalTarget:
    """A target folder whose files are complete or absent, and durable."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        with naming_volume(self._root):
            try:
                return (self._root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list_sizes(self, folder: str) -> Iterator[tuple[str, int]]:
        root = self._root / folder
        with naming_volume(root):
            for path in root.rglob("*"):
                if path.is_file():
                    yield path.relative_to(root).as_posix(), path.stat().st_size

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        path = self._root / name
        with naming_volume(path):
            make_folder(path.parent)
        write_whole(path, blocks)


class _RemoteTarget:
    """A target URL. A put either completes, or leaves no file."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def read(self, name: str) -> bytes | None:
        with naming_rejection(self._url):
            filesystem, root = self._open()
            try:
                return bytes(filesystem.cat_file(f"{root}/{name}"))
            except FileNotFoundError:
                return None

    def list_sizes(self, folder: str) -> Iterator[tuple[str, int]]:
        with naming_rejection(self._url):
            filesystem, root = self._open()
            try:
                found = filesystem.find(f"{root}/{folder}", detail=True)
            except FileNotFoundError:
                return
        above = f"{root}/{folder}/" if folder else f"{root}/"
        for path, info in found.items():
            yield str(path).removeprefix(above), int(info["size"])

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        folder, _, base = name.rpartition("/")
        location = f"{self._url}/{folder}" if folder else self._url
        # Read all blocks before the upload, so that an error while reading can't leave a truncated
        # object.
        with tempfile.NamedTemporaryFile(prefix="strandline-push-") as file:
            with naming_volume(file.name):
                file.writelines(blocks)
                file.flush()
            put_files(location, {base: Path(file.name)})

    def _open(self) -> tuple[Any, str]:
        filesystem, root = open_store(self._url)
        # Refresh: cached listings of fsspec would miss the files of another writer.
        return refresh(filesystem), root.rstrip("/")
