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
        is_readable: False if an earlier attempt could not read the source's outputs back.
        changes: differences between recipes.
        plan: the plan of the last recipe.
    """

    entry: FinishedEntry
    record: SourceRecord
    is_readable: bool
    changes: Changes
    plan: PipelinePlan


class RedoRule(Protocol):
    """Finds and reads the output of an unchanged stage, from which a redo can start.

    Attributes:
        reads_cut: whether the output is a cut. If a cut can't be read, the ledger drops it. Other
            outputs stay, and the ledger records that they are unreadable.
    """

    reads_cut: bool

    def find(self, due: DueSource) -> Start | None:
        """Return the latest starting point of a source by this rule, if any.

        `find_start` sets the name of the rule in the result.
        """

    def describe(self, start: Start) -> str:
        """Describe a starting point in words."""

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
        """Record in the ledger that sources with missing files can't start by this rule.

        Args:
            location: folder or URL of the outputs.
            starts_here: returns whether a finished source would start by this rule.
        """


def find_position(output: Output) -> tuple[bytes, int, bytes]:
    """Return a sort key: the file, and for a part of a shared file its first row."""
    file, begin = (b"", 0) if output.part is None else output.part[:2]
    return file, begin, output.token
