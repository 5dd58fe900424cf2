"""Path patterns: parses globs, and derives the folder to walk and the keys of matches.

The functions work on text and read no disk. A pattern may start with a placeholder (`{stdlib}`,
`{site-packages}`) for a folder that differs between machines; the key of a file keeps the
placeholder.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sysconfig
from dataclasses import dataclass
from functools import cached_property

PLACEHOLDERS = {"{stdlib}": "stdlib", "{site-packages}": "purelib"}

# Files that Spark, Hive, Hadoop, and Strandline runs leave beside data.
# Matches `_SUCCESS`, `_common_metadata`, `_committed_1234`, and `.part-0.parquet.crc`.
_MARKERS = re.compile(r"_SUCCESS|_manifest|_(common_)?metadata|_(committed|started)_[^/]*|.*\.crc")
_LEFT_FOLDERS = frozenset({"_temporary", "_spark_metadata", "_delta_log", "_strandline"})
_MAGIC = re.compile(r"[*?\[]")
_BRACED = re.compile(r"\{[^/{}]*\}")
# Matches `s3://` and, for chained URLs of fsspec, `zip::`.
_PROTOCOL = re.compile(r"^[a-z][a-z0-9+.-]*://|^[a-z][a-z0-9+.-]*::")


def check_pattern(pattern: str) -> str:
    """Return the pattern unchanged if it is valid.

    Raises:
        ValueError: if the pattern is empty or has an unknown placeholder.
    """
    if not pattern.strip():
        msg = "a path pattern must not be empty"
        raise ValueError(msg)
    for name in _BRACED.findall(pattern):
        if name not in PLACEHOLDERS:
            known = ", ".join(PLACEHOLDERS)
            msg = f"{pattern!r}: unknown placeholder {name}; the placeholders are {known}"
            raise ValueError(msg)
        if not pattern.startswith(name):
            msg = f"{pattern!r}: the placeholder {name} is only allowed at the start"
            raise ValueError(msg)
    return pattern


def is_url(path: str) -> bool:
    """Return True if fsspec must open a path: `s3://…`, `memory://…`, but not `file://…`."""
    return bool(_PROTOCOL.match(path)) and not path.startswith("file://")


def translate_glob(glob: str, *, hidden: bool) -> re.Pattern[str]:
    """Return the regular expression for a glob, which matches a complete path separated by `/`.

    `*` and `?` match within a name, `**` spans folders, `[…]` is a set of characters. Unless
    `hidden` is True, a wildcard at the start of a name does not match a leading dot.
    """
    segments = glob.split("/")
    parts = [_translate_segment(segment, hidden=hidden) for segment in segments[:-1]]
    last = segments[-1]
    ending = _any_tail(hidden=hidden) if last == "**" else _translate_name(last, hidden=hidden)
    # Use DOTALL and `\Z`, because file names may contain line breaks.
    return re.compile("".join(parts) + ending + r"\Z", re.DOTALL)


@dataclass(frozen=True)
class PathPattern:
    """A pattern, split before the name with the first wildcard.

    Attributes:
        prefix: the part without wildcards, as written, up to and including its last slash. All
            keys begin with the prefix.
        rest: the part with wildcards, or the file name of a pattern without wildcards.
    """

    prefix: str
    rest: str

    @cached_property
    def base(self) -> str:
        """The folder to walk, as an absolute path or a URL, without a trailing slash."""
        expanded = expand_placeholder(self.prefix)
        if is_url(expanded):
            # A bare protocol such as `memory://` keeps its slashes.
            return expanded.rstrip("/") if expanded.rstrip("/").count("/") > 1 else expanded
        return os.path.abspath(expanded.removeprefix("file://") or ".")

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The regular expression for paths relative to `base`."""
        return translate_glob(self.rest, hidden=False)

    @cached_property
    def is_plain(self) -> bool:
        """Return True if the pattern has no wildcard."""
        return not _MAGIC.search(self.rest)

    @cached_property
    def matches_hidden(self) -> bool:
        """Return True if the pattern matches hidden names: a name in it has a leading dot."""
        return "/." in f"/{self.rest}"

    @cached_property
    def leading(self) -> list[re.Pattern[str]]:
        """The regular expressions for folder names below `base`, one per level, up to a `**`."""
        folders = self.rest.split("/")[:-1]
        fixed = folders[: folders.index("**")] if "**" in folders else folders
        return [translate_glob(name, hidden=False) for name in fixed]

    @cached_property
    def depth(self) -> int | None:
        """Number of folder levels between `base` and the files, or None for any number."""
        segments = self.rest.split("/")
        return None if "**" in segments else len(segments) - 1

    def format_key(self, below: str) -> str:
        """Return the key of the file at `below`, a path relative to `base`."""
        return self.prefix + below

    def is_marker(self, below: str) -> bool:
        """Return True if a file is a marker beside data, unless the pattern names it explicitly.

        The name of a checksum file begins with a dot. A checksum file is a marker if the file that
        it belongs to matches.
        """
        folder, _, name = below.rpartition("/")
        if not _MARKERS.fullmatch(name) or name in self.rest:
            return False
        checked = name[1:].removesuffix(".crc") if name.startswith(".") else name
        return bool(self.regex.match(f"{folder}/{checked}" if folder else checked))

    def is_left_folder(self, name: str) -> bool:
        """Return True if a folder is for bookkeeping beside data, unless the pattern names it."""
        return name in _LEFT_FOLDERS and name not in self.rest

    def find_below(self, path: str) -> str | None:
        """Return the path of a matching file relative to `base`, or None if it does not match."""
        start = self.base.rstrip("/") + "/"
        below = path.removeprefix(start)
        return below if below != path and self.regex.match(below) else None


