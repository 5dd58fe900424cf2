"""The links `latest` and `pinned`: which publication readers are to take.

A link is relative, so the folder may be moved, and it is replaced in one step, so a reader finds
the former publication or the new one. What is published is not known here beyond its name.
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
    """What was chosen is no complete publication; the message lists those that are."""

    exit_code = ExitCode.BAD_SPEC


def resolve(folder: PipelineFolder) -> Publication | None:
    """Return the publication that readers are to take.

    The pinned one if it is complete; else the one `latest` leads to, if that is complete and in
    this folder; else the newest complete one that is not withheld; else None.

    Raises:
        VolumeError: the folder can't be looked at.
    """
    links = (folder.pinned, folder.latest)
    while True:
        targets = [find_target(folder, link) for link in links]
        found = (
            find_pinned(folder) or _follow(folder, folder.latest) or find_newest_released(folder)
        )
        # All that was seen may be gone meanwhile: what is removed, `latest` has left before.
        if found or targets == [find_target(folder, link) for link in links]:
            return found


def name_latest(folder: PipelineFolder) -> str:
    """Name the publication that readers are to take; empty where there is none to be seen."""
    try:
        found = resolve(folder)
    except VolumeError:
        return ""
    return "" if found is None else found.identity.name


def find_pinned(folder: PipelineFolder) -> Publication | None:
    """Return the publication that a user chose.

    None without a choice, or if it is not complete.
    """
    return _follow(folder, folder.pinned)


def find_target(folder: PipelineFolder, link: Path) -> PublicationId | None:
    """Return the place a link leads to, there or not.

    None where it leads elsewhere or is no link.
    """
    with naming_volume(link):
        if not link.is_symlink():
            return None
        return _locate(folder, link)


def pin(folder: PipelineFolder, name: str) -> Publication:
    """Choose a publication: `latest` leads to it until `unpin`, whatever else is published.

    Args:
        folder: the pipeline's folder.
        name: such as `0003/p0007`; a path of the folder will do.

    Raises:
        ChoiceError: there is no complete publication of that name.
        VolumeError: the links can't be written.
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
    """Take the choice back: `latest` leads to the newest that is not withheld.

    Raises:
        VolumeError: the links can't be written.
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
    """Let `latest` lead to what was published, or to the pinned one where there is one.

    Raises:
        VolumeError: the link can't be written, or something else stands in its place.
    """
    with naming_volume(folder.latest), hold_links(folder):
        _lead(folder.latest, (find_pinned(folder) or published).identity, steps="latest")


def refuse_occupied(link: Path) -> None:
    """Refuse to replace what is not a link of ours.

    Raises:
        VolumeError: a file or a folder stands where the link should be.
    """
    if os.path.lexists(link) and not link.is_symlink():
        msg = f"{link}: this is no link, and a link is needed here; move it away and run again"
        raise VolumeError(msg)


@contextmanager
def hold_links(folder: PipelineFolder) -> Iterator[None]:
    """Keep other processes from moving links or removing publications meanwhile.

    What a killed one left of its link is removed first. Not to be entered twice.
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
    """Return the place a path leads to once all links are followed."""
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
    return ChoiceError(f"{name!r} names no complete publication; there are {listed}")
