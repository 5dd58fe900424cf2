"""The head of the page: which run it is, where it stands, and how its sources do. Pure."""

from __future__ import annotations

from strandline.cli.report.charts import Part, draw_parts
from strandline.cli.report.facts import LatestFacts, RunFacts, SourceTotals
from strandline.cli.report.markup import Child, Markup, element
from strandline.cli.report.tables import (
    describe_more,
    format_timestamp,
    make_figure,
    make_legend,
    make_note,
    make_section,
    make_table,
)
from strandline.cli.views.attempt import AttemptStanding, AttemptSummary
from strandline.cli.views.format import (
    format_amount,
    format_bytes,
    format_count,
    format_rate,
    format_seconds,
)
from strandline_api.outcome.causes import Treatment


def make_header(facts: RunFacts, heading: str = "h1") -> Markup:
    """Name, state and the numbers that matter most.

    Args:
        heading: the tag of the name.
    """
    counts = facts.count_sources()
    name, kind = name_state(facts)
    listed = "" if counts.listed is None else f"of {format_count(counts.listed)}"
    latest = facts.latest.name if facts.latest else "none"
    tiles = [
        _make_tile("finished", format_count(counts.finished - counts.unlisted), listed),
        _make_tile("failed", format_count(counts.failed), "", counts.failed and "bad"),
        _make_tile(
            "quarantined", format_count(counts.quarantined), "", counts.quarantined and "bad"
        ),
        _make_tile(*_count_open(counts), ""),
        _make_tile("attempts", format_count(facts.attempts.count), ""),
        _make_tile("latest", latest, ""),
    ]
    return element(
        "header",
        element("p", "Strandline", class_="brand") if heading == "h1" else None,
        element(heading, facts.pipeline, " ", element("span", name, class_=f"badge {kind}")),
        element("p", f"run {facts.run}, as of {format_timestamp(facts.time)} UTC", class_="note"),
        element("dl", *tiles, class_="tiles"),
        _describe_end(facts),
    )


def make_sources(facts: RunFacts) -> Markup:
    """Return sources by state."""
    counts = facts.count_sources()
    parts = list_parts(counts)
    shown = [part for part in parts if part.number]
    words = ", ".join(f"{format_count(part.number)} {part.label}" for part in shown)
    chart = draw_parts(f"Sources by state: {words or 'none'}", parts)
    legend = make_legend((part.kind, part.label, format_count(part.number)) for part in parts)
    notes = []
    if counts.listed is None:
        notes.append(make_note("No listing has come to its end yet, so more may follow."))
    if counts.unlisted:
        notes.append(
            make_note(
                f"{format_amount(counts.unlisted, 'source')} more finished by earlier attempts "
                "that are no longer listed."
            )
        )
    return make_section("sources", "Sources", make_figure("by state", chart, legend), *notes)


def list_parts(counts: SourceTotals) -> list[Part]:
    """Return the states, in the order in which a source goes through them."""
    return [
        Part("finished by the last attempt", counts.finished_now, "finished"),
        Part("finished before", counts.finished_before, "skipped"),
        Part("in flight", counts.inflight, "inflight"),
        Part("interrupted, to be done again", counts.interrupted, "disrupted"),
        Part("waiting", counts.waiting, "waiting"),
        Part("failed in the last attempt", counts.failed_now, "failed"),
        Part("failed before, not tried again yet", counts.failed_before, "failed-before"),
        Part("quarantined", counts.quarantined, "quarantined"),
    ]


def _count_open(counts: SourceTotals) -> tuple[str, str]:
    """Return the tile of what is being worked on, or was when the last attempt ended."""
    if counts.interrupted and not counts.inflight:
        return "interrupted", format_count(counts.interrupted)
    return "in flight", format_count(counts.inflight)


def make_latest(facts: RunFacts) -> Markup:
    """Return what `latest` leads to."""
    latest = facts.latest
    if latest is None:
        return make_section("latest", "Latest", make_note("Nothing is published yet."))
    rows = [(name, format_bytes(size)) for name, size in latest.files.items]
    return make_section(
        "latest",
        "Latest",
        element("p", _describe_latest(latest)),
        make_table("Files of the publication", ("file", "#size"), rows),
        describe_more(latest.files.more),
        make_note("Folder of the pipeline: ", element("code", facts.folder)),
    )


def classify_end(view: AttemptSummary) -> str:
    """Return the class of an attempt's bars and badges."""
    cause = view.record.cause
    if cause is not None:
        is_outside = cause.treatment in {Treatment.DISRUPTION, Treatment.WAITED}
        return "disrupted" if is_outside else "failed"
    known = {AttemptStanding.COMPLETED: "finished", AttemptStanding.RUNNING: "inflight"}
    return known.get(view.state, "waiting")


def _describe_latest(latest: LatestFacts) -> str:
    parts = [
        f"{latest.name} by attempt {latest.attempt}, published {format_timestamp(latest.time)} UTC"
    ]
    parts.append("at the attempt's end" if latest.is_final else "while the attempt ran")
    if latest.is_pinned:
        parts.append("chosen by hand (strandline latest --set)")
    return ", ".join(parts)


def name_state(facts: RunFacts) -> tuple[str, str]:
    """Return where the data set or its last attempt stands, and the class of its badge."""
    last = facts.last
    if last is None:
        return "not run yet", "waiting"
    cause = last.record.cause
    # Commands set finished sources back, and files go, after an attempt has completed.
    if last.state is AttemptStanding.COMPLETED and cause is None and facts.list_gaps():
        return "incomplete", "waiting"
    return (cause.value if cause else last.state.value), classify_end(last)


def _describe_end(facts: RunFacts) -> Markup | None:
    last, live = facts.last, facts.live
    if live is not None:
        left = live.seconds_left
        words = [f"{format_rate(live.rate)} of late"]
        words += [f"about {format_seconds(left)} left"] if left else []
        words += [f"{live.bottleneck} sets the pace"] if live.bottleneck else []
        return element("p", ", ".join(words))
    if last is None or last.record.outcome is None:
        return None
    gaps = facts.list_gaps() if not last.record.outcome.exit_code else ()
    sentences = (last.record.outcome.message, *(f"not complete now: {gap}" for gap in gaps))
    return element("p", "; ".join(sentences))


def _make_tile(name: str, value: str, rest: str, kind: Child | int = "") -> Markup:
    more = element("small", f" {rest}") if rest else None
    return element(
        "div", element("dt", name), element("dd", value, more), class_=f"tile {kind or ''}".strip()
    )
