"""The links `latest` and `pinned`, which determine the publication that readers get.

Links are relative, so the folder may be moved. A link is replaced in one step, so readers find
either the previous publication or the new one. The module uses only the names of publications.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.plan.errors import StrandlineError
from strandline.storage import faults
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.layout import PipelineFolder, sync_folder
from strandline.storage.outputs.disk.own_handles import locking
from strandline.storage.volume.published import (
    Publication,
    PublicationId,
    find_newest_released,
    list_publication_ids,
    parse_publication_id,
    read_publication,
)
from strandline_api.outcome.exit_codes import ExitCode

NAMES_SHOWN = 10


class ChoiceError(StrandlineError):
    """Raised if the chosen publication is not complete.

    The message lists the complete publications.
    """

    exit_code = ExitCode.BAD_SPEC


def resolve(folder: PipelineFolder) -> Publication | None:
    """Return the publication that readers get.

    The first match wins: the pinned publication, if complete; the target of `latest`, if complete
    and in this folder; the newest complete publication that is not withheld. Otherwise return None.

    Raises:
        VolumeError: if the folder can't be read.
    """
    links = (folder.pinned, folder.latest)
    while True:
        targets = [find_target(folder, link) for link in links]
        found = (
            find_pinned(folder) or _follow(folder, folder.latest) or find_newest_released(folder)
        )
        # Retry if the links have moved meanwhile: a publication may be removed, but only after
        # `latest` points elsewhere.
        if found or targets == [find_target(folder, link) for link in links]:
            return found


def name_latest(folder: PipelineFolder) -> str:
    """Return the name of the publication that readers get, or an empty string if none is found."""
    try:
        found = resolve(folder)
    except VolumeError:
        return ""
    return "" if found is None else found.identity.name


def find_pinned(folder: PipelineFolder) -> Publication | None:
    """Return the publication that a user has pinned.

    Return None without a pin, or if the pinned publication is incomplete.
    """
    return _follow(folder, folder.pinned)


def find_target(folder: PipelineFolder, link: Path) -> PublicationId | None:
    """Return the publication that a link names, even if the publication does not exist.

    Return None if the path is not a link, or if the link does not name a publication.
    """
    with naming_volume(link):
        if not link.is_symlink():
            return None
        return _locate(folder, link)


def pin(folder: PipelineFolder, name: str) -> Publication:
    """Pin a publication: `latest` points to it until `unpin`, even if others are published.

    Args:
        folder: the pipeline's folder.
        name: a name such as `0003/p0007`, or the path of the publication.

    Raises:
        ChoiceError: if there is no complete publication with that name.
        VolumeError: if the links can't be written.
    """
    if not folder.path.is_dir():
        raise _explain_choice(folder, name)
    with naming_volume(folder.path), hold_links(folder):
        identity = _read_choice(folder, name)
        chosen = None if identity is None else read_publication(folder, identity)
        if chosen is None:
            raise _explain_choice(folder, name)
        refuse_occupied(folder.latest)
        _lead(folder.pinned, chosen.identity)
        _lead(folder.latest, chosen.identity, steps="latest")
    return chosen


def unpin(folder: PipelineFolder) -> Publication | None:
    """Remove the pin. Then `latest` points to the newest publication that is not withheld.

    Raises:
        VolumeError: if the links can't be written.
    """
    if not folder.path.is_dir():
        return None
    with naming_volume(folder.path), hold_links(folder):
        refuse_occupied(folder.pinned)
        refuse_occupied(folder.latest)
        folder.pinned.unlink(missing_ok=True)
        sync_folder(folder.path)
        newest = find_newest_released(folder)
        if newest is not None:
            _lead(folder.latest, newest.identity, steps="latest")
    return newest


def move_latest(folder: PipelineFolder, published: Publication) -> None:
    """Point `latest` at a new publication, or at the pinned publication if there is a pin.

    Raises:
        VolumeError: if the link can't be written, or the path is taken by a file that is not a
            link.
    """
    with naming_volume(folder.latest), hold_links(folder):
        _lead(folder.latest, (find_pinned(folder) or published).identity, steps="latest")


def refuse_occupied(link: Path) -> None:
    """Refuse to replace a file that is not a link.

    Raises:
        VolumeError: if a file or a folder is in the place of the link.
    """
    if os.path.lexists(link) and not link.is_symlink():
        msg = (
            f"{link}: this must be a symbolic link, but it is not; move it away and run the "
            "pipeline again"
        )
        raise VolumeError(msg)


@contextmanager
def hold_links(folder: PipelineFolder) -> Iterator[None]:
    """Prevent other processes from moving links or removing publications until the block ends.

    Remove temporary links of killed processes first. The lock is not reentrant.
    """
    handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with locking(handle, fcntl.LOCK_EX):
            for link in (folder.latest, folder.pinned):
                _name_temporary(link).unlink(missing_ok=True)
            yield
    finally:
        os.close(handle)


def _follow(folder: PipelineFolder, link: Path) -> Publication | None:
    identity = find_target(folder, link)
    return None if identity is None else read_publication(folder, identity)


def _locate(folder: PipelineFolder, path: Path) -> PublicationId | None:
    """Return the publication at a path after resolving all links, or None if there is none."""
    root = os.path.realpath(folder.path)
    return parse_publication_id(os.path.relpath(os.path.realpath(path), root))


def _lead(link: Path, identity: PublicationId, *, steps: str | None = None) -> None:
    refuse_occupied(link)
    if link.is_symlink() and str(link.readlink()) == identity.target:
        return
    temporary = _name_temporary(link)
    temporary.symlink_to(identity.target)
    _reach(steps, "linked")
    temporary.rename(link)
    _reach(steps, "renamed")
    sync_folder(link.parent)
    _reach(steps, "synced")


def _name_temporary(link: Path) -> Path:
    return link.with_name(f".{link.name}.tmp")


def _reach(steps: str | None, step: str) -> None:
    if steps is not None:
        faults.reach(f"{steps}.{step}")


def _read_choice(folder: PipelineFolder, name: str) -> PublicationId | None:
    short = name.strip("/").removeprefix("attempts/")
    return parse_publication_id(f"attempts/{short}") or _locate(folder, Path(name))


def _explain_choice(folder: PipelineFolder, name: str) -> ChoiceError:
    complete = [
        identity.name
        for identity in list_publication_ids(folder)
        if read_publication(folder, identity)
    ]
    if not complete:
        return ChoiceError(f"{name!r} can't be chosen: nothing is published in {folder.path} yet")
    others = len(complete) - NAMES_SHOWN
    listed = ", ".join(complete[:NAMES_SHOWN]) + (f" and {others:,} older" if others > 0 else "")
    return ChoiceError(f"{name!r} is not a complete publication; choose one of {listed}")
