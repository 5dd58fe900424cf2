"""Publications: their names, their manifests, and whether they are complete.

The module only reads. No other module decides whether a publication is complete. The module must
not depend on the meaning of published files and facts.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from strandline.storage.errors import naming_volume
from strandline.storage.layout import PipelineFolder
from strandline_api.texts import is_unicode

MANIFEST = "manifest.json"
FORMAT = 1
NAME_BYTES = 255  # name limit of most file systems
_DIGITS = r"([0-9]{4}|[1-9][0-9]{4,})"  # unambiguous: otherwise two folders could share a number
_ATTEMPT = re.compile(_DIGITS)
_PUBLICATION = re.compile(f"attempts/{_DIGITS}/p{_DIGITS}")
# Matches `metrics.json` and `artifacts/x.json`, but no hidden name and no `..`.
_FILE = re.compile(r"([^/.\0][^/\0]*/)?[^/.\0][^/\0]*")
_NUMBER = re.compile(f"p{_DIGITS}")


class PublicationId(NamedTuple):
    """Identity of an existing or possible publication. Later publications compare greater."""

    attempt: int
    number: int

    @property
    def name(self) -> str:
        """Name for messages: `0003/p0007`."""
        return f"{self.attempt:04d}/p{self.number:04d}"

    @property
    def target(self) -> str:
        """Link target in the pipeline's folder: `attempts/0003/p0007`."""
        return f"attempts/{self.name}"


def check_file_name(name: str) -> str:
    """Return the name unchanged if a publication may have a file with that name.

    Raises:
        ValueError: if the name is not `x` or `folder/x`, or is reserved.
    """
    longest = max(map(len, name.encode("utf-8", "replace").split(b"/")))
    is_fit = _FILE.fullmatch(name) and longest <= NAME_BYTES and is_unicode(name)
    if not is_fit or name == MANIFEST:
        msg = f"{name!r} can't be the name of a published file"
        raise ValueError(msg)
    return name


class PublishedFile(BaseModel):
    """Entry of a manifest for a file: size in bytes, and blake2b-128 digest."""

    model_config = ConfigDict(frozen=True, strict=True)

    size: int = Field(ge=0)
    digest: str = Field(pattern=r"^[0-9a-f]{32}$")


class PublicationManifest(BaseModel):
    """Content of the manifest file, which completes a publication. Later formats may add fields."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: int = Field(ge=FORMAT)
    attempt: int = Field(ge=1)
    publication: int = Field(ge=1)
    files: dict[Annotated[str, AfterValidator(check_file_name)], PublishedFile]
    facts: dict[str, JsonValue]
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Publication:
    """A complete publication.

    Attributes:
        identity: attempt and number.
        path: folder of the publication, below the pipeline's folder as the caller passed it.
        files: files by name.
        facts: other content of the manifest.
        withheld: sentences that explain why readers do not get the publication; empty if they do.
    """

    identity: PublicationId
    path: Path
    files: Mapping[str, PublishedFile]
    facts: Mapping[str, JsonValue]
    withheld: tuple[str, ...] = ()

    @property
    def attempt(self) -> int:
        """The attempt that created the publication."""
        return self.identity.attempt

    @property
    def number(self) -> int:
        """Number of the publication within the attempt."""
        return self.identity.number


def parse_publication_id(target: str) -> PublicationId | None:
    """Parse text such as `attempts/0003/p0007`. Return None if the text names no publication."""
    found = _PUBLICATION.fullmatch(target)
    identity = PublicationId(int(found[1]), int(found[2])) if found else None
    return identity if identity and min(identity) > 0 else None


def list_publication_ids(folder: PipelineFolder) -> list[PublicationId]:
    """Return the folders of complete and incomplete publications, newest first.

    Raises:
        VolumeError: if the folders can't be listed.
    """
    with naming_volume(folder.attempts):
        targets = [
            f"attempts/{home.name}/{name}"
            for home in list_attempts(folder)
            for name in list_folders(home)
            if _NUMBER.fullmatch(name)
        ]
    return sorted(filter(None, map(parse_publication_id, targets)), reverse=True)


def list_attempts(folder: PipelineFolder) -> Iterator[Path]:
    """Yield the folders of attempts, in unspecified order. Links to folders are ignored."""
    for name in list_folders(folder.attempts):
        if _ATTEMPT.fullmatch(name):
            yield folder.attempts / name


def list_folders(path: Path) -> list[str]:
    """Return the names of the folders in a folder.

    Links are ignored. If `path` is a link or not a folder, the result is empty.
    """
    if not _is_folder(path):
        return []
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def read_publication(folder: PipelineFolder, identity: PublicationId) -> Publication | None:
    """Return the publication with an identity, or None if it is incomplete.

    A publication is complete if the manifest is valid and each of its files exists with the
    recorded size. An unreadable publication raises an error instead of counting as incomplete,
    because the caller might remove an incomplete publication.

    Raises:
        VolumeError: if the publication can't be read.
    """
    path = folder.publication(*identity)
    with naming_volume(path):
        if not all(map(_is_folder, (folder.attempts, path.parent, path))):
            return None
        if _find_size(path / MANIFEST) is None:
            return None
        try:
            manifest = PublicationManifest.model_validate_json((path / MANIFEST).read_bytes())
        except (ValidationError, FileNotFoundError):
            return None
        if not all(_holds(path, name, entry.size) for name, entry in manifest.files.items()):
            return None
    return Publication(identity, path, manifest.files, manifest.facts, manifest.withheld)


def find_newest(folder: PipelineFolder) -> Publication | None:
    """Return the complete publication with the highest attempt and number, if any.

    Raises:
        VolumeError: if the publications can't be read.
    """
    found = (read_publication(folder, identity) for identity in list_publication_ids(folder))
    return next(filter(None, found), None)


def find_newest_released(folder: PipelineFolder) -> Publication | None:
    """Return the newest complete publication that is not withheld from readers, if any.

    Raises:
        VolumeError: if the publications can't be read.
    """
    found = (read_publication(folder, identity) for identity in list_publication_ids(folder))
    return next((each for each in found if each is not None and not each.withheld), None)


def _holds(path: Path, name: str, size: int) -> bool:
    return _is_folder((path / name).parent) and _find_size(path / name) == size


def _is_folder(path: Path) -> bool:
    found = _look_at(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _find_size(path: Path) -> int | None:
    found = _look_at(path)
    return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None


def _look_at(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
