"""Outcome of a run, for code and notebooks.

The module reads some facts of the outcome from the ledger, and must not change anything. The views
of the command line format the outcome; they are loaded only when an outcome is shown.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from strandline.ledger.access.session import opened_to_read
from strandline.ledger.store.rows import list_output_names
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import DESCRIPTIONS, TEMPORARY
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH = 120  # characters of a value in a notebook's table


@dataclass(frozen=True, slots=True, repr=False)
class Outcome(AttemptResult):
    """Outcome of an attempt, returned by a run."""

    _folder: PipelineFolder | None = None
    _is_packable: bool = False

    @property
    def outputs(self) -> list[str]:
        """Return paths or URLs of all output files, in the order of their sources' keys.

        With a ledger, these are the files of all finished sources, including sources that earlier
        attempts finished. Without a ledger, these are all files at the output location.
        """
        names = self._list_untracked() if self._folder is None else _list_tracked(self._folder)
        return [f"{self.output.rstrip('/')}/{name}" for name in names]

    @property
    def summary(self) -> str:
        """Return the last lines of `strandline run`: counts, failures, output."""
        from strandline.cli.commands.runs.outcome_details import read_details  # noqa: PLC0415 - see above
        from strandline.cli.views.summary import describe_outcome  # noqa: PLC0415 - see above

        details = read_details(self._folder, self.attempt, is_packable=self._is_packable)
        return "\n".join(describe_outcome(self, details))

    def sample(self, rows: int = 5) -> list[dict[str, Any]]:
        """Return the first rows of the output. Files of formats without rows are skipped."""
        from strandline.run.compare.output_rows import (  # noqa: PLC0415 - see above
            can_read_rows,
            read_rows,
        )

        found = (row for path in self.outputs if can_read_rows(path) for row in read_rows(path))
        return list(islice(found, rows))

    def __repr__(self) -> str:
        tracked = f", attempt {self.attempt}" if self.attempt else ""
        return f"<Outcome {self.code.name}{tracked}: {self.message}>"

    def _repr_html_(self) -> str:
        from strandline.cli.report.markup import element  # noqa: PLC0415 - see above

        color = "seagreen" if self.code is ExitCode.COMPLETE else "firebrick"
        head = element("strong", self.code.name, style=f"color: {color}")
        rows = _draw_rows(self.sample())
        return element("div", head, element("pre", *_escape_lines(self.summary)), *rows)

    def _list_untracked(self) -> list[str]:
        names = (name for name, _ in open_outputs(self.output).list_names())
        return sorted(
            name
            for name in names
            if not name.startswith((f"{TEMPORARY}/", f"{DESCRIPTIONS}/", "."))
        )


def make_outcome(result: AttemptResult, config: AttemptConfig) -> Outcome:
    """Return the outcome of an attempt.

    Args:
        result: result of the attempt.
        config: configuration of the attempt.
    """
    values = {each.name: getattr(result, each.name) for each in fields(AttemptResult)}
    folder = None if config.volume is None else config.folder
    return Outcome(**values, _folder=folder, _is_packable=config.plan.is_packable)


def _list_tracked(folder: PipelineFolder) -> list[str]:
    with opened_to_read(folder.ledger) as store:
        return list_output_names(store)


def _draw_rows(rows: list[dict[str, Any]]) -> list[Markup]:
    """Return a table of rows for a notebook, or an empty list without rows."""
    from strandline.cli.report.markup import element  # noqa: PLC0415 - see above

    names = list(dict.fromkeys(name for row in rows for name in row))
    head = element("tr", *(element("th", name) for name in names))
    body = [
        element(
            "tr", *(element("td", textwrap.shorten(str(row.get(name)), _WIDTH)) for name in names)
        )
        for row in rows
    ]
    return [element("table", head, *body)] if rows else []


def _escape_lines(text: str) -> list[str]:
    """Return the lines of a text as separate markup strings, with their newlines.

    `escape` shortens long strings and escapes newlines, so the lines are escaped separately.
    """
    from strandline.cli.report.markup import escape  # noqa: PLC0415 - see above

    return [escape(line) + "\n" for line in text.splitlines()]
