"""The head of the page: whose run it is, where it stands, and how its sources do. Pure."""

from __future__ import annotations

from strandline.cli.report.charts import Part, draw_parts
from strandline.cli.report.facts import LatestFacts, RunFacts, SourceCounts
from strandline.cli.report.markup import Child, Markup, element
from strandline.cli.report.tables import (
    make_figure,
    make_legend,
    make_note,
    make_section,
    make_table,
    say_more,
    spell_time,
)
from strandline.cli.views.attempt import AttemptView, State
from strandline.cli.views.format import (
    spell_amount,
    spell_bytes,
    spell_count,
    spell_rate,
    spell_seconds,
)
from strandline_api.outcome.causes import Treatment


def make_header(facts: RunFacts) -> Markup:
    """Name, state and the numbers that matter most."""
    counts = facts.count_sources()
    name, kind = _name_state(facts.last)
    listed = "" if counts.listed is None else f"of {spell_count(counts.listed)}"
    latest = facts.latest.name if facts.latest else "none"
    tiles = [
        _make_tile("finished", spell_count(counts.finished), listed),
        _make_tile("failed", spell_count(counts.failed), "", counts.failed and "bad"),
        _make_tile(
            "quarantined", spell_count(counts.quarantined), "", counts.quarantined and "bad"
        ),
        _make_tile("in flight", spell_count(counts.inflight), ""),
        _make_tile("attempts", spell_count(facts.attempts.count), ""),
        _make_tile("latest", latest, ""),
    ]
    return element(
        "header",
        element("p", "Strandline", class_="brand"),
        element("h1", facts.pipeline, " ", element("span", name, class_=f"badge {kind}")),
        element("p", f"run {facts.run}, as of {spell_time(facts.time)} UTC", class_="note"),
        element("dl", *tiles, class_="tiles"),
        _describe_end(facts),
    )


def make_sources(facts: RunFacts) -> Markup:
    """Sources by state."""
    counts = facts.count_sources()
    parts = list_parts(counts)
    shown = [part for part in parts if part.number]
    words = ", ".join(f"{spell_count(part.number)} {part.label}" for part in shown)
    chart = draw_parts(f"Sources by state: {words or 'none'}", parts)
    legend = make_legend((part.kind, part.label, spell_count(part.number)) for part in parts)
    notes = []
    if counts.listed is None:
        notes.append(make_note("No listing has come to its end yet, so more may follow."))
    gone = counts.finished - counts.finished_now - counts.skipped
    if gone:
        notes.append(
            make_note(
                f"{spell_amount(gone, 'source')} more finished by earlier attempts that the "
                "last one has not listed, or not yet."
            )
        )
    return make_section("sources", "Sources", make_figure("by state", chart, legend), *notes)


def list_parts(counts: SourceCounts) -> list[Part]:
    """The states, in the order in which a source goes through them."""
    return [
        Part("finished by the last attempt", counts.finished_now, "finished"),
        Part("skipped: finished before", counts.skipped, "skipped"),
        Part("in flight", counts.inflight, "inflight"),
        Part("waiting", counts.waiting, "waiting"),
        Part("failed", counts.failed, "failed"),
        Part("quarantined", counts.quarantined, "quarantined"),
    ]


def make_latest(facts: RunFacts) -> Markup:
    """What `latest` leads to."""
    latest = facts.latest
    if latest is None:
        return make_section("latest", "Latest", make_note("Nothing is published yet."))
    rows = [(name, spell_bytes(size)) for name, size in latest.files.items]
    return make_section(
        "latest",
        "Latest",
        element("p", _describe_latest(latest)),
        make_table("Files of the publication", ("file", "#size"), rows),
        say_more(latest.files.more),
        make_note("Folder of the pipeline: ", element("code", facts.folder)),
    )


def classify_end(view: AttemptView) -> str:
    """The class of an attempt's bars and badges."""
    cause = view.record.cause
    if cause is not None:
        return "disrupted" if cause.treatment is Treatment.DISRUPTION else "failed"
    known = {State.COMPLETED: "finished", State.RUNNING: "inflight"}
    return known.get(view.state, "waiting")


def _describe_latest(latest: LatestFacts) -> str:
    parts = [f"{latest.name} by attempt {latest.attempt}, published {spell_time(latest.time)} UTC"]
    parts.append("at the attempt's end" if latest.is_final else "while the attempt ran")
    if latest.is_pinned:
        parts.append("chosen by hand (strandline latest --set)")
    return ", ".join(parts)


def _name_state(last: AttemptView | None) -> tuple[str, str]:
    if last is None:
        return "not run yet", "waiting"
    cause = last.record.cause
    return (cause.value if cause else last.state.value), classify_end(last)


def _describe_end(facts: RunFacts) -> Markup | None:
    last, live = facts.last, facts.live
    if live is not None:
        left = live.seconds_left
        words = [f"{spell_rate(live.rate)} of late"]
        words += [f"about {spell_seconds(left)} left"] if left else []
        words += [f"{live.bottleneck} sets the pace"] if live.bottleneck else []
        return element("p", ", ".join(words))
    if last is None or last.record.outcome is None:
        return None
    return element("p", last.record.outcome.message)


def _make_tile(name: str, value: str, rest: str, kind: Child | int = "") -> Markup:
    more = element("small", f" {rest}") if rest else None
    return element(
        "div", element("dt", name), element("dd", value, more), class_=f"tile {kind or ''}".strip()
    )
