"""The stage `filter-urls`: rows whose URL is on lists that the user brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

from pydantic import Field, PrivateAttr, model_validator

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.plan.task import Task
from strandline.stages.columns import keep_rows, list_strings
from strandline.stages.sources.opening import ChangedListError, UnreadableFileError
from strandline.stages.web.url_rules import (
    UrlRules,
    digest_items,
    find_fault,
    normalise_items,
    read_items,
)

_LISTS = ("domains", "urls", "words", "subwords", "soft_words")


class UrlList(Stage.Params):
    """Items that stand in the pipeline, or in files of one item a line."""

    items: tuple[str, ...] = Field(default=(), description="Items, in any case.")
    paths: tuple[str, ...] = Field(
        default=(),
        description="Files or URLs of items, one a line; lines that begin with `#` are passed "
        "over, and .gz, .zst, .bz2 and .lz4 are unpacked.",
    )


@register("filter-urls")
class FilterUrls(Stage):
    """Keeps rows whose URL is on none of the lists; what is in them is in the fingerprint."""

    class Params(Stage.Params):
        """The lists. None comes along: what is unwanted is for those to say who curate."""

        column: str = Field(default="url", description="Column with the URL.")
        domains: UrlList = Field(
            default=UrlList(), description="Hosts; what is below them is dropped too."
        )
        urls: UrlList = Field(
            default=UrlList(), description="Whole URLs, whatever their scheme and last slash."
        )
        words: UrlList = Field(
            default=UrlList(),
            description="Words, between characters of the URL that are no letters or digits.",
        )
        subwords: UrlList = Field(
            default=UrlList(),
            description="Parts of words; found also across such characters.",
        )
        soft_words: UrlList = Field(
            default=UrlList(), description="Words of which one alone is no reason."
        )
        max_soft_words: int = Field(
            default=1, ge=0, description="Most different soft words that a URL may have."
        )

        _digests: dict[str, str] = PrivateAttr(default_factory=dict)

        @model_validator(mode="after")
        def _read(self) -> Self:
            try:
                self._digests = {name: digest_items(items) for name, items in read_lists(self)}
            except UnreadableFileError as error:
                raise ValueError(str(error)) from error
            return self

        @property
        def digests(self) -> dict[str, str]:
            """Of the lists as they were when the pipeline was planned, by parameter."""
            return self._digests

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the files."""
            for name in _LISTS:
                for index, path in enumerate(getattr(self, name).paths):
                    yield f"{name}.paths[{index}]", path

    params: Params
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of each list."""
        return self.params.digests

    def setup(self) -> None:
        """Read the lists.

        Raises:
            UnreadableFileError: a file can't be read.
            ChangedListError: a list is another than the run was planned with.
        """
        lists = dict(read_lists(self.params))
        for name, items in lists.items():
            if digest_items(items) != self.params.digests[name]:
                msg = f"{name}: the list was changed under the run; run it again"
                raise ChangedListError(msg)
        self._rules = UrlRules(
            domains=lists["domains"],
            urls=lists["urls"],
            words=lists["words"],
            subwords=lists["subwords"],
            soft_words=lists["soft_words"],
            most_soft_words=self.params.max_soft_words,
        )

    def process(self, task: Task) -> Task | None:
        """Drop and count the rows whose URL is unwanted, or is none."""
        faults = [
            find_fault(url, self._rules) for url in list_strings(task.table, self.params.column)
        ]
        for fault in filter(None, faults):
            self.count(f"dropped: {fault}")
        return keep_rows(task, task.table, [not fault for fault in faults])


def read_lists(params: FilterUrls.Params) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the name of each list and what is in it.

    Raises:
        UnreadableFileError: a file can't be read.
    """
    for name in _LISTS:
        listed: UrlList = getattr(params, name)
        items = (*listed.items, *read_items(listed.paths))
        yield name, normalise_items(items, are_urls=name == "urls")
