"""Shows why sources failed, with a line for each reason.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from strandline.cli.views.format import escape_text, format_amount, format_count
from strandline.ledger.records.entries import SourceState
from strandline.run.attempt.failures import FailureGroup

GROUPS_SHOWN = 10
_LETTERS = 300  # maximum length of the message of an example


def describe_failures(
    groups: Sequence[FailureGroup],
    total: int,
    most: int = GROUPS_SHOWN,
    state: SourceState = SourceState.FAILED,
) -> Iterator[str]:
    """Describe failures as lines: the total, and each reason with its count and an example.

    Args:
        groups: groups of failures, the largest first.
        total: number of sources in the state; more than in the groups if not all were read.
        most: maximum number of groups to show.
        state: state of the sources: failed or quarantined.
    """
    if total:
        yield f"{format_amount(total, 'source')} {state}:"
        yield from describe_groups(groups, total, most)


def describe_dead_letters(groups: Sequence[FailureGroup], rows: int, sources: int) -> Iterator[str]:
    """Describe dead letters as lines: the total, and each reason with its count and an example."""
    if rows:
        yield f"{format_amount(rows, 'dead letter')} of {format_amount(sources, 'source')}:"
        yield from describe_groups(groups, rows, len(groups))


def describe_groups(
    groups: Sequence[FailureGroup], total: int, most: int = GROUPS_SHOWN
) -> Iterator[str]:
    """Describe each reason as lines, and finally the number of sources without a shown reason."""
    for group in groups[:most]:
        yield from _describe_group(group)
    rest = total - sum(group.count for group in groups[:most])
    if rest > 0:
        yield f"  and {format_count(rest)} more for other reasons"


def render_failure_group(group: FailureGroup, state: str) -> dict[str, Any]:
    """Render a line of `failures --json`; its keys are stable.

    Args:
        state: state of the sources, or `dead` for a group of rows.
    """
    example = group.example
    return {
        "state": str(state),
        "stage": group.stage,
        "reason": str(group.reason),
        "count": group.count,
        "example": {"key": example.key, "attempt": example.attempt, "message": example.message},
    }


def _describe_group(group: FailureGroup) -> Iterator[str]:
    example, stage = group.example, f"{group.stage}: " if group.stage else ""
    message = example.message
    if len(message) > _LETTERS:
        message = f"{message[:_LETTERS]}…"
    if group.count == 1:
        yield escape_text(f"  {example.key}: {stage}{message}")
        return
    yield escape_text(f"  {format_count(group.count)} × {stage}{group.reason}")
    # If the reason already contains the whole message, do not repeat the message.
    text = "" if message == str(group.reason) else f": {message}"
    yield escape_text(f"      such as {example.key}{text}")
