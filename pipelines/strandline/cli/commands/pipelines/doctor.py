"""`strandline doctor`: checks whether a machine, a volume, and a pipeline are fit for a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json, take_settings, take_volume
from strandline.cli.app.program import add_debug
from strandline.cli.app.terminal import find_width
from strandline.cli.views.format import align, escape_text, format_amount
from strandline.run.attempt.engines import find_unmet_here
from strandline.run.insight.doctor.checks import Finding, Level, choose_code, examine
from strandline.run.insight.doctor.probes import look
from strandline.run.manifest.manifest import read_manifest

_ANY = 1_000_000  # width of lines without a limit


@click.command(
    "doctor",
    epilog=show_examples(
        "strandline doctor --volume /data",
        "strandline doctor pipeline.yaml --volume /data --json",
    ),
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@take_settings
@add_debug
@take_volume
@click.option(
    "--quick", is_flag=True, help="Skip the trial start of Ray, which takes some seconds."
)
@take_json
def doctor(
    file: Path | None, settings: tuple[str, ...], volume: Path, quick: bool, as_json: bool
) -> int:
    """Check machine, volume and ledgers, and print advice.

    With FILE, the command also checks whether the machine is large enough for the pipeline, and
    whether its output is writable. Tests use temporary folders, and a small pipeline runs on a
    local Ray instance. The exit code is 73 for problems of the volume, and 1 for other problems.
    """
    if file is None and settings:
        msg = "--set changes a pipeline, so it requires FILE"
        raise click.UsageError(msg)
    manifest = None if file is None else read_manifest(file, settings, volume=volume)
    if manifest is None:
        findings = examine(look(volume, starts_ray=not quick))
    else:
        unmet = find_unmet_here(manifest.plan, manifest.pipeline.spec.engine)
        findings = examine(look(volume, manifest.plan, unmet, starts_ray=not quick))
    lines = map(_render_json, findings) if as_json else describe_findings(findings, find_width())
    write_line("\n".join(lines))
    return choose_code(findings)


def describe_findings(findings: Sequence[Finding], width: int | None = None) -> Iterator[str]:
    """Yield the findings as lines with their advice, and finally the number of problems."""
    rows = [(each.level.value, each.name, escape_text(each.found)) for each in findings]
    for line, finding in zip(align(rows, 3, width), findings, strict=True):
        yield line
        if finding.advice:
            for part in wrap(escape_text(finding.advice), (width or _ANY) - 4):
                yield f"    {part}"
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    yield f"{format_amount(problems, 'problem')}, {format_amount(warnings, 'warning')}"


def _render_json(finding: Finding) -> str:
    return json.dumps(finding._asdict())
