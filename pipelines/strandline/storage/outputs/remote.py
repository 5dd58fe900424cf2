"""Writes outputs to an object store or any other location that fsspec supports.

A put commits a file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from strandline.storage import faults
from strandline.storage.access.refusals import explain_unwritten, naming_rejection
from strandline.storage.access.stores import open_store, refresh
from strandline.storage.filesystems import is_synced_whole, read_mounts
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.hashing import Content, HashingFile, digest_file
from strandline.storage.outputs.names import (
    ASIDES,
    NO_OUTPUTS,
    SHARED,
    name_shared,
    name_source_folder,
)
from strandline.storage.outputs.ports import OutputStore


class RemoteOutputs:
    """Outputs under an fsspec URL. A file appears only when its put has ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        filesystem, root = open_store(url)
        self._filesystem: Any = filesystem
        self._root = root.rstrip("/")

    @contextmanager
    def grouped(self) -> Iterator[RemoteOutputs]:
        yield self  # no group to commit: each put is already durable

    def write(self, source: bytes, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        return self._write(f"{name_source_folder(source)}/{name}", write_content)

    def write_shared(
        self, file: bytes, suffix: str, write_content: Callable[[BinaryIO], None]
    ) -> Content:
        return self._write(name_shared(file, suffix), write_content)

    def _write(self, name: str, write_content: Callable[[BinaryIO], None]) -> Content:
        target = io.BytesIO()
        hashing = HashingFile(target, self._url)
        faults.reach("output.opened")
        write_content(cast("BinaryIO", hashing))
        path = f"{self._root}/{name}"
        with self._naming():
            faults.reach("output.written")
            refresh(self._filesystem).makedirs(path.rpartition("/")[0], exist_ok=True)
            self._filesystem.pipe_file(path, target.getvalue())
            faults.reach("output.renamed")
        return hashing.finish()

    def open_aside(self, folder: str) -> RemoteOutputs:
        return RemoteOutputs(f"{self._url.rstrip('/')}/{folder}")

    def remove_others(self, source: bytes, keep: Collection[str]) -> int:
        own = name_source_folder(source)
        with self._naming():
            folders = (own, *(f"{aside}/{own}" for aside in ASIDES))
            found = [path for folder in folders for path in self._find(folder)]
            others = [path for path in found if path.rpartition("/")[2] not in keep]
            if others:
                self._filesystem.rm(others)
        return len(others)

    def _find(self, folder: str) -> list[str]:
        try:
            found = refresh(self._filesystem).find(f"{self._root}/{folder}")
        except FileNotFoundError:
            return []
        return [str(path) for path in found]

    def list_names(self) -> Iterator[tuple[str, int]]:
        with naming_rejection(self._url):
            found = refresh(self._filesystem).find(self._root, detail=True)
        for path, info in found.items():
            name = str(path)[len(self._root) + 1 :]
            if name not in NO_OUTPUTS:
                yield name, int(info["size"])

    def digest(self, name: str) -> bytes:
        with (
            naming_rejection(self._url),
            refresh(self._filesystem).open(f"{self._root}/{name}", "rb") as file,
        ):
            return digest_file(file)

    def has(self, name: str, size: int) -> bool:
        with naming_rejection(self._url):
            try:
                found = refresh(self._filesystem).info(f"{self._root}/{name}")
            except FileNotFoundError:
                return False
        return int(found["size"]) == size

    def list_shared(self) -> list[str]:
        with self._naming():
            try:
                found = refresh(self._filesystem).find(f"{self._root}/{SHARED}")
            except FileNotFoundError:
                return []
        return [str(path)[len(self._root) + 1 :] for path in found]

    def remove_shared(self, name: str) -> None:
        with self._naming(), suppress(FileNotFoundError):
            self._filesystem.rm_file(f"{self._root}/{name}")

    @contextmanager
    def open_shared(self, name: str) -> Iterator[BinaryIO]:
        with self._naming():
            opened = refresh(self._filesystem).open(f"{self._root}/{name}", "rb")
        with opened as file:
            yield file

    def sweep(self, owner: str) -> int:  # noqa: ARG002 - as the protocol asks
        return 0  # an interrupted put leaves no temporary file

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each store library has its own error classes
            raise explain_unwritten(self._url, error) from error


def put_files(location: str, files: Mapping[str, Path]) -> None:
    """Copy files into a folder or under an fsspec URL, replacing files with the same names.

    Raises:
        VolumeError: if the location can't be written.
        CredentialsRefusedError: if the store rejects the credentials.
    """
    try:
        filesystem, root = open_store(location)
        filesystem.makedirs(root, exist_ok=True)
        for name, path in files.items():
            filesystem.put_file(str(path), f"{root}/{name}")
    except Exception as error:  # each store library has its own error classes
        raise explain_unwritten(location, error) from error


def resolve_location(location: str) -> str:
    """Return the location in a form that depends neither on the working directory nor on links.

    Args:
        location: a path, or a URL such as `s3://bucket/prefix`. `file://` URLs are paths.
    """
    local = location.removeprefix("file://")
    if "://" not in local:
        return os.path.realpath(local)
    bare = location.rstrip("/")
    # A bare protocol such as `memory://` keeps its slashes.
    return location if bare.endswith(":") else bare


def open_outputs(location: str, writer: str = "") -> OutputStore:
    """Return the outputs at a folder or an fsspec URL.

    Args:
        location: a path, or a URL such as `s3://bucket/prefix`. `file://` URLs are paths.
        writer: part of temporary names that identifies the attempt and the process.
    """
    local = location.removeprefix("file://")
    if "://" not in local:
        root = Path(local).absolute()
        is_whole = is_synced_whole(root, read_mounts(), os.uname().release)
        return LocalOutputs(root, writer, is_synced_whole=is_whole)
    return RemoteOutputs(location)


def find_files(location: str, folder: str) -> Callable[[str, int], bool]:
    """Return a function that checks whether an output file exists with a given size.

    Args:
        location: folder or URL of the outputs.
        folder: folder of the files; empty for all files. In a store, the folder is listed once.
    """
    if "://" not in location:
        return LocalOutputs(Path(location)).has
    root = f"{location.rstrip('/')}/{folder}".rstrip("/")
    before = f"{folder}/" if folder else ""
    sizes = {f"{before}{name}": size for name, size in RemoteOutputs(root).list_names()}
    return lambda name, size: sizes.get(name) == size
