"""The page: its sections in order, and a style sheet. Nothing in it is fetched, nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element, prefix_anchors
from strandline.cli.report.sections.artifacts import make_artifacts
from strandline.cli.report.sections.attempts import make_attempts
from strandline.cli.report.sections.definition import make_definition
from strandline.cli.report.sections.failures import make_failures
from strandline.cli.report.sections.funnel import make_funnel
from strandline.cli.report.sections.overview import make_header, make_latest, make_sources
from strandline.cli.report.sections.pipelines import is_open, make_summary, name_many
from strandline.cli.report.sections.stages import make_throughput

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_SECTIONS = (
    ("sources", "Sources", make_sources),
    ("failures", "Failures", make_failures),
    ("funnel", "Kept and dropped", make_funnel),
    ("attempts", "Attempts", make_attempts),
    ("throughput", "Throughput", make_throughput),
    ("artifacts", "Statistics", make_artifacts),
    ("latest", "Latest", make_latest),
    ("pipeline", "Pipeline", make_definition),
)


def render_page(*runs: RunFacts) -> str:
    """Render the page of one pipeline, or of several, in their order, as text."""
    if len(runs) > 1:
        title, parts = name_many(runs), _make_many(runs)
    else:
        (facts,) = runs
        title, parts = f"{facts.pipeline}: run {facts.run}", _make_one(facts)
    style = Markup((files(__package__) / "page.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", title),
        element("style", style),
    )
    skip = element("a", "Skip to the sections", href="#main", class_="skip")
    return f"<!doctype html>\n{element('html', head, element('body', skip, *parts), lang='en')}\n"


def _make_one(facts: RunFacts) -> list[Markup]:
    links = [(name, anchor) for anchor, name, _ in _SECTIONS]
    main = element("main", *_make_sections(facts), id="main", tabindex="-1")
    return [make_header(facts), _make_navigation(links), main]


def _make_many(runs: Sequence[RunFacts]) -> list[Markup]:
    anchors = [f"pipeline-{number}" for number in range(1, len(runs) + 1)]
    links = [(facts.pipeline, anchor) for facts, anchor in zip(runs, anchors, strict=True)]
    articles = [
        element(
            "details",
            element("summary", facts.pipeline),
            make_header(facts, heading="h2"),
            *(prefix_anchors(each, f"{anchor}-") for each in _make_sections(facts)),
            id=anchor,
            # A pipeline that is well is a line; one that is not, or goes on, is what a report is
            # opened for.
            open="" if is_open(facts) else None,
        )
        for facts, anchor in zip(runs, anchors, strict=True)
    ]
    main = element("main", *articles, id="main", tabindex="-1")
    return [make_summary(runs, anchors), _make_navigation(links), main]


def _make_sections(facts: RunFacts) -> list[Markup]:
    return [make(facts) for _, _, make in _SECTIONS]


def _make_navigation(links: Iterable[tuple[str, str]]) -> Markup:
    items = [element("li", element("a", name, href=f"#{anchor}")) for name, anchor in links]
    return element("nav", element("ul", *items), aria_label="Sections")
