"""The page of one or more runs: templates for its sections, and a style sheet.

The page loads nothing and runs no code. Templates escape every value, also in attributes.
"""

from __future__ import annotations

import json
import shlex

from jinja2 import Environment, PackageLoader, StrictUndefined

from strandline.cli.report.facts import RunFacts, RunLedger
from strandline.cli.report.formats import format_figure, format_hours, format_timestamp
from strandline.cli.report.markup import clean
from strandline.cli.report.sections import artifacts, attempts, failures, funnel, overview, stages
from strandline.cli.views.attempt import describe_all_lost
from strandline.cli.views.format import describe_requests, format_amount, format_bytes, format_count
from strandline.cli.views.rows.comparison import describe_recipe, describe_rows, list_remarks
from strandline.cli.views.running.progress import describe_longest, format_oldest
from strandline.run.compare.comparison import Comparison
from strandline.run.insight.funnel import find_sweeping_rules

# Names in the navigation, by anchor. Each section has a template.
_SECTIONS = {
    "sources": "Sources",
    "failures": "Failures",
    "funnel": "Kept and dropped",
    "attempts": "Attempts",
    "throughput": "Throughput",
    "artifacts": "Statistics",
    "latest": "Latest",
    "pipeline": "Pipeline",
}


def make_environment() -> Environment:
    """Return the template environment, with functions and formats for the templates."""
    environment = Environment(
        loader=PackageLoader("strandline.cli.report"),
        autoescape=True,
        finalize=clean,
        lstrip_blocks=True,
        trim_blocks=True,
        # A misspelt name in a template must fail instead of rendering as empty text.
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "amount": format_amount,
        "bytes": format_bytes,
        "count": format_count,
        "figure": format_figure,
        "hours": format_hours,
        "json": lambda value: json.dumps(value, ensure_ascii=False),
        "requests": describe_requests,
        "timestamp": format_timestamp,
    }
    functions = (
        artifacts.list_numbers,
        attempts.draw_attempts,
        attempts.list_times,
        attempts.name_end,
        describe_all_lost,
        describe_command,
        describe_longest,
        describe_recipe,
        describe_rows,
        failures.find_kinds,
        failures.name_command,
        find_sweeping_rules,
        format_oldest,
        funnel.describe_coverage,
        funnel.describe_reasons,
        funnel.list_shares,
        list_remarks,
        overview.classify_end,
        overview.describe_end,
        overview.describe_latest,
        overview.draw_sources,
        overview.is_open,
        overview.list_legend,
        overview.list_parts,
        overview.name_state,
        stages.draw_charts,
    )
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {
        "frame": artifacts.FRAME,
        "most": failures.GROUPS,
        "most_charts": stages.CHARTS,
        "no_ledger": RunLedger(),
        "pieces": attempts.EVIDENCE,
        "sections": tuple(_SECTIONS),
    }
    return environment


def render_page(*runs: RunFacts) -> str:
    """Render the page of one or more pipelines, in their order."""
    names = [facts.pipeline for facts in runs]
    if len(runs) > 1:
        title = f"{len(runs)} pipelines: {', '.join(names)}"
        links = [(f"pipeline-{number}", name) for number, name in enumerate(names, 1)]
    else:
        title, links = f"{runs[0].pipeline}: run {runs[0].run}", [*_SECTIONS.items()]
    template = make_environment().get_template("page.html")
    return template.render(runs=runs, title=title, links=links)


def render_comparison_page(found: Comparison) -> str:
    """Render the page of a comparison."""
    return make_environment().get_template("comparison.html").render(found=found)


def describe_command(facts: RunFacts, *words: object) -> str:
    """Return a command line for the pipeline's file, by default with `strandline describe`."""
    if not words:
        return shlex.join(["strandline", "describe", *facts.file])
    *first, last = map(str, words)
    return shlex.join(["strandline", *first, *facts.file, last, *facts.volume])
