"""Lists the files that currently match the patterns of a source stage.

All sources that start from files share this module. It must not depend on buckets or formats.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from strandline.data.files.access import StorageOptions, check_access, list_access
from strandline.data.files.folders import walk_folder
from strandline.data.files.globs import (
    Exclusion,
    PathPattern,
    check_pattern,
    is_url,
    parse_pattern,
)
from strandline.data.files.identities import FileIdentities
from strandline.data.files.listed import ListedFile, NoteGap, WalkReport
from strandline.data.files.opening import digest_content
from strandline.data.files.urls import walk_url
from strandline.plan.stages.ends import SourceStage
from strandline.storage.filesystems import is_local, read_mounts
from strandline.storage.outputs.published_files import PublishedFolder, listing_names
from strandline_api.texts import is_unicode

_NO_MARK = "+"  # end of a version that consists only of a size
_NO_VERSION = (
    "can't detect versions there: the server sends neither ETag nor time, so only a changed size "
    "counts as a change; set `version: content` to read each file"
)


class VersionFrom(StrEnum):
    """Options for deriving a file's version."""

    STAT = "stat"
    CONTENT = "content"


class FileListParams(SourceStage.Params):
    """Parameters of every stage that lists files."""

    paths: tuple[str, ...] = Field(
        min_length=1,
        description="Globs or fsspec URLs of files; a folder with a trailing slash means all files "
        "in it. `**` matches any number of folders; names that start with a dot match "
        "only if the pattern contains the dot. `{stdlib}` and `{site-packages}` at the "
        "start mean this interpreter's folders. Relative to the working directory.",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Globs of keys to leave out. Keys are paths in the form used in `paths`.",
    )
    version: VersionFrom = Field(
        default=VersionFrom.STAT,
        description="How changes of files are detected. `stat`: by size and modification time; on "
        "local disks, both ends of a file with a new inode are compared too. "
        "`content`: by digest, which reads every file.",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of files to list: a sample, chosen by digest of the key.",
    )
    max_file_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Maximum size of a file; larger files are left out and counted.",
    )
    follow_symlinks: bool = Field(
        default=False,
        description="Descend into folders behind symbolic links, except loops. Otherwise such "
        "folders are counted, and files listed in them before do not count as removed.",
    )

    storage_options: StorageOptions | None = Field(
        default=None,
        description="Credentials and endpoints of the stores in `paths`; by default from the "
        "environment. Readers use them for the listed files too.",
    )

    _check_paths = field_validator("paths")(lambda paths: tuple(map(check_pattern, paths)))

    @field_validator("storage_options")
    @classmethod
    def _check_options(
        cls, options: StorageOptions | None, info: ValidationInfo
    ) -> StorageOptions | None:
        return check_access(info.data.get("paths", ()), options)

    def list_stores(self) -> Mapping[str, Any]:
        """Return the access options of all stores, by base URL."""
        return list_access(self.paths, self.storage_options)

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the patterns, each with the name of its parameter."""
        return [(f"paths[{index}]", path) for index, path in enumerate(self.paths)]


class FileSource(SourceStage):
    """A source stage that lists files by patterns.

    Attributes:
        published: folders of other pipelines, in which only published files are listed.
        identities: inodes and digests of the files of the last listing.
    """

    params: SourceStage.Params
    published: Sequence[PublishedFolder] = ()
    identities: FileIdentities = FileIdentities()

    @property
    def packed_under(self) -> str:
        """Prefix of keys if each source consists of many files; otherwise empty."""
        return ""

    @property
    def may_list_nothing(self) -> bool:
        """Return True if all files are outputs of pipelines with ledgers.

        Then the ledgers list the files, and an empty listing is valid.
        """
        paths = [parse_pattern(path) for _, path in self.params.list_places()]
        folders = [_find_folder(path, self.published) for path in paths]
        return all(folder and folder.has_ledger for folder in folders)

    def list_files(self, params: FileListParams) -> Iterator[ListedFile]:
        """Return the files that match the patterns; see the module's `list_files`.

        Raises:
            OSError: if a folder is missing or can't be read.
        """
        files = list_files(params, self.count, self._note_file_gap, self.published)
        return (
            files if params.version is VersionFrom.CONTENT else map(self.identities.revise, files)
        )

    def _note_file_gap(self, why: str, within: str = "") -> None:
        # If sources consist of many files, the path of a skipped file does not identify a source.
        self.note_gap(why, "" if self.packed_under else within)


def list_files(
    params: FileListParams,
    count: Callable[[str], None],
    note_gap: NoteGap,
    published: Sequence[PublishedFolder] = (),
) -> Iterator[ListedFile]:
    """Return the files that match the patterns, without duplicates, in unspecified order.

    Args:
        params: patterns and limits.
        count: called with a counter's name for each skipped file, for each file or folder that was
            not visited, and for each pattern without a match.
        note_gap: called with a reason and the common key prefix of the files that were not visited.
        published: folders of other pipelines, in which only published files are listed.

    Raises:
        OSError: if a folder is missing or can't be read.
    """
    entries = _list_all(params, count, note_gap, published)
    if params.limit is None:
        return entries
    # Choose the sample by digest, which gives the same sample on every machine, in any listing
    # order. The heap holds only as many files as the sample.
    return iter(heapq.nsmallest(params.limit, entries, key=lambda entry: _digest(entry.key)))


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()


def _list_all(
    params: FileListParams,
    count: Callable[[str], None],
    note_gap: NoteGap,
    published: Sequence[PublishedFolder],
) -> Iterator[ListedFile]:
    exclusion = Exclusion(params.exclude)
    patterns = [parse_pattern(pattern) for pattern in params.paths]
    mounts = ""
    for index, pattern in enumerate(patterns):
        if is_url(pattern.base):
            walk = walk_url(pattern, exclusion, count)
        else:
            report = WalkReport(count, note_gap)
            walk = walk_folder(pattern, exclusion, report, follow=params.follow_symlinks)
            # Drop the inodes of remote files, because a new inode causes a read of the file, which
            # is slow on a server.
            if not is_local(Path(pattern.base), mounts := mounts or read_mounts()):
                walk = (entry._replace(inode=0) for entry in walk)
        folder = _find_folder(pattern, published)
        is_ruled = folder is not None and folder.has_ledger
        if folder is not None and is_ruled:
            walk = _walk_published(folder, pattern, exclusion, walk, (count, note_gap))
        found = is_ruled  # a pipeline with a ledger may have no outputs yet
        for entry in walk:
            found = True
            # Patterns may overlap. The first matching pattern determines the key of a file.
            if not _is_covered(entry.path, patterns[:index], exclusion):
                yield from _admit(entry, params, count)
        if not found:
            # Report a gap: an empty folder may be a mount point whose volume is not mounted.
            count(f"no file matches {params.paths[index]}")
            note_gap(f"no file matches {params.paths[index]}")


def _find_folder(
    pattern: PathPattern, published: Sequence[PublishedFolder]
) -> PublishedFolder | None:
    """Return another pipeline's folder that contains all possible matches, if any."""
    base = f"{pattern.base.rstrip('/')}/"
    return next((each for each in published if base.startswith(f"{each.root.rstrip('/')}/")), None)


