"""Pushes to a folder or an object store: a folder for each revision, and `latest` moves last.

A revision's folder is never changed once it is whole, so readers of one are not disturbed by the
next. What a killed push has copied stays, and is not copied again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import (
    MANIFEST,
    PushResult,
    Shipment,
    read_properties,
    require_ours,
)
from strandline.storage import faults
from strandline.storage.access.refusals import naming_rejection
from strandline.storage.access.stores import open_store, refresh
from strandline.storage.errors import naming_volume
from strandline.storage.layout import make_folder
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.outputs.remote import put_files

LATEST = "latest.json"


def push_to_folder(
    shipment: Shipment, contents: Contents, location: str, fence: Callable[[], None]
) -> PushResult:
    """Push to a folder or URL, unless this very revision is there and the latest one.

    Args:
        location: as `resolve_location` gives it.
        fence: raises where the attempt that pushes is not the ledger's any more.

    Raises:
        UnfitForPushError: a file is missing, or has other bytes than were written.
        VolumeError, CredentialsRefusedError: the target can't be written to.
    """
    store = open_target(location)
    revision = shipment.revision
    target = f"{location.rstrip('/')}/{revision}"
    pointer = _render_latest(shipment)
    _require_ours(store, location, shipment)
    is_there = store.read(f"{revision}/{MANIFEST}") is not None
    if is_there and _name_latest(store.read(LATEST)) == revision:
        return PushResult(target, revision, is_new=False, files=0)
    copied = 0
    if not is_there:
        sizes = dict(store.list_sizes(revision))
        for file in shipment.files:
            # Names and sizes follow from the revision, and a file there is whole.
            if sizes.get(file.name) != file.size:
                store.put(f"{revision}/{file.name}", contents.read(file))
                copied += 1
                faults.reach("push.copied")
        for name, content in shipment.extras.items():
            store.put(f"{revision}/{name}", [content])
        faults.reach("push.described")
    fence()
    store.put(LATEST, [pointer])
    faults.reach("push.published")
    return PushResult(target, revision, is_new=True, files=copied)


def _require_ours(store: TargetFiles, location: str, shipment: Shipment) -> None:
    """Refuse a place whose `latest.json` leads to what another has pushed."""
    latest = _name_latest(store.read(LATEST))
    manifest = None if latest is None else store.read(f"{latest}/{MANIFEST}")
    owner = None if manifest is None else read_properties(manifest)
    if owner is not None:
        require_ours(location, shipment.author, owner, "place")


class TargetFiles(Protocol):
    """Files of a target; each is whole or absent, and durable."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None: it is not there."""

    def list_sizes(self, folder: str) -> Iterable[tuple[str, int]]:
        """Yield the files below a folder, by name within it, with their bytes."""

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file in the place of what has its name."""


def open_target(location: str) -> TargetFiles:
    """Return the files of a folder, or of what is under a URL."""
    return _RemoteTarget(location) if "://" in location else _LocalTarget(Path(location))


def _render_latest(shipment: Shipment) -> bytes:
    facts = {
        "revision": shipment.revision,
        "manifest": f"{shipment.revision}/{MANIFEST}",
        "fingerprint": shipment.fingerprint,
        "rows": shipment.rows,
    }
    return (json.dumps(facts, indent=1) + "\n").encode()


def _name_latest(content: bytes | None) -> str | None:
    try:
        found = json.loads(content or b"null")
    except ValueError:
        return None
    return found.get("revision") if isinstance(found, dict) else None


class _LocalTarget:
    """A folder; files are whole or absent, and durable."""

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
    """What is under a URL; a put is whole or absent."""

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
        with tempfile.NamedTemporaryFile(prefix="strandline-push-") as file:
            with naming_volume(file.name):
                file.writelines(blocks)
                file.flush()
            put_files(location, {base: Path(file.name)})

    def _open(self) -> tuple[Any, str]:
        filesystem, root = open_store(self._url)
        return refresh(filesystem), root.rstrip("/")
