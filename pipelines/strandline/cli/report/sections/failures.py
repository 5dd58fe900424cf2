"""What went wrong with sources: failures, quarantine, and what is in flight. Pure."""

from __future__ import annotations

from strandline.cli.report.facts import LedgerFacts, RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.tables import make_note, make_section, make_table, say_more
from strandline.cli.views.format import spell_amount, spell_count


def make_failures(facts: RunFacts) -> Markup:
    """Failures and quarantine with their messages."""
    ledger = facts.ledger or LedgerFacts()
    if not (ledger.failures.count or ledger.parked.count or ledger.inflight.count):
        note = make_note("No source has failed, none is quarantined, none is in flight.")
        return make_section("failures", "Failures", note)
    pieces = [*_make_failed(ledger), *_make_parked(ledger), *_make_inflight(ledger)]
    return make_section("failures", "Failures", *pieces)


def _make_failed(ledger: LedgerFacts) -> list[Markup | None]:
    failures = ledger.failures
    if not failures.count:
        return []
    stages = ", ".join(
        f"{spell_count(number)} in {stage or 'a process that died'}"
        for stage, number in ledger.failed_in.items()
    )
    rows = [
        (
            (entry.key, "words"),
            entry.stage,
            (entry.message, "words"),
            str(entry.attempt),
            spell_count(entry.times),
        )
        for entry in failures.items
    ]
    columns = ("source", "stage", "message", "#attempt", "#times")
    return [
        element("p", f"{spell_amount(failures.count, 'source')} failed: {stages}."),
        make_table("Failed sources", columns, rows),
        say_more(failures.more, "strandline ledger sources --state failed"),
    ]


def _make_parked(ledger: LedgerFacts) -> list[Markup | None]:
    parked = ledger.parked
    if not parked.count:
        return []
    rows = [
        (
            (entry.key, "words"),
            entry.cause,
            entry.stage,
            (entry.message, "words"),
            spell_count(entry.times),
        )
        for entry in parked.items
    ]
    columns = ("source", "cause", "stage", "message", "#times")
    return [
        element(
            "p",
            f"{spell_amount(parked.count, 'source')} quarantined: not tried again until "
            "released, or changed.",
        ),
        make_table("Quarantined sources", columns, rows),
        say_more(parked.more, "strandline ledger quarantine list"),
    ]


def _make_inflight(ledger: LedgerFacts) -> list[Markup | None]:
    marks = ledger.inflight
    if not marks.count:
        return []
    rows = [((mark.key, "words"), str(mark.attempt)) for mark in marks.items]
    return [
        element(
            "details",
            element("summary", f"{spell_amount(marks.count, 'source')} in flight"),
            make_table("Sources in flight", ("source", "#attempt"), rows),
            say_more(marks.more, "strandline ledger sources --state inflight"),
        )
    ]
