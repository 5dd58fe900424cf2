"""What went wrong with sources: failures, quarantine, and what is in flight. Pure."""

from __future__ import annotations

import shlex

from strandline.cli.report.facts import Kinds, RunFacts, RunLedger
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.tables import describe_more, make_note, make_section, make_table
from strandline.cli.views.format import format_amount, format_count
from strandline.ledger.records.entries import SourceState
from strandline.run.attempt.failures import FailureGroup, find_reason

GROUPS = 40
_CAPTIONS = {
    SourceState.FAILED: "Failures by kind",
    SourceState.QUARANTINED: "Quarantine by kind",
}
_LISTINGS = {
    SourceState.FAILED: ("ledger", "sources", "--state", "failed"),
    SourceState.QUARANTINED: ("ledger", "quarantine", "list"),
}


def make_failures(facts: RunFacts) -> Markup:
    """Return failures and quarantine with their messages."""
    ledger = facts.ledger or RunLedger()
    if not (
        ledger.failures.count
        or ledger.quarantine.count
        or ledger.inflight.count
        or ledger.counts.dead.total
    ):
        note = make_note("No source has failed, none is quarantined, none is in flight.")
        return make_section("failures", "Failures", note)
    pieces = [
        *_make_failed(facts, ledger),
        *_make_quarantined(facts, ledger),
        *_make_inflight(facts, ledger),
        *_make_dead(facts, ledger),
    ]
    return make_section("failures", "Failures", *pieces)


def _make_failed(facts: RunFacts, ledger: RunLedger) -> list[Markup | None]:
    failures = ledger.failures
    if not failures.count:
        return []
    stages = ", ".join(
        f"{format_count(number)} in {stage or 'a process that died'}"
        for stage, number in ledger.failed_in.items()
    )
    return [
        element("p", f"{format_amount(failures.count, 'source')} failed: {stages}."),
        *_make_kinds(facts, ledger.failures_by_kind, SourceState.FAILED),
        _make_sources(ledger),
        describe_more(failures.more, facts.name_command("ledger", "sources", "--state", "failed")),
    ]


def _make_kinds(facts: RunFacts, kinds: Kinds, state: SourceState) -> list[Markup | None]:
    """Return a table of what sources in a state have in common, and how to see all of each kind."""
    shown = kinds.groups[:GROUPS]
    if not shown:
        return []
    rows = [
        (
            entry.reason.error or (entry.reason.text, "words"),
            format_count(entry.count),
            entry.stage or "a process that died",
            entry.reason.location,
            (element("code", entry.example.key), "words"),
            (entry.example.message, "words"),
            element("a", "how to see them", href=f"#{_name_anchor(state, number)}"),
        )
        for number, entry in enumerate(shown)
    ]
    columns = ("error", "#sources", "stage", "raised at", "one of them", "its message", "")
    more = len(kinds.groups) - len(shown)
    left = kinds.ungrouped + sum(entry.count for entry in kinds.groups[GROUPS:])
    commands = [
        element(
            "li", element("code", name_command(facts, entry, state)), id=_name_anchor(state, number)
        )
        for number, entry in enumerate(shown)
    ]
    return [
        make_table(_CAPTIONS[state], columns, rows),
        make_note(f"and {format_amount(left, 'source')} of other kinds") if more or left else None,
        element(
            "div",
            element("h3", "How to see them"),
            element("ol", *commands, class_="commands"),
        ),
    ]


def _make_dead(facts: RunFacts, ledger: RunLedger) -> list[Markup | None]:
    """Return a table of why rows failed alone, each reason with some of its rows."""
    if not ledger.counts.dead.total:
        return []
    shown = ledger.dead_by_kind.groups[:GROUPS]
    rows = [
        (
            entry.reason.error or (entry.reason.text, "words"),
            format_count(entry.count),
            entry.stage,
            entry.reason.location,
            (element("code", example.key), "words"),
            (example.message, "words"),
        )
        for entry in shown
        for example in (entry.example, *entry.more)
    ]
    columns = ("error", "#rows", "stage", "raised at", "one of them", "its message")
    rows_of = f"{format_amount(ledger.counts.dead.total, 'row')} of"
    sources = format_amount(ledger.counts.dead.sources, "source")
    return [
        element("p", f"{rows_of} {sources} failed alone, and are dead letters; others went on."),
        make_table("Dead letters by kind", columns, rows),
        make_note("See them: ", element("code", facts.name_command("failures"))),
    ]


def _make_sources(ledger: RunLedger) -> Markup:
    anchors = {
        (entry.stage, entry.reason): _name_anchor(SourceState.FAILED, number)
        for number, entry in enumerate(ledger.failures_by_kind.groups[:GROUPS])
    }
    rows = []
    for entry in ledger.failures.items:
        anchor = anchors.get((entry.stage, find_reason(entry.message)))
        link = element("a", "command", href=f"#{anchor}") if anchor else None
        texts = (entry.key, "words"), entry.stage, (entry.message, "words")
        rows.append((*texts, str(entry.attempt), format_count(entry.times), link))
    columns = ("source", "stage", "message", "#attempt", "#times", "")
    table = make_table("Failed sources", columns, rows)
    return element("details", element("summary", "Failed sources, one by one"), table)


def name_command(facts: RunFacts, kind: FailureGroup, state: SourceState) -> str:
    """Return the command line that lists the sources in a state, of a kind."""
    error, location, _ = kind.reason
    wanted = [f": {kind.stage}: {error}" if error else kind.stage, location]
    filters = [f"grep -F -- {shlex.quote(word)}" for word in wanted if word]
    look = facts.name_command(*_LISTINGS[state])
    return " | ".join([look, *filters])


def _name_anchor(state: SourceState, number: int) -> str:
    return f"{state}-kind-{number + 1}"


def _make_quarantined(facts: RunFacts, ledger: RunLedger) -> list[Markup | None]:
    quarantine = ledger.quarantine
    if not quarantine.count:
        return []
    rows = [
        (
            (entry.key, "words"),
            entry.cause,
            entry.stage,
            (entry.message, "words"),
            format_count(entry.times),
        )
        for entry in quarantine.items
    ]
    columns = ("source", "cause", "stage", "message", "#times")
    command = facts.name_command("ledger", "quarantine", "list")
    return [
        element(
            "p",
            f"{format_amount(quarantine.count, 'source')} quarantined: not tried again until "
            "released, or changed.",
        ),
        *_make_kinds(facts, ledger.quarantine_by_kind, SourceState.QUARANTINED),
        make_table("Quarantined sources", columns, rows),
        make_note("See them: ", element("code", command)),
        describe_more(quarantine.more),
    ]


def _make_inflight(facts: RunFacts, ledger: RunLedger) -> list[Markup | None]:
    marks = ledger.inflight
    if not marks.count:
        return []
    counts = facts.count_sources()
    # A mark that no worker has any more is not in flight.
    state = "in flight" if counts.inflight else "interrupted"
    rows = [((mark.key, "words"), str(mark.attempt)) for mark in marks.items]
    return [
        element(
            "details",
            element("summary", f"{format_amount(marks.count, 'source')} {state}"),
            make_table(f"Sources {state}", ("source", "#attempt"), rows),
            describe_more(
                marks.more, facts.name_command("ledger", "sources", "--state", "inflight")
            ),
        )
    ]
