"""The page: its sections in order, and a style sheet. Nothing in it is fetched, nothing runs."""

from __future__ import annotations

from importlib.resources import files

from strandline.cli.report.facts import RunFacts
from strandline.cli.report.markup import Markup, element
from strandline.cli.report.sections.artifacts import make_artifacts
from strandline.cli.report.sections.attempts import make_attempts
from strandline.cli.report.sections.definition import make_definition
from strandline.cli.report.sections.failures import make_failures
from strandline.cli.report.sections.funnel import make_funnel
from strandline.cli.report.sections.overview import make_header, make_latest, make_sources
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


def render_page(facts: RunFacts) -> str:
    """Render the page as text."""
    style = Markup((files(__package__) / "page.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("title", f"{facts.pipeline}: run {facts.run}"),
        element("style", style),
    )
    links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name, _ in _SECTIONS]
    body = element(
        "body",
        element("a", "Skip to the sections", href="#main", class_="skip"),
        make_header(facts),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *(make(facts) for _, _, make in _SECTIONS), id="main", tabindex="-1"),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
