"""The files that a source stage's patterns name now, one at a time.

Shared by every source that starts from files. It knows nothing of buckets or formats.
"""

from __future__ import annotations

import heapq
import os
import stat as stat_module
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from strandline.plan.stage import SourceStage
from strandline.stages.sources.globs import (
    Exclusion,
    PathPattern,
    check_pattern,
    is_url,
    parse_pattern,
)
from strandline.stages.sources.opening import digest_content
from strandline.storage.outputs.published_files import PublishedFolder, listing_names
from strandline.storage.protocols import (
    StoreRefusesError,
    describe_store_error,
    is_refusal,
)
from strandline.storage.store_access import StoreAccess, find_faults
from strandline.storage.stores import open_store

_MARKS = (
    *("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created"),
    *("Content-MD5", "Digest", "Last-Modified"),  # of web servers that tell no ETag
)
_LEFT_FILE = "left out: a marker or checksum of Spark, Hive or Hadoop"
_NO_MARK = "+"  # a size, and nothing after it
_NO_VERSION = (
    "can't tell versions there: the server tells no ETag and no time, so that only another size "
    "counts as a change; `version: content` reads each file"
)


class NoteGap(Protocol):
    """Is told what was not looked at."""

    def __call__(self, why: str, within: str = "") -> None:
        """See `SourceStage.note_gap`."""


class StorageOptions(BaseModel):
    """As whom the stores are asked that a source lists, and where they stand."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    anonymous: bool = Field(default=False, description="Ask without any credentials.")
    requester_pays: bool = Field(
        default=False, description="Pay for what is sent, where a bucket wants that."
    )
    endpoint: str | None = Field(
        default=None, description="URL of a server that speaks S3 or Google's protocol."
    )
    credentials: dict[str, str] = Field(
        default_factory=dict,
        description="Parts of the credentials, such as `accessKeyId`, each with the name of the "
        "environment variable that has it; a secret itself is refused.",
    )

    def build_access(self) -> StoreAccess:
        """Return what the room of stores understands."""
        return StoreAccess(
            self.anonymous, self.requester_pays, self.endpoint, dict(self.credentials)
        )


def list_access(patterns: Iterable[str], options: StorageOptions | None) -> dict[str, StoreAccess]:
    """Return how stores are asked below the plain part of each pattern."""
    if options is None:
        return {}
    parsed = [parse_pattern(pattern) for pattern in patterns]
    return {pattern.base: options.build_access() for pattern in parsed if is_url(pattern.base)}


def check_access(patterns: Iterable[str], options: StorageOptions | None) -> StorageOptions | None:
    """Return the options themselves.

    Raises:
        ValueError: a store can't do what they say, or a secret stands where a name should.
    """
    for url, access in list_access(patterns, options).items():
        for fault in find_faults(url.partition("://")[0], access):
            raise ValueError(fault)
    return options


class VersionFrom(StrEnum):
    """What a file's version is made of."""

    STAT = "stat"
    CONTENT = "content"


