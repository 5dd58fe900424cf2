"""`strandline tune`: counts how many rows a filter drops at several values of its limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output, looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.format import align, format_amount, format_count, format_measure
from strandline.ledger.store.rows import list_output_names
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.attempt import run_here
from strandline.run.manifest.manifest import read_manifest
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.run.revise.marks.measured_rows import (
    MeasuredSample,
    explain_sampling,
    find_filter,
    measure_sources,
    read_outputs,
)
from strandline.run.revise.marks.thresholds import FilterCounts, RuleCounts, Threshold, count_rows

_SOURCES, _ROWS = 20, 200_000


def _has_stage(file: Path, options: dict[str, Any]) -> bool:
    """Return whether a pipeline has the stage that `--stage` names."""
    stages = read_pipeline(file, ()).pipeline.spec.stages
    return options["name"] in {stage.name for stage in stages}


@click.command(
    "tune",
    epilog=show_examples(
        "strandline tune pipeline.yaml --stage gopher-quality",
        "strandline tune pipeline.yaml --stage gopher-quality --at minDocWords=20,30",
    ),
)
@take_manifest
@take_volume
@click.option("--stage", "name", required=True, metavar="NAME", help="Name of the filter.")
@click.option(
    "--at",
    "wanted",
    multiple=True,
    metavar="PARAMETER=NUMBER,...",
    help="Also show these values of a limit; repeatable.",
)
@click.option(
    "--sources",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N sources up to the stage, even if outputs have its measures. If outputs have none, "
    f"{_SOURCES} sources run.",
)
@click.option(
    "--rows",
    "most_rows",
    type=click.IntRange(min=1),
    default=_ROWS,
    show_default=True,
    metavar="N",
    help="Number of rows after which no further output file is read.",
)
@take_json
@partial(each_pipeline, concerns=_has_stage)
def tune(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    name: str,
    wanted: tuple[str, ...],
    sources: int | None,
    most_rows: int,
    as_json: bool,
) -> None:
    """Count the rows that a filter's limits drop.

    Each limit is counted alone, and together with the others. The measures come from outputs that
    were written with `mark: true`. Without them, the command runs some sources up to the stage.
    Limits come from FILE; use `--set` to try others. If FILE has several pipelines, the command
    shows those that have the stage.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    position, stage = find_filter(plan, name)
    rules = stage.list_rules()
    values = _parse_values(wanted, {rule.parameter for rule in rules if rule.parameter})
    why = explain_sampling(plan, position)
    is_sampled = sources is not None or why is not None
    if is_sampled:
        sample = measure_sources(plan, position, sources or _SOURCES, run_here)
    else:
        sample = _read_marks(plan, volume, name, most_rows)
    counts = count_rows(rules, sample.rows, values)
    if as_json:
        write_line(json.dumps(_render(name, sample, counts, is_sampled), ensure_ascii=False))
        return
    if is_sampled and sources is None:
        click.echo(f"outputs have no measures ({why}): running sources up to the stage", err=True)
    for failure in sample.failures:
        click.echo(f"left out: {failure}", err=True)
    write_line("\n".join(_describe(name, sample, counts)))


def _read_marks(plan: PipelinePlan, volume: Path, name: str, most_rows: int) -> MeasuredSample:
    _, stage = find_filter(plan, name)
    with looking(locate(plan, volume)) as store:
        names = list_output_names(store)
    return read_outputs(locate_output(plan, volume), names, stage, most_rows)


def _parse_values(wanted: Sequence[str], known: set[str]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for each in wanted:
        parameter, _, numbers = each.partition("=")
        if parameter not in known:
            names = ", ".join(sorted(known)) or "none"
            msg = f"--at {each}: the stage has no such limit; its limits are: {names}"
            raise click.UsageError(msg)
        try:
            values.setdefault(parameter, []).extend(map(float, numbers.split(",")))
        except ValueError as error:
            msg = f"--at {each}: write numbers, such as {parameter}=10,20"
            raise click.UsageError(msg) from error
    return values


def _render(
    name: str, sample: MeasuredSample, counts: FilterCounts, is_sampled: bool
) -> dict[str, Any]:
    return {
        "stage": name,
        "from": "sources" if is_sampled else "outputs",
        "lookedAt": sample.looked_at,
        "failures": list(sample.failures),
        "rows": counts.rows,
        "dropped": counts.dropped,
        "droppedWithoutLimit": counts.unlimited,
        "reasons": dict(counts.reasons),
        "rules": [_render_rule(each) for each in counts.rules],
    }


def _render_rule(counts: RuleCounts) -> dict[str, Any]:
    rule = counts.rule
    return {
        "parameter": rule.parameter,
        "reason": rule.reason,
        "measure": rule.measure,
        "drops": "below" if rule.is_least else "above",
        "limit": rule.limit,
        "measured": counts.measured,
        "thresholds": [
            {
                "at": each.at,
                "taken": each.taken,
                "alone": each.alone,
                "together": each.together,
                "isCurrent": each.is_current,
            }
            for each in counts.thresholds
        ],
    }


def _describe(name: str, sample: MeasuredSample, counts: FilterCounts) -> Iterator[str]:
    looked_at = _describe_sample(sample)
    dropped = _describe_part(counts.dropped, counts.rows)
    yield f"{name}: drops {dropped} of {format_amount(counts.rows, 'row')} of {looked_at}"
    if counts.unlimited:
        yield f"{format_count(counts.unlimited)} of them are dropped by no limit"
    if not counts.rules:
        yield "the stage has no numeric limits to vary; results with its current settings:"
        yield from (
            align(
                [(f"  {reason}", format_count(count)) for reason, count in counts.reasons.items()]
            )
            if counts.reasons
            else ()
        )
        return
    for each in counts.rules:
        yield ""
        yield from _describe_rule(each, counts.rows)


def _describe_sample(sample: MeasuredSample) -> str:
    if sample.total is None:
        return format_amount(sample.looked_at, "source")
    if sample.looked_at < sample.total:
        total = format_amount(sample.total, "output file")
        return f"{format_count(sample.looked_at)} of {total}"
    return format_amount(sample.total, "output file")


def _describe_rule(counts: RuleCounts, rows: int) -> Iterator[str]:
    rule = counts.rule
    side = "below" if rule.is_least else "above"
    now = "off" if rule.limit is None else format_measure(rule.limit)
    unmeasured = rows - counts.measured
    rest = f"; {format_count(unmeasured)} rows have no such measure" if unmeasured else ""
    yield f"{rule.parameter}: drops what is {side} ({rule.reason}); now {now}{rest}"
    head = ("  at", "takes", "", "alone", "together", "")
    yield from align([head, *(_list_cells(each, rows) for each in counts.thresholds)])


def _list_cells(threshold: Threshold, rows: int) -> tuple[str, ...]:
    return (
        f"{'>' if threshold.is_current else ' '} {format_measure(threshold.at)}",
        format_count(threshold.taken),
        _format_share(threshold.taken, rows),
        format_count(threshold.alone),
        format_count(threshold.together),
        _format_share(threshold.together, rows),
    )


def _describe_part(part: int, whole: int) -> str:
    return f"{format_count(part)} ({_format_share(part, whole)})"


def _format_share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0.0%"
