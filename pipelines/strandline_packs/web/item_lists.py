"""Lists of items for filters, written in the pipeline or read from the user's files.

The fingerprint covers the contents of the lists. If a list changes during a run, the stage raises
an error. The module must not depend on the meaning of items.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Self

from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.opening import (
    READ_ERRORS,
    ChangedListError,
    UnreadableFileError,
    explain_error,
    open_decompressed,
)
from strandline.plan.stages.stage import Stage


class ItemList(Stage.Params):
    """Items in the pipeline, or in files with an item per line."""

    items: tuple[str, ...] = Field(
        default=(),
        description="Items of the list; the list determines whether case is significant.",
    )
    paths: tuple[str, ...] = Field(
        default=(),
        description="Files or URLs of items, one per line; lines that start with `#` are skipped, "
        "and .gz, .zst, .bz2 and .lz4 are unpacked.",
    )


class ListedParams(Stage.Params):
    """Base class of parameters with lists."""

    _digests: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _read_lists(self) -> Self:
        try:
            self._digests = {name: _digest(items) for name, items in self._iterate_lists()}
        except UnreadableFileError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the lists at planning time, by parameter."""
        return self._digests

    @abstractmethod
    def name_lists(self) -> Mapping[str, ItemList]:
        """Return the lists by parameter."""

    def normalise(self, name: str, items: Iterable[str]) -> frozenset[str]:
        """Return the items of a list in their normal form: in lower case."""
        del name
        return frozenset(item.strip().lower() for item in items)

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the files."""
        for name, listed in self.name_lists().items():
            for index, path in enumerate(listed.paths):
                yield f"{name}.paths[{index}]", path

    def read_again(self) -> dict[str, frozenset[str]]:
        """Return the items of each list, after checking that no list changed since planning.

        Raises:
            UnreadableFileError: a file can't be read.
            ChangedListError: a list has changed.
        """
        lists = dict(self._iterate_lists())
        for name, items in lists.items():
            if _digest(items) != self._digests[name]:
                msg = f"{name}: the list has changed during the run; run the pipeline again"
                raise ChangedListError(msg)
        return lists

    def _iterate_lists(self) -> Iterator[tuple[str, frozenset[str]]]:
        for name, listed in self.name_lists().items():
            yield name, self.normalise(name, (*listed.items, *_read_items(listed.paths)))


def _read_items(paths: Iterable[str]) -> Iterator[str]:
    """Yield the lines of files or URLs, without blank lines and lines that start with `#`."""
    for path in paths:
        try:
            with open_decompressed(path) as lines:
                for line in lines:
                    item = line.decode().strip()
                    if item and not item.startswith("#"):
                        yield item
        except (*READ_ERRORS, UnicodeDecodeError) as error:
            raise explain_error(path, error) from error


def _digest(items: frozenset[str]) -> str:
    """Return a digest of a list that does not depend on its order."""
    state = blake2b(digest_size=16)
    for item in sorted(items):
        state.update(item.encode() + b"\n")
    return state.hexdigest()
