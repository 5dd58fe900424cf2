"""The stage `filter-urls`: drops rows with a URL on the user's lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline_packs.web.item_lists import ItemList, ListedParams
from strandline_packs.web.url_rules import UrlRules, find_fault, normalise_url

_LISTS = ("domains", "urls", "words", "subwords", "soft_words")


class FilterUrls(RowFilter):
    """Drops rows whose URL is on a list. The fingerprint covers the contents of the lists."""

    class Params(RowFilter.Params, ListedParams):
        """Configures the lists. Strandline ships none: curators decide which URLs are unwanted."""

        column: str = Field(default="url", description="Column with the URL.")
        domains: ItemList = Field(
            default=ItemList(), description="Hosts; their subdomains are dropped too."
        )
        urls: ItemList = Field(
            default=ItemList(),
            description="Whole URLs, regardless of scheme and trailing slash; case is significant "
            "after the host.",
        )
        words: ItemList = Field(
            default=ItemList(),
            description="Words, delimited by characters of the URL that are not letters or digits.",
        )
        subwords: ItemList = Field(
            default=ItemList(),
            description="Parts of words, which are also found across such characters.",
        )
        soft_words: ItemList = Field(
            default=ItemList(), description="Soft words: a single one does not drop a URL."
        )
        max_soft_words: int = Field(
            default=1, ge=0, description="Maximum number of different soft words in a URL."
        )

        def name_lists(self) -> Mapping[str, ItemList]:
            return {name: getattr(self, name) for name in _LISTS}

        def normalise(self, name: str, items: Iterable[str]) -> frozenset[str]:
            """Return list items in their normal form; URLs lose the scheme and a final slash."""
            if name == "urls":
                return frozenset(map(normalise_url, items))
            return super().normalise(name, items)

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {"reason_column"}

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def digest_inputs(self) -> dict[str, str]:
        """Return the digest of each list."""
        return self.params.digests

    def setup(self) -> None:
        """Read the lists.

        Raises:
            UnreadableFileError: a file can't be read.
            ChangedListError: a list has changed since planning.
        """
        lists = self.params.read_again()
        self._rules = UrlRules(
            domains=lists["domains"],
            urls=lists["urls"],
            words=lists["words"],
            subwords=lists["subwords"],
            soft_words=lists["soft_words"],
            most_soft_words=self.params.max_soft_words,
        )

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Drop and count rows with an unwanted or missing URL."""
        faults = [find_fault(url, self._rules) for url in list_strings(table, self.params.column)]
        return JudgedRows(table, faults)
