"""Rows that fail alone: which of a task they are, and what is written of them. Pure.

Tries come in as functions. It must not know stages, receipts, nor what follows an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

# So many rows in a row without one that passes: the work fails, and not a row.
MOST_WITHOUT_ONE = 1000
PAYLOAD = "payload"
COLUMNS = (
    *("dead_stage", "dead_error", "dead_message", "dead_source", "dead_position"),
    "dead_detail",
)
DETAIL_CHARACTERS = 4000
_TEXT = pa.string()


class FormerRows(NamedTuple):
    """Rows of a task that failed before: what they are called in the failures of that stage.

    Attributes:
        stage: in which they failed.
        positions: of each row in what came to the stage then.
    """

    stage: str
    positions: Sequence[int]


FORMER_ROWS = "strandline-former-rows"  # key of `FormerRows` in the meta of a task


def number_row(meta: Mapping[str, Any] | None, stage: str, row: int) -> int:
    """Return what a row is called in failures of a stage: its position in the first run."""
    former = (meta or {}).get(FORMER_ROWS)
    if not isinstance(former, FormerRows) or former.stage != stage:
        return row
    return former.positions[row] if row < len(former.positions) else row


class RowError(NamedTuple):
    """Why a row can't be worked on.

    Attributes:
        row: its position in the task's table; None: the error is of the whole task.
        kind: the name of the error's class.
        message: in one line.
        detail: text that the stage adds; empty if it adds none.
    """

    row: int | None
    kind: str
    message: str
    detail: str = ""


Attempt = Callable[[int, int], RowError | None]


def find_failed(rows: int, attempt: Attempt) -> list[RowError]:
    """Return which rows of a task fail by themselves, in order; all of it is known to fail.

    Halves that pass are looked at no further, so a single one of many costs few tries.

    Args:
        attempt: works on the rows from the first number to before the second one; the error.

    Returns:
        Empty where each row passes by itself, or where none of the first thousand does.
    """
    if rows < 2:  # noqa: PLR2004 - nothing is left to be halved
        return []
    failed: list[RowError] = []
    has_passed = False
    middle = rows // 2
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
            # A try of a stage that can do nothing costs time, and says nothing new.
            if not has_passed and len(failed) >= MOST_WITHOUT_ONE:
                return []
    return failed


def list_others(rows: int, errors: Sequence[RowError]) -> list[int]:
    """Return the positions of the rows without an error."""
    failed = {error.row for error in errors}
    return [row for row in range(rows) if row not in failed]


def spread_error(data: object, error: RowError) -> list[RowError]:
    """Return the error of a whole task as one of each of its rows."""
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
    """Return a row for each error: the columns of its row as they came in, and what went wrong.

    Args:
        data: the payload of the task, a table or anything else; of that only bytes and text can
            be kept.
        source: key of the source.
        meta: of the task, which may have `FormerRows`.
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
    # Dead letters that are curated again die with what was said of them before.
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
