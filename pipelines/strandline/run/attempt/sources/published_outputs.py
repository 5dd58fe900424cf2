"""Finds outputs of other pipelines among the listed paths, according to their ledgers.

An output folder has an owner file, so a plain folder or URL works as well as `{pipeline: NAME}`.
This module must not depend on how or when the files are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from strandline.data.files.globs import is_url, parse_pattern
from strandline.data.files.listing import FileSource
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.errors import LedgerError
from strandline.ledger.output_root import list_out
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import name_shared
from strandline.storage.outputs.ownership import Owner, read_owner
from strandline.storage.outputs.published_files import OutputFile, may_hold_outputs

# Addresses of web servers, which have no output folders.
_WEB = ("http://", "https://")
_DEEPEST = 2  # maximum depth of a listed folder below the root of outputs
_SLASHES = 3  # slashes in a URL of a folder in a bucket


@dataclass(frozen=True, slots=True)
class LedgerOutputs:
    """The output folder of a pipeline; see `PublishedFolder`.

    Attributes:
        root: the folder in the notation of path patterns.
        pipeline: `namespace/name`.
        within: key prefix of the sources listed from the folder.
        ledger: folder of the ledger, even if unreadable, or None if the ledger is not on this
            volume.
    """

    root: str
    pipeline: str
    within: str
    ledger: Path | None

    @property
    def has_ledger(self) -> bool:
        return self.ledger is not None

    def list_files(self) -> Iterator[OutputFile]:
        assert self.ledger is not None  # callers check `has_ledger` before
        try:
            with opened_to_read(self.ledger) as store:
                yield from _list_files(store)
        except (LedgerError, VolumeError) as error:
            raise OSError(str(error)) from error


def find_published(source: FileSource, volume: Path, reader: str) -> tuple[LedgerOutputs, ...]:
    """Return the output folders of other pipelines among the locations that a source lists.

    Args:
        volume: the volume on which ledgers of other pipelines are found.
        reader: the pipeline that lists, as `namespace/name`.
    """
    found: dict[str, LedgerOutputs] = {}
    for _, path in source.params.list_places():
        pattern = parse_pattern(path)
        whole = f"{pattern.base.rstrip('/')}/{pattern.rest}"
        locations = [(pattern.base, pattern.prefix), *([(whole, path)] if pattern.is_plain else [])]
        for location, key in locations:
            for root, owner in _find_owner(location):
                below = location.rstrip("/").removeprefix(root.rstrip("/")).strip("/")
                is_read = owner.pipeline != reader and may_hold_outputs(below)
                if is_read and location not in found:
                    ledger = find_ledger(volume, owner)
                    found[location] = LedgerOutputs(root, owner.pipeline, key.rstrip("/"), ledger)
    return tuple(found.values())


def _find_owner(location: str) -> Iterator[tuple[str, Owner]]:
    """Yield at most one output folder that equals or contains a location, with its owner."""
    if location.startswith(_WEB):
        return
    roots = [location, *map(str, Path(location).parents)]
    if is_url(location):
        # Each read from a store is a network request, so check only the levels between a pattern's
        # folder and the root of outputs.
        depth = min(_DEEPEST, location.count("/") - _SLASHES)
        roots = [location.rsplit("/", up)[0] for up in range(max(depth, 0) + 1)]
    for root in roots:
        try:
            owner = read_owner(root)
        except (StrandlineError, OSError, ValueError, ImportError):
            continue  # the listing reports unreadable folders
        if owner is not None:
            yield root, owner
            return


def find_ledger(volume: Path, owner: Owner) -> Path | None:
    """Return the path of the owner's ledger, or None if it is not on the volume."""
    namespace, _, name = owner.pipeline.partition("/")
    # Reject names that lead out of the volume: they come from a file that others can write.
    if not namespace or not name or "/" in name or ".." in {namespace, name}:
        return None
    path = PipelineFolder.on_volume(volume, namespace, name).ledger
    try:
        with opened_to_read(path) as store:
            return path if store.read_meta("id") == owner.ledger else None
    except (LedgerError, VolumeError):
        # If the ledger exists but can't be read now, return its path. With None, the reader would
        # list all files in the folder.
        return path if (path / "data.mdb").exists() else None


def _list_files(store: Store) -> Iterator[OutputFile]:
    partial = {
        name_shared(file, suffix)
        for file, facts in store.list_shared()
        if facts.live != facts.rows
        for suffix, *_ in facts.list_files()
    }
    for output in list_out(store):
        yield OutputFile(output.name, is_whole=output.name not in partial)
