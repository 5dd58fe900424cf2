"""A report's numbers agree with each other in every state of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum

from hypothesis import given
from hypothesis import strategies as st

from report_builders import Outline, ended, facts_of, live_of, running, sampled
from strandline.cli.report.facts import Cut, RunFacts, RunLedger
from strandline.cli.report.page import render_page
from strandline.cli.report.sections.overview import list_parts
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import SourceCounts

LAST = 3


class Fate(StrEnum):
    """State of a listed source."""

    FINISHED_NOW = "finished by the last attempt"
    FINISHED_BEFORE = "finished before"
    FAILED_NOW = "failed in the last attempt"
    FAILED_BEFORE = "failed before, not retried yet"
    QUARANTINED = "quarantined"
    RELEASED_NOW = "released by the last attempt"
    RELEASED_BEFORE = "released by an attempt before"
    WAITING = "waiting"


def build(fates: Counter[Fate], unlisted: int, *, is_running: bool, is_listed: bool) -> RunFacts:
    """Return a run with these listed sources, and finished sources that are no longer listed."""
    failed = fates[Fate.FAILED_NOW], fates[Fate.FAILED_BEFORE]
    released = fates[Fate.RELEASED_NOW], fates[Fate.RELEASED_BEFORE]
    finished = fates[Fate.FINISHED_NOW], fates[Fate.FINISHED_BEFORE]
    ledger = RunLedger(
        listed=fates.total(),
        finished=sum(finished) + unlisted,
        finished_by={LAST: finished[0]},
        failed_by={LAST: failed[0], LAST - 1: failed[1]},
        inflight_of={LAST: released[0], LAST - 1: released[1]},
        failures=Cut((), sum(failed)),
        quarantine=Cut((), fates[Fate.QUARANTINED]),
        inflight=Cut((), sum(released)),
    )
    counts = SourceCounts(
        total=fates.total() if is_listed else None,
        finished=finished[0],
        skipped=finished[1] if is_listed else finished[1] // 2,
        failed=failed[0],
    )
    if is_running:
        live = live_of()._replace(
            listed=counts.total or 0, is_listed=is_listed, skipped=counts.skipped
        )
        return facts_of(ledger=ledger, attempts=Cut((running(LAST),), LAST), live=live)
    view = ended(LAST, Cause.USER_CANCELLED)
    assert view.record.outcome is not None
    outcome = view.record.outcome.model_copy(update={"sources": counts})
    view = view._replace(record=view.record.model_copy(update={"outcome": outcome}))
    return facts_of(ledger=ledger, attempts=Cut((view,), LAST))


@given(
    fates=st.lists(st.sampled_from(Fate), max_size=60).map(Counter),
    unlisted=st.integers(0, 5),
    is_running=st.booleans(),
    is_listed=st.booleans(),
)
def test_law_each_listed_source_is_in_exactly_one_part(
    fates: Counter[Fate], unlisted: int, is_running: bool, is_listed: bool
) -> None:
    # Vanished sources are detected only after the listing has ended.
    unlisted = unlisted if is_listed else 0
    facts = build(fates, unlisted, is_running=is_running, is_listed=is_listed)
    counts = facts.count_sources()
    parts = {part.label: part.number for part in list_parts(counts)}
    assert sum(parts.values()) == counts.listed == fates.total()
    assert counts.unlisted == unlisted
    for fate in (Fate.FINISHED_NOW, Fate.FINISHED_BEFORE, Fate.FAILED_NOW, Fate.FAILED_BEFORE):
        assert parts[fate] == fates[fate]
    assert parts[Fate.QUARANTINED] == fates[Fate.QUARANTINED]
    assert parts[Fate.WAITING] == fates[Fate.WAITING]
    # Sources in flight of an ended attempt no longer count as in flight.
    assert parts["in flight"] == (fates[Fate.RELEASED_NOW] if is_running else 0)
    released = fates[Fate.RELEASED_NOW] + fates[Fate.RELEASED_BEFORE]
    assert parts["in flight"] + parts["interrupted, to be processed again"] == released


@given(numbers=st.lists(st.integers(0, 10**6), min_size=6, max_size=6), is_running=st.booleans())
def test_law_no_part_is_negative_for_inconsistent_numbers(
    numbers: list[int], is_running: bool
) -> None:
    """A ledger changes while it is read, so its numbers may be inconsistent."""
    finished, now, failed, failed_now, inflight, released = numbers
    ledger = RunLedger(
        listed=0,
        finished=finished,
        finished_by={LAST: now},
        failed_by={LAST: failed_now},
        inflight_of={LAST: released},
        failures=Cut((), failed),
        inflight=Cut((), inflight),
    )
    view = running(LAST) if is_running else ended(LAST)
    counts = facts_of(ledger=ledger, attempts=Cut((view,), 1)).count_sources()
    assert min(part.number for part in list_parts(counts)) >= 0
    assert (counts.finished, counts.failed) == (finished, failed)
    assert counts.inflight + counts.interrupted == inflight


def test_a_stopped_run_is_never_shown_as_running() -> None:
    fates = Counter({Fate.RELEASED_NOW: 229, Fate.FAILED_BEFORE: 28, Fate.FINISHED_NOW: 300})
    facts = build(fates, 0, is_running=False, is_listed=True)
    text = Outline(render_page(facts)).text
    assert "interrupted229" in text
    assert "in flight229" not in text
    assert "28 failed before, not retried yet" in text


def test_counts_of_an_attempt_without_an_outcome_come_from_the_ledger() -> None:
    silent = ended(LAST, Cause.KILLED)
    assert silent.record.outcome is not None
    outcome = silent.record.outcome.model_copy(update={"sources": SourceCounts()})
    last = silent._replace(record=silent.record.model_copy(update={"outcome": outcome}), finished=0)
    before = last._replace(record=last.record.model_copy(update={"number": LAST - 1}))
    ledger = RunLedger(
        finished=40,
        finished_by={LAST: 12},
        failed_by={LAST: 5, LAST - 1: 3},
        failures=Cut((), 8),
    )
    facts = facts_of(ledger=ledger, attempts=Cut((before, last), LAST))
    assert facts.count_attempt(last) == (12, None, 5)
    assert facts.count_attempt(before) == (0, None, None)  # missing values do not become 0
    known = replace(facts, samples={LAST - 1: sampled(0.0, 0, 20)})
    assert known.count_attempt(before) == (20, None, 0)
