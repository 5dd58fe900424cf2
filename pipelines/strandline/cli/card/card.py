"""The text of a card: YAML for programs, and a description of the data set for people.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import yaml

from strandline.cli.card.facts import NAMED, CardFacts
from strandline.cli.card.markdown import escape, make_code, make_table
from strandline.cli.report.facts import RunFacts, StageArtifacts
from strandline.cli.report.panels import flatten
from strandline.cli.report.sections.funnel import describe_coverage, describe_reasons
from strandline.cli.views.format import (
    describe_requests,
    format_amount,
    format_bytes,
    format_count,
    format_measure,
    format_time,
)
from strandline.ledger.checks.counts import DataCounts, StageTotals
from strandline.storage.outputs.names import MANIFEST

NUMBERS = 40  # maximum count of shown statistics of a stage
REASONS = 8  # maximum count of shown drop reasons of a stage
# Name of the `datasets` loader for each file extension.
_READ_AS = {
    ".parquet": "parquet",
    ".jsonl": "json",
    ".jsonl.gz": "json",
    ".json": "json",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".txt": "text",
}
# Size categories of Hugging Face's data set cards, with exclusive upper limits.
_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
    (10**8, "10M<n<100M"),
    (10**9, "100M<n<1B"),
    (10**10, "1B<n<10B"),
    (10**11, "10B<n<100B"),
    (10**12, "100B<n<1T"),
)


def render_card(facts: CardFacts) -> str:
    """Render the card as text."""
    front = yaml.safe_dump(make_front(facts), sort_keys=False, allow_unicode=True)
    sections = [
        _make_head(facts),
        _make_origin(facts),
        _make_stages(facts.run),
        _make_funnel(facts),
        _make_statistics(facts.run),
        _make_provenance(facts),
    ]
    body = "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)
    return f"---\n{front}---\n\n{body}\n"


def make_front(facts: CardFacts) -> dict[str, Any]:
    """Return the front matter: the YAML block at the start of the card, for programs."""
    front: dict[str, Any] = {"pretty_name": facts.title}
    if facts.license is not None:
        front["license"] = facts.license
    front["size_categories"] = [name_size(facts.data.rows)]
    front["tags"] = ["strandline"]
    if patterns := list_loadable(facts.data, facts.names):
        files = [{"split": "train", "path": patterns}]
        front["configs"] = [{"config_name": "default", "data_files": files}]
    return front


def name_size(rows: int) -> str:
    """Return the size category for a number of rows."""
    return next((name for limit, name in _SIZES if rows < limit), "n>1T")


def list_loadable(data: DataCounts, names: Sequence[str] | None) -> list[str]:
    """Return patterns of the files to load, or names if the folder has unrelated files.

    Return an empty list if there are too many names, or if no loader supports all files.
    """
    if names is None or len(names) > NAMED:
        # Do not replace too many names by patterns, which would also match files of unfinished
        # sources.
        return list_patterns(data) if names is None else []
    return list(names) if list_patterns(data) else []


def list_patterns(data: DataCounts) -> list[str]:
    """Return patterns for the files below the card; empty if no loader supports all files."""
    readers = {_READ_AS.get(suffix) for suffix in data.suffixes}
    # `datasets` loads all files of a configuration with the same loader.
    if len(readers) != 1 or None in readers:
        return []
    return [f"*/*/*{suffix}" for suffix in sorted(data.suffixes)]


def _make_head(facts: CardFacts) -> Iterator[str]:
    data, counts = facts.data, facts.run.count_sources()
    yield f"# {escape(facts.title)}"
    yield ""
    yield (
        f"{format_amount(data.rows, 'row')} in {format_amount(data.files, 'file')}, "
        f"{format_bytes(data.size)}, of {format_amount(counts.finished, 'source')}."
    )
    gaps = facts.run.list_gaps()
    if gaps or counts.listed is None or counts.left > 0:
        of = "" if counts.listed is None else f" of {format_count(counts.listed)}"
        yield (
            f"**It is not complete**: {format_count(counts.finished)}{of} sources are "
            f"finished{_describe_left(facts.run)}. Files of unfinished sources may be among these: "
            f"load only those that `{MANIFEST}` lists. A complete run removes the others."
        )
    yield from (f"Not complete: {escape(gap)}." for gap in gaps)
    if not list_patterns(data):
        yield "`load_dataset` cannot read these files by itself."


def _describe_left(run: RunFacts) -> str:
    counts = run.count_sources()
    states = {"failed": counts.failed, "quarantined": counts.quarantined}
    words = [f"{format_count(number)} {name}" for name, number in states.items() if number]
    return f" ({', '.join(words)})" if words else ""


def _make_origin(facts: CardFacts) -> Iterator[str]:
    source = facts.run.definition[0]
    yield "## Source"
    yield ""
    yield from make_code(_render_yaml(source.render()), "yaml")


def _make_stages(run: RunFacts) -> Iterator[str]:
    yield "## Stages"
    yield ""
    yield "Stages that processed each source, in this order; the last one wrote the files."
    yield ""
    yield from make_code(_render_yaml([stage.render() for stage in run.definition[1:]]), "yaml")


def _render_yaml(content: Any) -> str:  # noqa: ANN401 - any YAML
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=88))


def _make_funnel(facts: CardFacts) -> Iterator[str]:
    yield "## Kept and dropped"
    yield ""
    if facts.run.funnel:
        yield from _make_rows(facts.run.funnel)
        yield ""
        yield f"The files of finished sources have {format_amount(facts.data.rows, 'row')}."
    else:
        yield "There are no counts."
    yield from describe_coverage(facts.run.counts)
    for name, figures in facts.run.requests.items():
        yield f"Requests to a model by {escape(name)}: {describe_requests(figures)}."


def _make_rows(funnel: Iterable[StageTotals]) -> list[str]:
    rows = [
        (
            stage.name,
            *map(format_count, (stage.rows_in, stage.rows_out, stage.dead)),
            ", ".join(describe_reasons(stage, REASONS)),
        )
        for stage in funnel
    ]
    columns = ("stage", "#rows in", "#rows out", "#dead letters", "rows dropped")
    return make_table(columns, rows)


def _make_statistics(run: RunFacts) -> Iterator[str]:
    shown = [stage for stage in run.artifacts if stage.artifacts.count]
    if not shown:
        return
    yield "## Statistics"
    for stage in shown:
        yield ""
        yield f"### {escape(stage.stage)}"
        yield ""
        yield from _make_numbers(stage)


def _make_numbers(stage: StageArtifacts) -> Iterator[str]:
    rows: list[tuple[str, str]] = []
    more = 0
    for artifact in stage.artifacts.items:
        found = flatten(artifact.content, max(0, NUMBERS - len(rows)))
        rows += [(name, format_measure(number)) for name, number in found.items]
        more += found.more
    if rows:
        yield from make_table(("name", "#number"), rows)
    else:
        files = ", ".join(artifact.name for artifact in stage.artifacts.items)
        yield f"In files of the run: {escape(files)}"
    if more:
        yield ""
        yield f"and {format_count(more)} more numbers"


def _make_provenance(facts: CardFacts) -> Iterator[str]:
    run = facts.run
    yield "## Provenance"
    yield ""
    rows = [
        ("pipeline", run.pipeline),
        ("run", run.run),
        ("fingerprint", run.fingerprint),
        ("ledger", facts.ledger),
        ("attempts", format_count(run.attempts.count)),
        *([("kept cuts, chosen", f"behind {', '.join(facts.cuts)}")] if facts.cuts else []),
        ("as of", f"{format_time(run.time, '%Y-%m-%d %H:%M:%S')} UTC"),
    ]
    yield from make_table(("what", "value"), rows)
    yield ""
    yield (
        "Made by `strandline card`; `strandline verify` checks that ledger and files agree, byte "
        "for byte."
    )
