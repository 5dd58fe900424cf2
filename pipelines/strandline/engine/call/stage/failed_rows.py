"""Finds the rows of a task that fail individually, and builds their dead letters.

This module has no side effects: functions that try rows are arguments. The module must not depend
on stages, receipts, or the consequences of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

# After this many failures without a success, blame the stage's work, not the rows.
MOST_WITHOUT_ONE = 1000
PAYLOAD = "payload"
COLUMNS = (
    *("dead_stage", "dead_error", "dead_message", "dead_source", "dead_position"),
    "dead_detail",
)
DETAIL_CHARACTERS = 4000
_TEXT = pa.string()


class FormerRows(NamedTuple):
    """Rows of a task that already failed in an earlier run, with their earlier positions.

    Attributes:
        stage: the stage in which the rows failed.
        positions: index of each row in that stage's earlier input.
    """

    stage: str
    positions: Sequence[int]


FORMER_ROWS = "strandline-former-rows"  # key under which a task's `meta` has `FormerRows`


def number_row(meta: Mapping[str, Any] | None, stage: str, row: int) -> int:
    """Return the row number to report for a failure: the row's index in the first run."""
    former = (meta or {}).get(FORMER_ROWS)
    if not isinstance(former, FormerRows) or former.stage != stage:
        return row
    return former.positions[row] if row < len(former.positions) else row


class RowError(NamedTuple):
    """The reason why a row can't be processed.

    Attributes:
        row: index of the row in the task's table; None if the whole task failed.
        kind: the name of the error's class.
        message: the error in one line.
        detail: text that the stage adds; empty if there is none.
    """

    row: int | None
    kind: str
    message: str
    detail: str = ""


Attempt = Callable[[int, int], RowError | None]


def find_failed(rows: int, attempt: Attempt) -> list[RowError]:
    """Find the rows of a failing task that fail individually. Return their errors in row order.

    Halves that pass are not split further, so finding one bad row among many takes few trials.

    Args:
        rows: number of rows of the task.
        attempt: tries the rows from the first index up to, but not including, the second index.
            Returns the error, or None.

    Returns:
        The errors. The result is empty if each row passes individually, or if the first thousand
            tried rows all fail.
    """
    if rows < 2:  # noqa: PLR2004 - nothing is left to be halved
        return []
    failed: list[RowError] = []
    has_passed = False
    middle = rows // 2
    # Use a stack with the first half on top, so that the errors are in row order.
    waiting = [(middle, rows), (0, middle)]
    while waiting:
        begin, end = waiting.pop()
        error = attempt(begin, end)
        if error is None:
            has_passed = True
        elif end - begin > 1:
            middle = (begin + end) // 2
            waiting += [(middle, end), (begin, middle)]
        else:
            failed.append(error._replace(row=begin))
            # Stop if the stage passes nothing: further trials would cost time and show nothing new.
            if not has_passed and len(failed) >= MOST_WITHOUT_ONE:
                return []
    return failed


def list_others(rows: int, errors: Sequence[RowError]) -> list[int]:
    """Return the indexes of the rows without an error."""
    failed = {error.row for error in errors}
    return [row for row in range(rows) if row not in failed]


def spread_error(data: object, error: RowError) -> list[RowError]:
    """Convert the error of a whole task into an error for each of its rows."""
    if not isinstance(data, pa.Table):
        return [error._replace(row=None)]
    return [error._replace(row=row) for row in range(data.num_rows)]


def build_dead_letters(
    data: object,
    errors: Sequence[RowError],
    stage: str,
    source: str,
    meta: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Build a dead letter for each error: the columns of the input row, and the error.

    Args:
        data: the payload of the task. Apart from tables, only bytes and text can be kept.
        source: the key of the source.
        meta: metadata of the task, which may include `FormerRows`.
    """
    positions = [
        None if error.row is None else number_row(meta, stage, error.row) for error in errors
    ]
    rows = _take_rows(data, errors)
    notes = (
        pa.array([stage] * len(errors), _TEXT),
        pa.array([error.kind for error in errors], _TEXT),
        pa.array([error.message for error in errors], _TEXT),
        pa.array([source] * len(errors), _TEXT),
        pa.array(positions, pa.int64()),
        pa.array([error.detail or None for error in errors], _TEXT),
    )
    own = dict(zip(COLUMNS, notes, strict=True))
    # If a dead letter fails again, keep its earlier error in renamed columns.
    names = [f"{name}_before" if name in own else name for name in rows.column_names]
    columns = dict(zip(names, rows.columns, strict=True)) if rows.num_columns else {}
    return pa.table(columns | own)


def _take_rows(data: object, errors: Sequence[RowError]) -> pa.Table:
    if isinstance(data, pa.Table):
        return data.take(pa.array([error.row for error in errors], pa.int64()))
    kept: Any = data if isinstance(data, bytes | str) else None
    if kept is None:
        return pa.table({})
    return pa.table({PAYLOAD: pa.array([kept] * len(errors))})
