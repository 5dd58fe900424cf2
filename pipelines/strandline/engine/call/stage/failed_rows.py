"""Rows that fail individually: how to find them in a task, and their dead letters. Pure.

Trial runs are passed in as functions. The module must not depend on stages, receipts, or the
consequences of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

# After this many failures without a success, the failure is attributed to the work, not to rows.
MOST_WITHOUT_ONE = 1000
PAYLOAD = "payload"
COLUMNS = (
    *("dead_stage", "dead_error", "dead_message", "dead_source", "dead_position"),
    "dead_detail",
)
DETAIL_CHARACTERS = 4000
_TEXT = pa.string()


class FormerRows(NamedTuple):
    """Rows of a task that failed before, with their positions in earlier failures of a stage.

    Attributes:
        stage: the stage in which the rows failed.
        positions: position of each row in that stage's earlier input.
    """

    stage: str
    positions: Sequence[int]


FORMER_ROWS = "strandline-former-rows"  # key of `FormerRows` in the meta of a task


def number_row(meta: Mapping[str, Any] | None, stage: str, row: int) -> int:
    """Return a row's number in failures of a stage: its position in the first run."""
    former = (meta or {}).get(FORMER_ROWS)
    if not isinstance(former, FormerRows) or former.stage != stage:
        return row
    return former.positions[row] if row < len(former.positions) else row


class RowError(NamedTuple):
    """The reason why a row can't be processed.

    Attributes:
        row: the row's position in the task's table; None if the whole task failed.
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
    """Return the rows that fail individually, in order, for a task that is known to fail.

    Halves that pass are not split further, so a single bad row among many costs few trials.

    Args:
        rows: number of rows of the task.
        attempt: runs the rows from the first number up to, but not including, the second. Returns
            the error, or None.

    Returns:
        The errors; empty if each row passes individually, or if none of the first thousand does.
    """
    if rows < 2:  # noqa: PLR2004 - nothing is left to be halved
        return []
    failed: list[RowError] = []
    has_passed = False
    middle = rows // 2
    # A stack: the first half is examined first, so the errors are in order.
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
            # Further trials of a stage that passes nothing cost time and reveal nothing new.
            if not has_passed and len(failed) >= MOST_WITHOUT_ONE:
                return []
    return failed


def list_others(rows: int, errors: Sequence[RowError]) -> list[int]:
    """Return the positions of the rows without an error."""
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
    """Return a dead letter for each error: the columns of the input row, and the error.

    Args:
        data: the payload of the task; apart from tables, only bytes and text can be kept.
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
    # A dead letter that fails again keeps its earlier error in renamed columns.
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