class FileListParams(SourceStage.Params):
    """Which files are listed."""

    paths: tuple[str, ...] = Field(
        min_length=1,
        description="Globs or fsspec URLs of files; a folder with a slash at its end stands for "
        "all files in it. `**` spans folders; names that start with a dot match only where the "
        "pattern spells the dot. `{stdlib}` and `{site-packages}` at the start stand for this "
        "interpreter's folders. Relative to the working directory.",
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Globs matched against keys, that is paths spelled as in `paths`.",
    )
    version: VersionFrom = Field(
        default=VersionFrom.STAT,
        description="`stat`: size and time of change. `content`: a digest, which reads every file.",
    )
    limit: int | None = Field(
        default=None, ge=1, description="List only so many files: a sample by digest of the key."
    )
    max_file_bytes: int | None = Field(
        default=None, ge=0, description="Leave out larger files; they are counted."
    )
    follow_symlinks: bool = Field(
        default=False,
        description="Descend into folders behind symbolic links; loops are not. Else such folders "
        "are counted, and what was listed in them before is not taken for removed.",
    )

    storage_options: StorageOptions | None = Field(
        default=None,
        description="As whom the stores in `paths` are asked, and where they stand; by default as "
        "the environment says. Readers ask for the listed files in the same way.",
    )

    _check_paths = field_validator("paths")(lambda paths: tuple(map(check_pattern, paths)))

    @field_validator("storage_options")
    @classmethod
    def _check_options(
        cls, options: StorageOptions | None, info: ValidationInfo
    ) -> StorageOptions | None:
        return check_access(info.data.get("paths", ()), options)

    def list_stores(self) -> Mapping[str, Any]:
        """Return how the stores of the patterns are asked."""
        return list_access(self.paths, self.storage_options)

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the patterns."""
        return [(f"paths[{index}]", path) for index, path in enumerate(self.paths)]


class FileSource(SourceStage):
    """Lists files by patterns.

    Attributes:
        published: folders of other pipelines: only what they have out is listed there.
    """

    params: SourceStage.Params
    published: Sequence[PublishedFolder] = ()

    @property
    def packed_under(self) -> str:
        """Return how keys begin where a source is made of many files; else empty."""
        return ""

    @property
    def may_list_nothing(self) -> bool:
        """Return whether ledgers tell what there is, be it nothing."""
        paths = [parse_pattern(path) for _, path in self.params.list_places()]
        folders = [_find_folder(path, self.published) for path in paths]
        return all(folder and folder.has_ledger for folder in folders)


class ListedFile(NamedTuple):
    """One file of a listing.

    Attributes:
        key: its path as the pattern spells it, the same on every machine.
        path: what opens it here: an absolute path or a URL.
        size: bytes.
        mtime_ns: nanoseconds since 1970; 0 where the store tells none.
        version: changes when the content does.
    """

    key: str
    path: str
    size: int
    mtime_ns: int
    version: str


def list_files(
    params: FileListParams,
    count: Callable[[str], None],
    note_gap: NoteGap,
    published: Sequence[PublishedFolder] = (),
) -> Iterator[ListedFile]:
    """Return every file that the patterns name, each once, in no particular order.

    Args:
        params: patterns and bounds.
        count: called with a counter's name for each file that is left out, for whatever was not
            looked at, and for each pattern that names no file.
        note_gap: called with a reason, and with a path as keys begin, where nobody has looked.
        published: folders of other pipelines: only what they have out is listed there.

    Raises:
        OSError: a folder is missing or can't be read.
    """
    entries = _list_all(params, count, note_gap, published)
    if params.limit is None:
        return entries
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
    for index, pattern in enumerate(patterns):
        if is_url(pattern.base):
            walk = _walk_url(pattern, exclusion, count)
        else:
            report = _WalkReport(count, note_gap)
            walk = _walk_folder(pattern, exclusion, report, follow=params.follow_symlinks)
        folder = _find_folder(pattern, published)
        is_ruled = folder is not None and folder.has_ledger
        if folder is not None and is_ruled:
            walk = _walk_published(folder, pattern, exclusion, walk, (count, note_gap))
        found = is_ruled  # where a ledger knows of no outputs, nothing is missing
        for entry in walk:
            found = True
            if not _is_covered(entry.path, patterns[:index], exclusion):
                yield from _admit(entry, params, count)
        if not found:
            # An empty folder may be one that nothing is mounted on.
            count(f"no file matches {params.paths[index]}")
            note_gap(f"no file matches {params.paths[index]}")


def _find_folder(
    pattern: PathPattern, published: Sequence[PublishedFolder]
) -> PublishedFolder | None:
    """Return the folder of another pipeline in which all lies that a pattern can name."""
    base = f"{pattern.base.rstrip('/')}/"
    return next((each for each in published if base.startswith(f"{each.root.rstrip('/')}/")), None)


def _walk_published(
    folder: PublishedFolder,
    pattern: PathPattern,
    exclusion: Exclusion,
    walk: Iterator[ListedFile],
    notes: tuple[Callable[[str], None], NoteGap],
) -> Iterator[ListedFile]:
    """Yield what a pipeline has out of the files that lie there; what it lacks is a gap."""
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
            count(f"not looked at: what {whose} has out")
            note_gap(f"what {whose} has out can't be told: {error}", pattern.prefix.rstrip("/"))
            yield from walk
            return
        for key in names.partial:  # it is written anew by the next attempt over there
            count(what := f"left out: holds rows that {whose} has no more")
            note_gap(f"{what}: {key!r}", key)
        with suppress(FileNotFoundError):  # without outputs there need be no folder
            for entry in filter(lambda entry: entry.key not in names.partial, walk):
                if names.take(entry.key, start + entry.key.removeprefix(pattern.prefix)):
                    yield entry
                else:
                    count(f"left out: no output of {whose}")
        for key in names.list_missing():
            count(what := f"not looked at: an output of {whose} that is not there")
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
    elif not _is_utf8(entry.key):
        count("left out: file name is not UTF-8")
    elif params.version is VersionFrom.CONTENT:
        yield entry._replace(version=digest_content(entry.path))
    else:
        if entry.version.endswith(_NO_MARK):
            count(_NO_VERSION)
        yield entry


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class _WalkReport(NamedTuple):
    """What a walk is told to."""

    note_left: Callable[[str], None]
    note_gap: NoteGap


def _walk_folder(
    pattern: PathPattern,
    exclusion: Exclusion,
    report: _WalkReport,
    *,
    follow: bool,
) -> Iterator[ListedFile]:
    if pattern.is_plain:
        path = f"{pattern.base.rstrip('/')}/{pattern.rest}"
        if not exclusion.holds(pattern.format_key(pattern.rest)):
            yield _check_plain(pattern, path)
        return
    if not os.path.isdir(pattern.base):
        msg = f"the folder {pattern.prefix or '.'!r} of the pattern does not exist"
        raise FileNotFoundError(msg)
    walk = _FolderWalk(pattern, exclusion, report, follow=follow)
    yield from walk.walk(pattern.base, "", 0, ())


def _check_plain(pattern: PathPattern, path: str) -> ListedFile:
    key = pattern.format_key(pattern.rest)
    if os.path.isdir(path):
        msg = f"{key!r} is a folder; write {key.rstrip('/') + '/**'!r} for the files in it"
        raise IsADirectoryError(msg)
    try:
        return _entry_of(key, path, os.stat(path))
    except FileNotFoundError as error:
        msg = f"the file {key!r} does not exist"
        raise FileNotFoundError(msg) from error


def _entry_of(key: str, path: str, stat: os.stat_result) -> ListedFile:
    version = f"{stat.st_size}+{stat.st_mtime_ns}"
    return ListedFile(key, path, stat.st_size, stat.st_mtime_ns, version)


class _FolderWalk:
    """A walk down one folder that visits only what the pattern can match."""

    def __init__(
        self,
        pattern: PathPattern,
        exclusion: Exclusion,
        report: _WalkReport,
        *,
        follow: bool,
    ) -> None:
        self._pattern = pattern
        self._exclusion = exclusion
        self._report = report
        self._follow = follow

    def walk(
        self, folder: str, below: str, depth: int, above: tuple[tuple[int, int], ...]
    ) -> Iterator[ListedFile]:
        """Yield the matches in `folder`; `above` names the folders the walk came through."""
        if self._follow:
            try:
                stat = os.stat(folder)
            except FileNotFoundError:
                self._lose(folder, below)
                return
            if (stat.st_dev, stat.st_ino) in above:
                return
            above = (*above, (stat.st_dev, stat.st_ino))
        for item in self._scan(folder, below, depth):
            name = below + item.name
            if item.is_symlink() and not self._leads_on(item, name, depth):
                continue
            if item.is_dir(follow_symlinks=self._follow):
                if self._may_enter(item.name, name, depth):
                    yield from self.walk(item.path, name + "/", depth + 1, above)
            elif self._pattern.is_marker(name):
                self._report.note_left(_LEFT_FILE)
            elif self._pattern.regex.match(name):
                yield from self._stat(item, name)

    def _leads_on(self, item: os.DirEntry[str], name: str, depth: int) -> bool:
        """Return whether a link leads to a file, or to a folder that is entered; else note it."""
        try:
            mode = os.stat(item.path).st_mode
        except OSError:  # it leads nowhere, in a circle, or to where nothing may be read
            # What it led to may have been either, and may be there again tomorrow.
            if self._pattern.regex.match(name) or self._may_enter(item.name, name, depth):
                self._pass_over("a link that leads nowhere", name)
            return False
        if not stat_module.S_ISDIR(mode) or self._follow:
            return True
        if self._may_enter(item.name, name, depth):
            self._pass_over("a folder behind a link", name)
        return False

    def _pass_over(self, what: str, name: str) -> None:
        """Count what matches may lie in and was not looked at, and note it as a gap."""
        key = self._pattern.format_key(name.rstrip("/"))
        if not self._exclusion.holds(key):
            self._report.note_left(f"not looked at: {what}")
            self._report.note_gap(f"{key!r} is {what}", key)

    def _may_enter(self, name: str, below: str, depth: int) -> bool:
        pattern = self._pattern
        if pattern.depth is not None and depth >= pattern.depth:
            return False
        if depth < len(pattern.leading) and not pattern.leading[depth].match(name):
            return False
        if name.startswith(".") and not pattern.matches_hidden:
            return False
        if pattern.is_left_folder(name):
            self._report.note_left(_name_left(name))
            return False
        return not self._exclusion.holds_folder(pattern.format_key(below))

    def _stat(self, item: os.DirEntry[str], name: str) -> Iterator[ListedFile]:
        key = self._pattern.format_key(name)
        if self._exclusion.holds(key):
            return
        try:
            if item.is_file():
                yield _entry_of(key, item.path, item.stat())
            else:
                self._report.note_left("left out: neither a file nor a folder")
        except FileNotFoundError:  # removed since the folder was read: it is not there now
            return
        except PermissionError:
            self._pass_over("a file that may not be looked at", name)

    def _scan(self, folder: str, below: str, depth: int) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as items:
                yield from items
        except FileNotFoundError:  # removed since its parent was read, or moved where we have been
            self._lose(folder, below)
        except PermissionError as error:
            # Where nothing at all may be read, the listing can't begin.
            if not depth:
                raise _name_folder(folder, error) from error
            self._pass_over("a folder that can't be read", below)
        except OSError as error:
            raise _name_folder(folder, error) from error

    def _lose(self, folder: str, below: str) -> None:
        why = f"the folder {folder!r} went away while it was listed"
        self._report.note_gap(why, self._pattern.format_key(below.rstrip("/")))


def _name_folder(folder: str, error: OSError) -> OSError:
    return type(error)(f"the folder {folder!r} can't be read: {error.strerror}")


def _name_left(folder: str) -> str:
    """Return the counter of a folder that was left beside data."""
    if folder == "_delta_log":
        return "left out: the log of a Delta table; files that it has removed are listed, too"
    return f"left out: a folder {folder}"


def _walk_url(
    pattern: PathPattern, exclusion: Exclusion, count: Callable[[str], None]
) -> Iterator[ListedFile]:
    # Links are not asked for: stores that are reached by URL resolve them themselves.
    try:
        if not pattern.is_plain:
            yield from _walk_url_folder(pattern, exclusion, count)
        elif not exclusion.holds(pattern.format_key(pattern.rest)):
            url = f"{pattern.base.rstrip('/')}/{pattern.rest}"
            files, root = open_store(url)
            yield _entry_of_url(pattern.format_key(pattern.rest), url, files.info(root))
    except FileNotFoundError as error:
        msg = f"{pattern.format_key(pattern.rest)!r}: there is no such file or folder"
        raise FileNotFoundError(msg) from error
    except Exception as error:  # each store's library has errors of its own
        msg = f"{pattern.format_key(pattern.rest)!r}: {describe_store_error(error)}"
        kind = StoreRefusesError if is_refusal(error) else OSError
        raise kind(msg) from error


def _walk_url_folder(
    pattern: PathPattern, exclusion: Exclusion, count: Callable[[str], None]
) -> Iterator[ListedFile]:
    files, root = open_store(pattern.base)
    start = root.rstrip("/") + "/"
    for folder, folders, names in files.walk(root, detail=True, on_error="raise"):
        below = (folder.rstrip("/") + "/").removeprefix(start)
        for name in list(folders):
            if exclusion.holds_folder(pattern.format_key(below + name)):
                del folders[name]
            elif pattern.is_left_folder(name):
                del folders[name]
                if pattern.depth is None or below.count("/") < pattern.depth:
                    count(_name_left(name))
        for name, info in names.items():
            key = pattern.format_key(below + name)
            if pattern.is_marker(below + name):
                count(_LEFT_FILE)
            elif name and pattern.regex.match(below + name) and not exclusion.holds(key):
                # As the pattern spells it: some libraries lose the account or the protocol.
                yield _entry_of_url(key, f"{pattern.base.rstrip('/')}/{below}{name}", info)


def _entry_of_url(key: str, url: str, info: dict[str, Any]) -> ListedFile:
    size = int(info.get("size") or 0)
    mark = next((info[name] for name in _MARKS if info.get(name)), "")
    mtime = info.get("mtime")
    mtime_ns = int(mtime * 1_000_000_000) if isinstance(mtime, int | float) else 0
    return ListedFile(key, url, size, mtime_ns, f"{size}+{mark}")
