"""The stages `digest-sentences` and `drop-listed-sentences`: drop repeated sentences, as in C4.

The stages work on runs of consecutive sentences. Between the two stages, other pipelines find equal
rows. The key of a run consists of the document's key and the number of the run's first sentence, so
both stages need the same texts and the same splitting.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import list_strings, list_texts, set_column
from strandline.data.tables.row_filter import JudgedRows
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.corpus.row_buckets import (
    BUCKETS,
    build_buckets,
    columns_of,
    mark_keys,
)
from strandline_packs.dedup.drop_duplicates import Normalisation, digest_values
from strandline_packs.dedup.drop_listed import DropListed
from strandline_packs.dedup.keyed_texts import KeyedTextParams
from strandline_packs.text.filters.splitting import (
    PACKAGES,
    Splitter,
    Splitting,
    cut_sentences,
    load_splitter,
)


class SentenceRunParams(KeyedTextParams):
    """Configures the texts, and the splitting rules, which must be equal for both stages."""

    span: int = Field(
        default=3,
        ge=1,
        description="Number of sentences of a run. A text with fewer sentences has no runs.",
    )
    splitting: Splitting = Field(
        default=Splitting.RULES,
        description="How to split sentences: `rules` uses built-in rules, which are fast and "
        "support all scripts; `spacy` and `nltk` use the rules of these packages.",
    )
    language: str = Field(
        default="en",
        pattern="^[a-z]{2,3}$",
        description="Code of the texts' language, which selects spaCy's rules.",
    )

    def name_runs(self, key: str, count: int) -> list[str]:
        """Return the keys of a document's runs. `count` is the number of sentences."""
        # Numbers of equal width sort in order, so the first of a document's repeated runs stays.
        return [f"{key}#{at:08d}" for at in range(count - self.span + 1)]


class DigestSentences(Stage):
    """Returns a row with the digest of each run of sentences; equal runs share a bucket."""

    class Params(SentenceRunParams):
        """Configures the size of runs, and how texts are normalized before the comparison."""

        normalise: Normalisation = Field(
            default=Normalisation.WHITESPACE,
            description="`none`: bytes must be equal. `whitespace`: runs of white space count as "
            "one blank. `case`: also ignores upper and lower case.",
        )

    version = "3"
    params: Params

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """The package that splits texts into sentences."""
        return PACKAGES[self.params.splitting]

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def change_columns(self, columns: Columns) -> Columns:
        del columns
        return columns_of(BUCKETS)

    def setup(self) -> None:
        """Load the splitter."""
        self._splitter: Splitter = load_splitter(self.params.splitting, self.params.language)

    def process(self, task: Task) -> Task:
        """Digest every run of sentences.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or keys have an unsupported type.
        """
        names: list[str] = []
        buckets: list[list[bytes]] = []
        keys = list_texts(task.table, self.params.key)
        for key, text in zip(keys, list_strings(task.table, self.params.column), strict=True):
            sentences = cut_sentences(self._splitter, text)
            for at, name in enumerate(self.params.name_runs(key, len(sentences))):
                names.append(name)
                buckets.append(self._digest("".join(sentences[at : at + self.params.span])))
        # Mark only the keys of documents: documents with the same key would also have the same run
        # keys.
        return task.replace(
            pa.concat_tables([build_buckets(names, buckets), mark_keys(keys, task.key)])
        )

    def _digest(self, run: str) -> list[bytes]:
        # Runs without text are never duplicates.
        return [digest_values([run.strip()], self.params.normalise)] if run.strip() else []


class DropListedSentences(DropListed):
    """Removes listed runs of sentences from each text, and drops texts that become too short."""

    class Params(SentenceRunParams, DropListed.Params):
        """Configures the list, the texts, and the minimal size of a shortened text."""

        min_sentences: int = Field(
            default=3, ge=0, description="Minimum number of sentences left of a text."
        )
        min_words: int = Field(
            default=50, ge=0, description="Minimum number of words and marks left of a text."
        )

    scope = "list"
    version = "2"
    params: Params
    changes_rows = True

    @property
    def packages(self) -> tuple[str, ...]:  # type: ignore[override]  # a parameter decides
        """The package that splits texts into sentences."""
        return PACKAGES[self.params.splitting]

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def setup(self) -> None:
        """Load the keys and the splitter.

        Raises:
            ChangedListError: the keys have changed since planning.
            UnreadableFileError: the list is missing.
        """
        super().setup()
        self._splitter: Splitter = load_splitter(self.params.splitting, self.params.language)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Shorten texts, and count the removed runs.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or keys have an unsupported type.
        """
        params = self.params
        texts = list_strings(table, params.column)
        cut = [cut_sentences(self._splitter, text) for text in texts]
        names = [
            params.name_runs(key, len(sentences))
            for key, sentences in zip(list_texts(table, params.key), cut, strict=True)
        ]
        # Search for the keys of all texts at once, in a single array operation.
        listed = iter(self._listed.find([name for runs in names for name in runs]))
        left = [
            self._shorten(text, sentences, list(islice(listed, len(runs))))
            for text, sentences, runs in zip(texts, cut, names, strict=True)
        ]
        # `_shorten` returns the same object for an unchanged text. Limits apply only to shortened
        # texts.
        reasons = [
            None if after is before else self._find_fault(after)
            for before, after in zip(texts, left, strict=True)
        ]
        kind: Any = table.schema.field(params.column).type
        changed = [
            before if why else after
            for before, after, why in zip(texts, left, reasons, strict=True)
        ]
        return JudgedRows(set_column(table, params.column, changed, kind), reasons)

    def _shorten(self, text: str, sentences: list[str], is_listed: list[bool]) -> str:
        """Return the remaining text, or the unchanged text if no run is listed."""
        # Listed runs may overlap, so a set avoids counting a sentence twice.
        gone = {
            at + step
            for at, goes in enumerate(is_listed)
            if goes
            for step in range(self.params.span)
        }
        if not gone:
            return text
        self.count("sentences dropped", len(gone))
        return "".join(each for at, each in enumerate(sentences) if at not in gone).strip()

    def _find_fault(self, left: str) -> str | None:
        if not left:
            return "nothing left"
        if sum(1 for _ in self._splitter.find_sentences(left)) < self.params.min_sentences:
            return "too few sentences left"
        words = self._splitter.split_words(left) if self.params.min_words else ()
        return "too few words left" if len(words) < self.params.min_words else None
