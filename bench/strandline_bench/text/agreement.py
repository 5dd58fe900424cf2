"""Compares the decisions of each Strandline filter with datatrove's.

Both get the same documents, settings, words, and sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline.plan.stages.registry import find_stage
from strandline_packs.text.filters.document_filter import SplittingFilter
from strandline_packs.text.filters.splitting import (
    Splitter,
    Splitting,
    load_splitter,
)

FILTERS = {
    "gopher-repetition": "GopherRepetitionFilter",
    "gopher-quality": "GopherQualityFilter",
    "c4-quality": "C4QualityFilter",
    "fineweb-quality": "FineWebQualityFilter",
}
IN_A_ROW = "the four in a row"
SHOWN = 4
# Whether a text is kept, and the resulting text or the reason for dropping the text.
Answer = tuple[bool, str]
Judge = Callable[[str], Answer]


@dataclass(slots=True)
class Agreement:
    """Decisions of two filters on the same documents.

    Attributes:
        name: name of the comparison.
        both, neither: numbers of documents that both filters keep, or neither.
        ours, theirs: numbers of documents that only Strandline's or only datatrove's filter keeps.
        differing: documents with different decisions or resulting texts, each with a reason.
    """

    name: str
    both: int = 0
    ours: int = 0
    theirs: int = 0
    neither: int = 0
    differing: list[tuple[str, str]] = field(default_factory=list)

    def add(self, text: str, ours: Answer, theirs: Answer) -> None:
        """Add a document with both answers."""
        kept = ours[0], theirs[0]
        self.both += kept == (True, True)
        self.ours += kept == (True, False)
        self.theirs += kept == (False, True)
        self.neither += kept == (False, False)
        if kept[0] != kept[1]:
            self.differing.append((text, theirs[1] if kept[0] else ours[1]))
        elif ours[1] != theirs[1] and kept[0]:
            self.differing.append((text, "another text"))

    @property
    def share(self) -> float:
        """Share of documents with equal decisions and, if kept, equal texts."""
        total = self.both + self.ours + self.theirs + self.neither
        return 1 - len(self.differing) / total if total else 1.0

    @property
    def jaccard(self) -> float:
        """Documents kept by both, as a share of the documents kept by at least one."""
        either = self.both + self.ours + self.theirs
        return self.both / either if either else 1.0


def compare(name: str, texts: list[str], ours: Judge, theirs: list[Answer]) -> Agreement:
    """Compare Strandline's decision on each text with datatrove's."""
    agreement = Agreement(name)
    for text, answer in zip(texts, theirs, strict=True):
        agreement.add(text, ours(text), answer)
    return agreement


def load_ours(use: str, splitting: Splitting, *, compatible: bool) -> Judge:
    """Return Strandline's filter as a function of a text."""
    stage_class = find_stage(use)
    stage = stage_class(splitting=splitting, compatible=compatible)
    assert isinstance(stage, SplittingFilter)
    stage.setup()

    def judge(text: str) -> Answer:
        answer = stage.judge(text)
        return (True, answer.text) if answer.reason is None else (False, answer.reason)

    return judge


def load_theirs(use: str, splitter: Splitter | None) -> Judge:
    """Return datatrove's filter as a function of a text.

    If `splitter` is None, the filter uses its own.
    """
    from datatrove.data import Document  # noqa: PLC0415 - may not be there
    from datatrove.pipeline import filters  # noqa: PLC0415

    values = {"language": inject_words(splitter)} if splitter else {}
    step: Any = getattr(filters, FILTERS[use])(**values)

    def judge(text: str) -> Answer:
        document = Document(text=text, id="")
        found = step.filter(document)
        if isinstance(found, tuple):
            return bool(found[0]), str(found[1])
        return (True, document.text) if found else (False, "")

    return judge


def inject_words(own: Splitter) -> Any:  # noqa: ANN401 - a class of theirs
    """Return a datatrove word tokenizer that splits as the given splitter does."""
    from datatrove.utils.word_tokenizers import WordTokenizer  # noqa: PLC0415 - may not be there

    class InjectedSplitter(WordTokenizer):  # type: ignore[misc]  # it comes without types
        """Splits words and sentences with Strandline's splitter."""

        def word_tokenize(self, text: str) -> list[str]:
            return own.split_words(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return [text[start:end] for start, end in own.find_sentences(text)]

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return list(own.find_sentences(text))

    return InjectedSplitter()


def chain(judges: list[Judge]) -> Judge:
    """Combine filters in sequence into one filter."""

    def judge(text: str) -> Answer:
        for each in judges:
            is_kept, text = each(text)
            if not is_kept:
                return False, text
        return True, text

    return judge


def compare_all(texts: list[str]) -> Iterator[Agreement]:
    """Yield the agreement of each filter, and of all four in sequence, for each splitter."""
    for splitting in Splitting:
        splitter = load_splitter(splitting)
        theirs = add_chain({use: load_theirs(use, splitter) for use in FILTERS})
        # Compute datatrove's decisions once, and compare them with both modes of Strandline's
        # filters.
        answers = {use: [judge(text) for text in texts] for use, judge in theirs.items()}
        for compatible in (True, False):
            ours = {use: load_ours(use, splitting, compatible=compatible) for use in FILTERS}
            for use, judge in add_chain(ours).items():
                name = f"{use}, {splitting}{', compatible' if compatible else ''}"
                yield compare(name, texts, judge, answers[use])


def add_chain(judges: dict[str, Judge]) -> dict[str, Judge]:
    """Return the filters by name, and add a filter that applies all in sequence."""
    return judges | {IN_A_ROW: chain(list(judges.values()))}


def format_agreements(found: Iterable[Agreement]) -> str:
    """Format the results as a Markdown table."""
    lines = [
        "| filter, splitting | kept by both | by ours alone | by theirs | Jaccard | agreement |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.name} | {each.both} | {each.ours} | {each.theirs} | {each.jaccard:.4f} "
        f"| {each.share:.2%} |"
        for each in found
    ]
    return "\n".join(lines) + "\n"


def describe_differing(agreement: Agreement) -> Iterator[str]:
    """Describe documents with different decisions: counts per reason, then examples."""
    if agreement.differing:
        counts = Counter(reason for _, reason in agreement.differing)
        yield f"{agreement.name}: " + ", ".join(f"{why}: {n}" for why, n in counts.most_common())
    for text, reason in agreement.differing[:SHOWN]:
        yield f"  {reason}: {text[:160]!r}"
