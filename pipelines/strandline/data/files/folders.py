"""Walks a folder on a volume, and visits only subfolders where a pattern can match.

The module must not depend on how the files are used.
"""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Iterator

from strandline.data.files.globs import Exclusion, PathPattern
from strandline.data.files.identities import mix_inode
from strandline.data.files.listed import LEFT_FILE, ListedFile, WalkReport, name_left


def walk_folder(
    pattern: PathPattern,
    exclusion: Exclusion,
    report: WalkReport,
    *,
    follow: bool,
) -> Iterator[ListedFile]:
    """Yield the files in a folder on a volume that match a pattern.

    Args:
        report: receives skipped files, and gaps in the walk.
        follow: True to enter folders behind links.

    Raises:
        OSError: if a folder is missing or can't be read.
    """
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
    return ListedFile(key, path, stat.st_size, stat.st_mtime_ns, version, mix_inode(stat))


class _FolderWalk:
    """A walk of one folder that visits only subfolders where the pattern can match."""

    def __init__(
        self,
        pattern: PathPattern,
        exclusion: Exclusion,
        report: WalkReport,
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
        """Yield the matches in `folder` and its subfolders.

        Args:
            below: path of `folder` relative to the pattern's base, with a trailing slash; empty for
                the base.
            depth: number of levels below the base.
            above: device and inode of each parent folder, to detect loops.
        """
        # Loops are possible only if links are followed.
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
                self._report.note_left(LEFT_FILE)
            elif self._pattern.regex.match(name):
                yield from self._stat(item, name)

    def _leads_on(self, item: os.DirEntry[str], name: str, depth: int) -> bool:
        """Return True if a link leads to a file, or to a folder to enter. Report other links."""
        try:
            mode = os.stat(item.path).st_mode
        except OSError:  # a dangling link, a loop, or no permission
            # Report a gap: the target may be a matching file or folder that is missing only for
            # now.
            if self._pattern.regex.match(name) or self._may_enter(item.name, name, depth):
                self._pass_over("a broken symbolic link", name)
            return False
        if not stat_module.S_ISDIR(mode) or self._follow:
            return True
        if self._may_enter(item.name, name, depth):
            self._pass_over("a folder behind a symbolic link", name)
        return False

    def _pass_over(self, what: str, name: str) -> None:
        """Count a skipped file or folder that may contain matches, and report it as a gap."""
        key = self._pattern.format_key(name.rstrip("/"))
        if not self._exclusion.holds(key):
            self._report.note_left(f"not looked at: {what}")
            self._report.note_gap(f"{key!r} is {what}", key)

    def _may_enter(self, name: str, below: str, depth: int) -> bool:
        pattern = self._pattern
        if pattern.depth is not None and depth >= pattern.depth:
            return False
        # If the folder's name does not match this level of the pattern, nothing below can match.
        if depth < len(pattern.leading) and not pattern.leading[depth].match(name):
            return False
        if name.startswith(".") and not pattern.matches_hidden:
            return False
        if pattern.is_left_folder(name):
            self._report.note_left(name_left(name))
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
        except FileNotFoundError:  # the file was removed after the folder was read
            return
        except PermissionError:
            self._pass_over("a file whose attributes can't be read", name)

    def _scan(self, folder: str, below: str, depth: int) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as items:
                yield from items
        except FileNotFoundError:  # the folder was removed or moved after its parent was read
            self._lose(folder, below)
        except PermissionError as error:
            # Without the top folder, the listing would be empty, so raise the error.
            if not depth:
                raise _name_folder(folder, error) from error
            self._pass_over("a folder that can't be read", below)
        except OSError as error:
            raise _name_folder(folder, error) from error

    def _lose(self, folder: str, below: str) -> None:
        why = f"the folder {folder!r} disappeared while it was listed"
        self._report.note_gap(why, self._pattern.format_key(below.rstrip("/")))


def _name_folder(folder: str, error: OSError) -> OSError:
    return type(error)(f"the folder {folder!r} can't be read: {error.strerror}")
