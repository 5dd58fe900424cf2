"""Splits texts into words and sentences, by built-in rules or with a library.

From spaCy and NLTK, only the rules inside their packages are used: no model is loaded and nothing
is downloaded. The module must not depend on measures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, Protocol

from strandline_packs.text.filters.words.word_rules import find_sentences, split_words

_MOST_CHARACTERS = 50_000_000  # see `_tokenize`


class Splitting(StrEnum):
    """The source of the splitting rules."""

    RULES = "rules"
    SPACY = "spacy"
    NLTK = "nltk"


PACKAGES = {Splitting.RULES: (), Splitting.SPACY: ("spacy",), Splitting.NLTK: ("nltk",)}


class UnknownLanguageError(ValueError):
    """Raised if the library has no rules for the language."""


class Splitter(Protocol):
    """Splits texts. Text between blanks gives at least one word."""

    @abstractmethod
    def split_words(self, text: str) -> list[str]:
        """Return words and marks in order, without blanks."""

    @abstractmethod
    def find_sentences(self, text: str) -> Iterable[tuple[int, int]]:
        """Return the start and end of each sentence."""


class RuleSplitter(Splitter):
    """Splits by built-in rules for all languages."""

    def split_words(self, text: str) -> list[str]:
        return split_words(text)

    def find_sentences(self, text: str) -> Iterable[tuple[int, int]]:
        return find_sentences(text)


class SpacySplitter(Splitter):
    """Splits like spaCy's blank pipeline of a language.

    Args:
        language: two letters, or `xx` for any language.

    Raises:
        ImportError: spaCy, or its package for the language, is not installed.
        UnknownLanguageError: spaCy has no rules for the language.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._begin()

    def _begin(self) -> None:
        import spacy  # noqa: PLC0415 - takes seconds, and may not be there

        try:
            self._pipeline: Any = spacy.blank(self._language)
        except ImportError as error:
            # spaCy raises ImportError for unknown languages too, not only for missing packages.
            if find_spec(f"spacy.lang.{self._language}") is not None:
                raise
            msg = f"spaCy has no rules for the language {self._language!r}"
            raise UnknownLanguageError(msg) from error
        self._sentencizer: Any = self._pipeline.add_pipe("sentencizer")
        self._words: dict[int, str] = {}
        self._seen = 0

    def split_words(self, text: str) -> list[str]:
        tokens = self._tokenize(text)
        codes, known = tokens.to_array("ORTH").tolist(), self._words
        try:
            words = [known[code] for code in codes]
        # Cache the text of each word, because reading the text of every token from spaCy is slow.
        except KeyError:
            known.update((token.orth, token.text.strip()) for token in tokens)
            words = [known[code] for code in codes]
        return [word for word in words if word]

    def find_sentences(self, text: str) -> Iterable[tuple[int, int]]:
        tokens = self._sentencizer(self._tokenize(text))
        return [(sentence.start_char, sentence.end_char) for sentence in tokens.sents]

    def _tokenize(self, text: str) -> Any:  # noqa: ANN401 - a Doc, where spaCy is there
        # spaCy caches every word, so start a new pipeline to limit the memory of long-lived
        # workers.
        self._seen += len(text)
        if self._seen > _MOST_CHARACTERS:
            self._begin()
        return self._pipeline.tokenizer(text)


class NltkSplitter(Splitter):
    """Splits by NLTK's rules: Punkt without training for sentences, and Treebank for words.

    Raises:
        ImportError: NLTK is not installed.
    """

    def __init__(self) -> None:
        from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer  # noqa: PLC0415

        self._sentences: Any = PunktSentenceTokenizer()
        self._tokenizer: Any = NLTKWordTokenizer()

    def split_words(self, text: str) -> list[str]:
        sentences = self._sentences.tokenize(text)
        return [word for part in sentences for word in self._tokenizer.tokenize(part)]

    def find_sentences(self, text: str) -> Iterable[tuple[int, int]]:
        return list(self._sentences.span_tokenize(text))


def load_splitter(splitting: Splitting, language: str = "en") -> Splitter:
    """Load the splitter of a language.

    Raises:
        ImportError: the library is not installed.
        UnknownLanguageError: the library has no rules for the language.
    """
    if splitting is Splitting.SPACY:
        return SpacySplitter(language)
    return NltkSplitter() if splitting is Splitting.NLTK else RuleSplitter()


def cut_sentences(splitter: Splitter, text: str) -> list[str]:
    """Return the sentences of a text with their trailing blanks. Joined, they equal the text."""
    starts = [start for start, _ in splitter.find_sentences(text)][1:]
    return [text[at:end] for at, end in zip([0, *starts], [*starts, len(text)], strict=True)]
