"""Starting points of a redo, and the interface of the rules that find them.

The module must not depend on any rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from strandline.ledger.records.entries import FinishedEntry, SourceRecord
from strandline.ledger.store.recipes import Changes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.stage import Stage


class Start(NamedTuple):
    """The point from which a finished source is redone.

    Attributes:
        after: the last stage that is not repeated, or None to repeat all stages.
        rule: name of the rule that reads that stage's output; empty if all stages are repeated.
        without: columns to drop from the output, because later stages added them.
    """

    after: str | None = None
    rule: str = ""
    without: tuple[str, ...] = ()


class DueSource(NamedTuple):
    """A finished source of an older recipe.

    Attributes:
        is_readable: False if an attempt could not read the source's outputs back.
        changes: differences between recipes.
        plan: the plan of the last recipe.
    """

    entry: FinishedEntry
    record: SourceRecord
    is_readable: bool
    changes: Changes
    plan: PipelinePlan


class RedoRule(Protocol):
    """A place that has the output of an unchanged stage.

    Attributes:
        reads_cut: whether the output is a cut, which the ledger drops if it can't be read. Other
            outputs stay, and a note in the ledger excludes them.
    """

    reads_cut: bool

    def find(self, due: DueSource) -> Start | None:
        """Return the latest start of a source by this rule, or None if the rule finds none.

        `find_start` sets the name of the rule.
        """

    def describe(self, start: Start) -> str:
        """Describe a start in words."""

    def open_reader(self, plan: PipelinePlan, start: Start, /) -> Stage:
        """Return the stage that reads the output back."""

    def list_files(self, start: Start, record: SourceRecord, /) -> list[Output]:
        """Return the files to read, in order."""

    def note_missing(
        self,
        store: Store,
        location: str,
        starts_here: Callable[[bytes, FinishedEntry, SourceRecord], bool],
        /,
    ) -> None:
        """Exclude sources with missing files from this rule, in the ledger.

        Args:
            location: folder or URL of the outputs.
            starts_here: returns whether a finished source would start by this rule.
        """


def find_position(output: Output) -> tuple[bytes, int, bytes]:
    """Return a sort key that orders files, and the parts of a shared file by their begin."""
    file, begin = (b"", 0) if output.part is None else output.part[:2]
    return file, begin, output.token
