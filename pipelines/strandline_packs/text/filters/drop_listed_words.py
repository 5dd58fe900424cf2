"""The stage `drop-listed-words`: drops texts with words of the user's lists, as C4 does.

A share of such texts can be kept. The selection depends only on the text, so a repeated source
gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Self

import pyarrow as pa
from pydantic import Field, model_validator

from strandline.data.tables.columns import list_strings
from strandline_packs.text.filters.document_filter import DocumentFilter, FilterAnswer
from strandline_packs.text.filters.listed_words import WordFinder
from strandline_packs.web.item_lists import ItemList, ListedParams

_REASON = "document_removed_with_badwords"
# Languages in which C4 ignores word boundaries.
_UNSPACED = frozenset({"ja", "th", "zh"})
_DIGEST_BYTES = 8


class WordList(ItemList):
    """Words in the pipeline, or in files with a word per line."""

    items: tuple[str, ...] = Field(default=(), description="Words or phrases, in any case.")
    paths: tuple[str, ...] = Field(
        default=(),
        description="Files or URLs of words, one per line; lines that start with `#` are skipped, "
        "and .gz, .zst, .bz2 and .lz4 are unpacked.",
    )
    anywhere: bool | None = Field(
        default=None,
        description="Also find them inside words; by default only with the lists of ja, th and zh.",
    )


class DropListedWords(DocumentFilter):
    """Drops texts with listed words. The fingerprint covers the contents of the lists."""

    class Params(DocumentFilter.Params, ListedParams):
        """Configures the lists. Strandline ships none: curators decide which words are unwanted."""

        words: WordList = Field(
            default=WordList(), description="Words that drop a text of any language."
        )
        languages: dict[str, WordList] = Field(
            default={},
            description="Words that drop a text of one language, by the code in `languageColumn`.",
        )
        language_column: str | None = Field(
            default=None, min_length=1, description="Column with the language of the text."
        )
        keep_fraction: float = Field(
            default=0.0,
            ge=0,
            le=1,
            description="Share of the texts with a listed word that are kept, chosen by a hash of "
            "the text.",
        )
        seed: int = Field(default=0, description="A different seed keeps different texts.")

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.languages and self.language_column is None:
                msg = "`languages` needs `languageColumn`, the column that has the language"
                raise ValueError(msg)
            return self

        def name_lists(self) -> Mapping[str, WordList]:
            own = {f"languages.{code}": listed for code, listed in self.languages.items()}
            return {"words": self.words, **own}

        def normalise(self, name: str, items: Iterable[str]) -> frozenset[str]:
            """Return the items of a list in their normal form."""
            return super().normalise(name, items) - {""}  # every text contains the empty item

    version = "2"
    params: Params

    def list_needed_columns(self) -> tuple[str, ...]:
        needed = self.params.column, self.params.language_column
        return tuple(name for name in needed if name is not None)

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
        params = self.params
        self._words = WordFinder(lists["words"], anywhere=bool(params.words.anywhere))
        self._languages = {
            code: WordFinder(lists[f"languages.{code}"], anywhere=_is_anywhere(code, listed))
            for code, listed in params.languages.items()
        }

    def _list_judges(self, table: pa.Table) -> Iterable[Callable[[str], FilterAnswer]]:
        """Return a function for each text that judges the text by the lists of its language.

        Raises:
            MissingColumnError: the language column is missing.
        """
        name = self.params.language_column
        if name is None:
            return super()._list_judges(table)
        return [partial(self._judge_in, code) for code in list_strings(table, name)]

    def _judge_in(self, language: str, text: str) -> FilterAnswer:
        finder = self._languages.get(language)
        if finder is None:
            self.count("texts of languages without a list")
        elif finder.is_found(text):
            return self._answer(text)
        return self.judge(text)

    def judge(self, text: str) -> FilterAnswer:
        """Judge a text by the lists of all languages."""
        return self._answer(text) if self._words.is_found(text) else FilterAnswer(None, text)

    def _answer(self, text: str) -> FilterAnswer:
        if _draw(text, self.params.seed) < self.params.keep_fraction * 2 ** (8 * _DIGEST_BYTES):
            self.count("kept with a listed word")
            return FilterAnswer(None, text)
        return FilterAnswer(_REASON, text)


def _is_anywhere(language: str, listed: WordList) -> bool:
    return language in _UNSPACED if listed.anywhere is None else listed.anywhere


def _draw(text: str, seed: int) -> int:
    """Return a pseudorandom integer of `_DIGEST_BYTES` bytes that depends only on the text."""
    state = blake2b(f"{seed}\n".encode(), digest_size=_DIGEST_BYTES)
    state.update(text.encode())
    return int.from_bytes(state.digest(), "big")