def _walk_published(
    folder: PublishedFolder,
    pattern: PathPattern,
    exclusion: Exclusion,
    walk: Iterator[ListedFile],
    notes: tuple[Callable[[str], None], NoteGap],
) -> Iterator[ListedFile]:
    """Yield the files that a pipeline has published. Missing published files are gaps."""
    count, note_gap = notes
    whose = f"pipeline {folder.pipeline}"
    start = pattern.base.rstrip("/").removeprefix(folder.root.rstrip("/")).lstrip("/")
    start += "/" if start else ""

    def find_key(name: str) -> str | None:
        below = name.removeprefix(start)
        key = pattern.format_key(below)
        is_named = name.startswith(start) and pattern.regex.match(below)
        return key if is_named and not exclusion.holds(key) else None

    with ExitStack() as stack:
        try:
            names = stack.enter_context(listing_names(folder, find_key))
        except OSError as error:
            count(f"not looked at: outputs of {whose}")
            note_gap(
                f"the outputs of {whose} can't be determined: {error}", pattern.prefix.rstrip("/")
            )
            yield from walk
            return
        for key in names.partial:  # the next attempt of that pipeline rewrites the file
            count(what := f"left out: has rows that {whose} has removed")
            note_gap(f"{what}: {key!r}", key)
        with suppress(FileNotFoundError):  # without outputs, the pipeline may have no folder
            for entry in filter(lambda entry: entry.key not in names.partial, walk):
                if names.take(entry.key, start + entry.key.removeprefix(pattern.prefix)):
                    yield entry
                else:
                    count(f"left out: not an output of {whose}")
        for key in names.list_missing():
            count(what := f"not looked at: a missing output of {whose}")
            note_gap(f"{what}: {key!r}", key)


def _is_covered(path: str, earlier: list[PathPattern], exclusion: Exclusion) -> bool:
    for pattern in earlier:
        below = pattern.find_below(path)
        if below is not None and not exclusion.holds(pattern.format_key(below)):
            return True
    return False


def _admit(
    entry: ListedFile, params: FileListParams, count: Callable[[str], None]
) -> Iterator[ListedFile]:
    if params.max_file_bytes is not None and entry.size > params.max_file_bytes:
        count("left out: larger than maxFileBytes")
    elif not is_unicode(entry.key):
        count("left out: file name is not UTF-8")
    elif params.version is VersionFrom.CONTENT:
        yield entry._replace(version=digest_content(entry.path))
    else:
        if entry.version.endswith(_NO_MARK):
            count(_NO_VERSION)
        yield entry
