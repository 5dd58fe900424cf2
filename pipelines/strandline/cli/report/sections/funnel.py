"""Builds the section about the funnel: rows of finished sources by stage.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from strandline.cli.report.charts import draw_share
from strandline.cli.views.format import format_amount, format_count
from strandline.ledger.checks.counts import FinishedCounts, StageTotals

REASONS = 12  # maximum number of displayed drop reasons of a stage


def list_shares(funnel: Sequence[StageTotals]) -> Iterator[tuple[StageTotals, str, Markup]]:
    """Yield each stage with the share of rows that it kept, as text and as a chart."""
    largest = max(max(stage.rows_in, stage.rows_out) for stage in funnel)
    for stage in funnel:
        kept = _describe_share(stage.share_kept)
        share = stage.rows_out / largest if largest else 0.0
        yield stage, kept, draw_share(share, f"{stage.name}: {kept} kept")


def describe_coverage(counts: FinishedCounts) -> Iterator[str]:
    """Yield a sentence about finished sources that the row counts do not cover."""
    if counts.uncounted:
        of = format_amount(counts.counted + counts.uncounted, "source")
        yield (
            f"Rows of {format_count(counts.uncounted)} of {of} are not in this table: an older "
            "release finished them without counts."
        )


def _describe_share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.1%}" if share <= 1 else f"×{share:,.1f}"  # a stage may turn one row into many


def describe_reasons(stage: StageTotals, most: int = REASONS) -> Iterator[str]:
    """Yield the most frequent reasons of a stage with counts, then the count of the others."""
    yield from (f"{format_count(number)} {name}" for name, number in stage.reasons[:most])
    more = len(stage.reasons) - most
    if more > 0:
        yield f"and {format_amount(more, 'more reason')}"
