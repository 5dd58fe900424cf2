"""Checks of the STATE column, for random and recorded statuses."""

from __future__ import annotations

from strandline_api.status.pipeline_status import PipelineStatus

LONGEST = 60


def check_summary(status: PipelineStatus) -> None:
    """Check that the summary fits on one line and does not end within a word."""
    summary, state = status.summary, status.state
    assert len(summary) <= LONGEST
    assert "\n" not in summary
    assert not summary.endswith(("...", "…")) or summary == state
    rest = state[len(summary) :] if state.startswith(summary) else ""
    assert not (summary[-1:].isalnum() and rest[:1].isalnum()), f"{summary!r} is a part of a word"
