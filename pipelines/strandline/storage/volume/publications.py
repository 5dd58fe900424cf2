"""Publishes results: writes a new folder, completes it with a manifest, and moves `latest`.

Old publications are removed such that after a crash, no partly removed publication looks complete.
Published files and facts are arguments. The caller knows their meaning and decides when to publish.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import JsonValue

from strandline.storage import faults
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.layout import PipelineFolder, sync_folder
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.outputs.hashing import digest_file
from strandline.storage.volume.latest import find_target, hold_links, move_latest, refuse_occupied
from strandline.storage.volume.published import (
    FORMAT,
    MANIFEST,
    Publication,
    PublicationId,
    PublicationManifest,
    check_file_name,
    list_attempts,
    list_folders,
    list_publication_ids,
    read_publication,
)

# Matches `p0007`, and `.p0007.removed` during a removal, so that no number is used twice.
_TAKEN = re.compile(r"\.?p([0-9]+)(\.removed)?")
_REMOVED = re.compile(r"\.p[0-9]+\.removed")


def publish(
    folder: PipelineFolder,
    attempt: int,
    files: Mapping[str, bytes | Path],
    facts: Mapping[str, JsonValue],
    withheld: Sequence[str] = (),
) -> Publication:
    """Publish files durably, and point `latest` at them unless another publication is pinned.

    Args:
        folder: the pipeline's folder.
        attempt: number of the published attempt, from 1.
        files: content of a file, or path of a file to copy, by name. Names may have one folder, as
            in `metrics.json` or `artifacts/x.json`.
        facts: JSON values for the manifest.
        withheld: reasons to withhold the publication from readers. If not empty, `latest` stays.

    Raises:
        ValueError: if a name or a fact is invalid; nothing is written.
        VolumeError: if the volume can't be written, or the path of `latest` is taken by a file that
            is not a link. `latest` and its target stay.
    """
    _check_names(files)
    with naming_volume(folder.path):
        refuse_occupied(folder.latest)
        identity = PublicationId(attempt, _find_number(folder, attempt))
        content = _render_manifest(identity, files, facts, withheld)
        manifest = PublicationManifest.model_validate_json(content)
        path = _make_folder(folder, identity)
        faults.reach("publication.begun")
        _write_files(path, files)
        faults.reach("publication.synced")
        write_whole(path / MANIFEST, content, steps="manifest")
        published = Publication(identity, path, manifest.files, manifest.facts, manifest.withheld)
        if not withheld:
            move_latest(folder, published)
    return published


def retain(folder: PipelineFolder, keep_last: int, keep: Publication | None = None) -> int:
    """Remove old complete publications, and incomplete publications older than a complete one.

    The targets of `latest` and `pinned` always stay.

    Args:
        folder: the pipeline's folder.
        keep_last: number of complete publications to keep; at least 1.
        keep: another publication to keep, or None.

    Returns:
        The number of removed publications.

    Raises:
        ValueError: if `keep_last` is less than 1.
        VolumeError: if a publication can't be read or removed.
    """
    if keep_last < 1:
        msg = f"keep_last is {keep_last}, but at least 1 publication must be kept"
        raise ValueError(msg)
    if not folder.path.is_dir():
        return 0
    with naming_volume(folder.path), hold_links(folder):
        _sweep(folder)
        stay = {find_target(folder, link) for link in (folder.latest, folder.pinned)}
        if keep is not None:
            stay.add(keep.identity)
        old = [identity for identity in _find_old(folder, keep_last) if identity not in stay]
        for identity in reversed(old):  # remove the oldest first, so that a crash keeps newer ones
            _remove(folder.publication(*identity))
    return len(old)


def _check_names(files: Mapping[str, bytes | Path]) -> None:
    folders = {check_file_name(name).rpartition("/")[0] for name in files}
    for name in folders.intersection([*files, MANIFEST]):
        msg = f"{name!r} can't be both a file and a folder in a publication"
        raise ValueError(msg)


def _render_manifest(
    identity: PublicationId,
    files: Mapping[str, bytes | Path],
    facts: Mapping[str, JsonValue],
    withheld: Sequence[str],
) -> bytes:
    content: dict[str, object] = {
        "format": FORMAT,
        "attempt": identity.attempt,
        "publication": identity.number,
        "files": {name: _describe(content) for name, content in files.items()},
        "facts": dict(facts),
    }
    if withheld:
        content["withheld"] = list(withheld)
    # Facts may contain names that are not valid Unicode, which JSON can't represent readably.
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode("utf-8", "replace")


def _describe(content: bytes | Path) -> dict[str, int | str]:
    with _reading(content) as file:
        digest = digest_file(file).hex()
        return {"size": file.tell(), "digest": digest}


def _find_number(folder: PipelineFolder, attempt: int) -> int:
    """Return a number that the attempt has not used for a publication, and that no link names."""
    home = folder.attempt(attempt)
    names = [entry.name for entry in home.iterdir()] if home.is_dir() else []
    taken = [int(found[1]) for found in map(_TAKEN.fullmatch, names) if found]
    targets = (find_target(folder, link) for link in (folder.latest, folder.pinned))
    taken += [target.number for target in targets if target and target.attempt == attempt]
    return 1 + max(taken, default=0)


def _make_folder(folder: PipelineFolder, identity: PublicationId) -> Path:
    path = folder.publication(*identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder.attempts, path.parent):
        if each.is_symlink():
            msg = (
                f"{each}: this is a link, but a folder is needed; replace the link with the folder"
            )
            raise VolumeError(msg)
    path.mkdir()
    for each in (path.parent, folder.attempts, folder.path):
        sync_folder(each)
    return path


def _reading(content: bytes | Path) -> BinaryIO:
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def _write_files(path: Path, files: Mapping[str, bytes | Path]) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        with (path / name).open("xb") as file, _reading(content) as source:
            shutil.copyfileobj(source, file)
            file.flush()
            faults.reach("publication.written")
            os.fsync(file.fileno())
    for each in {(path / name).parent for name in files} | {path}:
        sync_folder(each)


def _find_old(folder: PipelineFolder, keep_last: int) -> Iterator[PublicationId]:
    """Yield all publications except the newest complete ones and newer incomplete ones."""
    complete = 0
    for identity in list_publication_ids(folder):
        if complete < keep_last and read_publication(folder, identity):
            complete += 1
        elif complete:
            yield identity


def _remove(path: Path) -> None:
    faults.reach("retention.begun")
    hidden = path.with_name(f".{path.name}.removed")
    # Hide the folder in a single step first: otherwise a crash during the removal could leave a
    # manifest whose files are gone.
    path.rename(hidden)
    sync_folder(path.parent)
    faults.reach("retention.hidden")
    shutil.rmtree(hidden)
    faults.reach("retention.removed")


def _sweep(folder: PipelineFolder) -> None:
    """Remove folders that interrupted removals have left."""
    for home in list_attempts(folder):
        for name in list_folders(home):
            if _REMOVED.fullmatch(name):
                shutil.rmtree(home / name)
