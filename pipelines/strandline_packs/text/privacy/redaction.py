"""Base class of stages that search text columns for kinds of values and replace them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from strandline.data.tables.columns import map_strings
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_api.texts import RedactionRule, redact


class RedactingStage(Stage):
    """Replaces and counts matches. Rows are neither added nor dropped."""

    keeps_columns = True

    @abstractmethod
    def list_kinds(self) -> Iterable[RedactionRule]:
        """Return the rules, the most certain first."""

    @abstractmethod
    def list_columns(self) -> Iterable[str]:
        """Return the columns to search, with text or lists of text."""

    def list_needed_columns(self) -> tuple[str, ...]:
        return tuple(self.list_columns())

    def setup(self) -> None:
        """Choose the rules."""
        self._kinds = tuple(self.list_kinds())

    def process(self, task: Task) -> Task:
        """Redact the columns."""
        table = task.table
        for name in self.list_columns():
            table = map_strings(table, name, self._redact)
        return task.replace(table)

    def _redact(self, text: str) -> str:
        return redact(text, self._kinds, self._count)

    def _count(self, name: str) -> None:
        self.count(f"redacted: {name}")
