"""The page: its text in each state of a run, its size limits, and the escaping of texts."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from report_builders import (
    ASKED,
    HARM,
    Outline,
    asked_requests,
    ended,
    facts_of,
    failures_of,
    funnel_of,
    harmful,
    troubled,
)
from strandline.cli.report.facts import Artifact, Cut, RunFacts, RunLedger, StageArtifacts
from strandline.cli.report.markup import element, escape, join
from strandline.cli.report.page import make_environment, render_page
from strandline.cli.views.format import escape_text
from strandline_api.outcome.causes import Cause

ACTING = {"script", "img", "base", "object", "embed", "link", "form", "textarea"}


def read(facts: RunFacts) -> Outline:
    return Outline(render_page(facts))


@given(text=st.text(max_size=300))
def test_law_escaped_text_keeps_its_content(text: str) -> None:
    outline = Outline(element("p", text, title=text))
    assert outline.elements[0][1]["title"] == escape_text(text)
    assert outline.elements[0][0] == "p"
    assert outline.tags == ["p"]
    assert outline.text == escape_text(text)


def test_only_markup_is_markup() -> None:
    assert join("<b>", Markup("<i>"), None) == "&lt;b&gt;<i>"
    assert element("p", aria_label='"', lang=None) == '<p aria-label="&#34;"></p>'
    assert len(escape("x" * 5000)) == 1001


def test_model_requests_are_shown() -> None:
    text = read(facts_of(requests=asked_requests())).text
    assert f"ask, over all attempts: {ASKED}." in text
    assert "requests" not in read(facts_of(funnel=funnel_of(20))).text


@pytest.mark.parametrize("harm", HARM)
def test_no_text_from_outside_acts(harm: str) -> None:
    page = render_page(harmful(harm))
    outline = Outline(page)
    assert not ACTING.intersection(outline.tags)
    plain = read(harmful("harmless"))
    # Elements and attribute names are the same for every text.
    assert [(tag, [*attributes]) for tag, attributes in outline.elements] == [
        (tag, [*attributes]) for tag, attributes in plain.elements
    ]
    assert escape_text(harm) in outline.text
    assert page.encode("utf-8", "replace")


@pytest.mark.parametrize("fault", ["autoescape", "escape_html"])
def test_a_template_or_chart_without_escaping_is_found(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "autoescape":
        plain = make_environment().overlay(autoescape=False)
        monkeypatch.setattr("strandline.cli.report.page.make_environment", lambda: plain)
    else:
        monkeypatch.setattr("strandline.cli.report.markup.escape_html", Markup)
    assert "script" in read(harmful(HARM[0])).tags


@pytest.mark.parametrize("harm", HARM)
def test_attributes_show_the_text_and_nothing_hidden(harm: str) -> None:
    values = [
        value or ""
        for _, attributes in read(harmful(harm)).elements
        for value in attributes.values()
    ]
    panels = [value for value in values if value.startswith("<!doctype")]
    assert any(escape_text(harm) in value for value in values)
    assert [value for value in values if value != escape_text(value) and value not in panels] == []


def test_nothing_is_fetched_and_nothing_runs() -> None:
    outline = read(troubled())
    for tag, attributes in outline.elements:
        assert not {"src", "srcset", "action", "data", "poster"} & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "a":
            assert (attributes["href"] or "").startswith("#")
    policies = [a["content"] for t, a in outline.elements if a.get("http-equiv")]
    data = "img-src data:; media-src data:"
    assert policies == [f"default-src 'none'; style-src 'unsafe-inline'; {data}"]
    style = re.search(r"<style>(.*?)</style>", render_page(troubled()), re.DOTALL)
    assert style is not None
    assert not re.search(r"url\(|@import|@font-face", style[1])


def test_a_panel_is_in_a_sandboxed_frame() -> None:
    outline = read(troubled())
    ((_, frame),) = [each for each in outline.elements if each[0] == "iframe"]
    assert frame["sandbox"] in {"", None}
    assert "allow" not in frame
    assert (frame["srcdoc"] or "").endswith("<body tabindex=0><h1>Words</h1>")
    assert "default-src 'none'" in (frame["srcdoc"] or "")
    assert frame["title"] == "Panel of words"
    assert "h1" not in [tag for tag in outline.tags if tag == "h1"][1:]


def test_before_the_first_attempt_every_section_is_marked_as_empty() -> None:
    text = read(facts_of()).text
    for words in (
        "not run yet",
        "No attempt has been made yet.",
        "Nothing has been measured yet.",
        "No source is failed",
        "No stage of this pipeline keeps statistics.",
        "Nothing is published yet.",
    ):
        assert words in text


def test_a_run_of_no_source_is_complete() -> None:
    facts = facts_of(ledger=RunLedger(listed=0), attempts=Cut((ended(1),), 1))
    text = read(facts).text
    assert "completed" in text
    assert "finished0 of 0" in text


def test_a_failing_run_shows_all_problems() -> None:
    text = read(troubled()).text
    for words in (
        "default/notes",
        "running",
        "2.5/s recently",
        "read sets the pace",
        "Preempted",
        "Why attempt 2 ended: OOMKilled",
        "seen as OOMKilled",
        "and 3 more; see strandline attempts list jobs/pipeline.yaml",
        "sources finished",
        "join",
        "87%",
        "3 of 4",
        "120 sources failed: 118 in read, 2 in a process that died.",
        "UnicodeDecodeError",
        "texts.py:12",
        "and 3 sources of other kinds",
        "strandline ledger sources --state failed jobs/pipeline.yaml --volume '/data/my volume' "
        "| grep -F -- ': read: UnicodeDecodeError' | grep -F -- texts.py:12",
        "10 too long, 10 empty, 10 a duplicate",
        "12,315",
        "99.8%",
        "1.01 core hours in the stages' own code",
        "about 0.33 went into sources that are done again",
        "Fingerprint 0a0a",
        'paths: ["in/*.txt"]',
        "own_module:Read",
        "bad magic",
        "and 115 more; see strandline ledger sources --state failed",
        "its worker was killed alone",
        "30 sources in flight",
        "0003/p0002 by attempt 3",
        "chosen by hand",
        "dropped: too long",
        "mean",
        "2.5",
        "Its panel can't be shown: KeyError: 'x'",
        "Not published yet",
    ):
        assert words in text, words


def test_numbers_that_are_cut_are_counted_exactly() -> None:
    page = render_page(facts_of(ledger=failures_of(1_234_567)))
    assert "1,234,567 sources failed: 1,234,567 in read." in Outline(page).text
    assert "and 1,234,562 more" in Outline(page).text
    assert len(page) < 60_000


def test_a_page_is_small_for_every_run() -> None:
    views = tuple(ended(number, Cause.KILLED) for number in range(1, 31))
    big = troubled()
    long = "x" * 100_000
    facts = facts_of(
        ledger=failures_of(10**6, shown=100, message=long),
        attempts=Cut(views, 1000),
        samples=big.samples,
        artifacts=(StageArtifacts("s", Cut((Artifact("n.json", 9, list(range(100_000))),), 1)),),
    )
    page = render_page(facts)
    assert len(page) < 500_000
    assert "and 99,940 more" in Outline(page).text
    assert "and 970 more; see strandline attempts list" in Outline(page).text


def check_names(outline: Outline) -> None:
    """Check that tables and figures have names, and that links lead to places on the page."""
    ids = [attributes["id"] for _, attributes in outline.elements if attributes.get("id")]
    assert len(set(ids)) == len(ids)
    for tag, attributes in outline.elements:
        if tag == "a":
            assert (attributes["href"] or "")[1:] in ids
        if attributes.get("role") in {"region", "img"}:
            assert attributes["aria-label"]
        if attributes.get("aria-labelledby"):
            assert attributes["aria-labelledby"] in ids
    assert outline.tags.count("table") == outline.tags.count("caption")
    assert outline.tags.count("svg") > 6


def test_tables_and_figures_have_names_and_links_have_targets() -> None:
    check_names(read(troubled()))


def test_the_frame_of_a_panel_contains_the_unchanged_panel() -> None:
    panel = '<p title="it\'s">a & b</p>\n<svg></svg>'
    facts = facts_of(
        artifacts=(StageArtifacts("s", Cut((Artifact("a", 1, None),), 1), panel=panel),)
    )
    found = re.search(r'srcdoc="([^"]*)"', render_page(facts))
    assert found is not None
    assert unescape(found[1]).endswith(panel)


def test_a_rule_that_dropped_all_rows_is_reported() -> None:
    told = "one rule of filter dropped all 10 rows: short words"
    assert told in read(facts_of(funnel=funnel_of(10, "short words"))).text
    assert "one rule of" not in read(facts_of(funnel=funnel_of(20, "short words"))).text


def test_several_pipelines_share_a_page_and_healthy_ones_are_folded() -> None:
    well = facts_of(
        pipeline="default/well",
        attempts=Cut((ended(1, None),), 1),
        ledger=RunLedger(finished=3, finished_by={1: 3}),
    )
    outline = Outline(render_page(well, troubled()))
    check_names(outline)
    folded = [attributes for tag, attributes in outline.elements if tag == "details"]
    assert [("open" in attributes) for attributes in folded if "id" in attributes] == [False, True]
    assert outline.tags.count("h1") == 1
    heads = [facts.pipeline for facts in (well, troubled())]
    assert all(outline.text.count(name) >= 3 for name in heads)  # line, navigation, section


def test_stages_that_run_in_one_worker_have_one_chart() -> None:
    facts = replace(troubled(), chains=(("read", "write"),))
    captions = [text for text in Outline(render_page(facts)).words if "→" in text]
    assert captions == ["read → write (read sets the pace)"]
    apart = Outline(render_page(replace(facts, chains=(("read",), ("write",))))).words
    assert [text for text in apart if text.startswith(("read (", "write"))]