def parse_pattern(pattern: str) -> PathPattern:
    """Split a pattern into the folder to walk and the rest.

    A pattern with a trailing slash names a folder and matches all files in it.
    """
    pattern += "**" if pattern.endswith("/") else ""
    found = _MAGIC.search(pattern)
    cut = pattern.rfind("/", 0, found.start() if found else len(pattern)) + 1
    return PathPattern(pattern[:cut], pattern[cut:])


def expand_placeholder(path: str) -> str:
    """Replace a placeholder at the start of a path with this interpreter's folder."""
    for name, folder in PLACEHOLDERS.items():
        if path.startswith(name):
            return sysconfig.get_path(folder) + path.removeprefix(name)
    return path


class Exclusion:
    """The `exclude` globs of a listing, matched against keys. Hidden names match too."""

    def __init__(self, globs: tuple[str, ...]) -> None:
        self._files = [translate_glob(glob, hidden=True) for glob in globs]
        whole = [glob.removesuffix("/**") for glob in globs if glob.endswith("/**")]
        self._folders = [translate_glob(glob, hidden=True) for glob in whole]

    def holds(self, key: str) -> bool:
        """Return True if the file is excluded."""
        return any(regex.match(key) for regex in self._files)

    def holds_folder(self, key: str) -> bool:
        """Return True if all files in a folder are excluded, so the folder need not be read."""
        return any(regex.match(key) for regex in self._folders)


def _translate_segment(segment: str, *, hidden: bool) -> str:
    if segment != "**":
        return _translate_name(segment, hidden=hidden) + "/"
    # `(?!\.)` excludes hidden folders.
    return r"(?:[^/]*/)*" if hidden else r"(?:(?!\.)[^/]+/)*"


def _any_tail(*, hidden: bool) -> str:
    return r".+" if hidden else r"(?:(?!\.)[^/]+/)*(?!\.)[^/]+"


def _translate_name(name: str, *, hidden: bool) -> str:
    guard = "" if hidden or not _MAGIC.match(name) else r"(?!\.)"
    return guard + "".join(_translate_piece(piece) for piece in _pieces(name))


def _pieces(name: str) -> list[str]:
    # Splits `a[!]b]*` into `a`, `[!]b]`, and `*`: a `]` at the beginning of a set belongs to the
    # set.
    return re.findall(r"\[!?\]?[^\]]*\]|.", name, re.DOTALL)


def _translate_piece(piece: str) -> str:
    if piece == "*":
        return r"[^/]*"
    if piece == "?":
        return r"[^/]"
    if len(piece) == 1:
        return re.escape(piece)
    # The standard library translates the set; remove its wrapper for a complete pattern. `(?!/)`
    # keeps sets such as `[!a]` from matching a slash.
    return r"(?!/)" + fnmatch.translate(piece)[len("(?s:") : -len(r")\Z")]
