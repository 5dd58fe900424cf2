"""The history of a row as text or JSON. This module does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from strandline.cli.views.format import align, escape_text, format_amount, format_measure
from strandline.run.trace.steps import (
    BrokenRule,
    Decision,
    PipelineTrace,
    Step,
    TracedRow,
    TracedSource,
)

_WIDTH = 100
_SHOWN = 8  # sources and files of a pipeline in the text
_DIGEST = re.compile(r"[0-9a-f]{32}")
_WORDS = {Decision.DEAD_LETTER: "dead letter"}


def render_trace(row: TracedRow, traces: Sequence[PipelineTrace]) -> dict[str, Any]:
    """Return the trace as values for JSON."""
    return {
        "row": next(iter(row.name.keys), None),
        "keys": list(row.name.keys),
        "number": row.name.number,
        "found": any(each.is_found for each in traces),
        "pipelines": [_render_pipeline(each) for each in traces],
    }


def describe_trace(row: TracedRow, traces: Sequence[PipelineTrace]) -> Iterator[str]:
    """Yield the lines of a trace: a block per pipeline, and a line per decision."""
    keys = list(row.name.keys)
    if keys:
        others = f", which became {format_amount(len(keys) - 1, 'other key')}" * (len(keys) > 1)
        yield f"row {escape_text(keys[0])}{others}"
    for trace in traces:
        yield ""
        yield trace.pipeline
        cells = [tuple(map(escape_text, each)) for each in _list_cells(trace)]
        yield from (
            f"  {line}" for text in align(cells, 2, _WIDTH - 2) for line in text.split("\n")
        )


def _list_cells(trace: PipelineTrace) -> Iterator[tuple[str, str]]:
    for source in trace.sources[:_SHOWN]:
        yield "source", _describe_source(source)
    if len(trace.sources) > _SHOWN:
        yield "", f"and {format_amount(len(trace.sources) - _SHOWN, 'other source')}"
    for step in trace.steps:
        yield step.stage, _describe_step(step)
    files: dict[str, list[str]] = {}
    for output in trace.outputs:
        files.setdefault(output.file, []).extend([] if output.row is None else [f"{output.row:,}"])
    for name, rows in list(files.items())[:_SHOWN]:
        yield "output", f"{name} {_describe_rows(rows)}".rstrip()
    if len(files) > _SHOWN:
        yield "", f"and {format_amount(len(files) - _SHOWN, 'other file')}"
    if trace.publication:
        yield "latest", trace.publication
    for note in trace.notes:
        yield "note", note


def _describe_source(source: TracedSource) -> str:
    attempt = "" if source.attempt is None else f" in attempt {source.attempt}"
    state = f"; {source.state}{attempt}" if source.state else "; not finished"
    # Shorten the digests in names of output files, which would not fit into a line.
    key = _DIGEST.sub(lambda found: f"{found[0][:8]}…", source.key)
    facts = ", ".join(f"{name} {value}" for name, value in source.payload.items() if name != "path")
    return "".join(
        (
            key,
            f" ({facts})" if facts else "",
            state,
            f"; {source.message}" if source.message else "",
        )
    )


def _describe_rows(rows: Sequence[str]) -> str:
    more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    numbers = f"{', '.join(rows[:_SHOWN])}{more}"
    return f"row {numbers}" if len(rows) == 1 else f"rows {numbers}" if rows else ""


def _describe_step(step: Step) -> str:
    word = _WORDS.get(step.decision, str(step.decision))
    parts = [word if step.rows == 1 else f"{word} ({format_amount(step.rows, 'row')})"]
    if step.decision is Decision.BECAME:
        parts = [f"{format_amount(step.rows, 'row')} became {step.becomes:,}"]
    if step.reason:
        parts[0] += f": {step.reason}"
    if step.rule is not None:
        parts.append(_describe_rule(step.rule))
    if step.retained is not None:
        parts.append(f"kept instead: {step.retained}")
    named = (("changed", step.changed), ("added", step.added), ("removed", step.removed))
    changes = [f"{verb} {', '.join(names)}" for verb, names in named if names]
    if step.decision is Decision.CHANGED and changes:
        parts = []
    parts += changes
    if step.request is not None:
        is_stored = "answer" in step.request
        what = "its answer is stored" if is_stored else "no answer is stored"
        parts.append(f"request {step.request['digest'][:16]}, {what}")
    return "; ".join(parts)


def _describe_rule(rule: BrokenRule) -> str:
    value = "missing" if rule.value is None else format_measure(rule.value)
    limit = "" if rule.limit is None else format_measure(rule.limit)
    side = "below" if rule.is_least else "above"
    named = f"{rule.parameter} {limit}".strip()
    compared = f", {side} {named}" if limit else ""
    return f"{rule.measure} {value}{compared}"


def _render_pipeline(trace: PipelineTrace) -> dict[str, Any]:
    return asdict(trace) | {
        "found": trace.is_found,
        "publication": trace.publication or None,
        "sources": [each._asdict() for each in trace.sources],
        "skipped": [each._asdict() for each in trace.skipped],
        "steps": [_render_step(each) for each in trace.steps],
        "outputs": [each._asdict() for each in trace.outputs],
    }


def _render_step(step: Step) -> dict[str, Any]:
    rule = None
    if step.rule is not None:
        rule = step.rule._asdict()
        rule["drops"] = "below" if rule.pop("is_least") else "above"
    return asdict(step) | {"reason": step.reason or None, "rule": rule}
