"""`strandline repair`: makes the next run redo missing or damaged outputs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate, locate_output
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.format import escape_text, format_amount, format_count
from strandline.ledger.checks.verification import Damage
from strandline.run.manifest.manifest import read_manifest
from strandline.run.revise.repair import repair_outputs

SHOWN = 20


@click.command(
    "repair",
    epilog=show_examples(
        "strandline repair pipeline.yaml --dry-run",
        "strandline repair pipeline.yaml",
    ),
)
@take_manifest
@take_volume
@click.option("--dry-run", is_flag=True, help="Only show the planned repairs.")
@take_json
@each_pipeline
def repair(
    file: Path, settings: tuple[str, ...], volume: Path, dry_run: bool, as_json: bool
) -> None:
    """Reset missing or damaged results for the next run.

    The command corrects the problems that `verify` finds. Sources are tried again if their outputs
    or gathered statistics are missing or have other bytes. Files that no finished source names are
    removed. Refused while the pipeline runs.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    location = locate_output(plan, volume)
    damage = repair_outputs(locate(plan, volume), location, is_trial=dry_run)
    if as_json:
        write_line(json.dumps(_render(damage, is_trial=dry_run)))
    else:
        click.echo("\n".join(describe(damage, is_trial=dry_run)))


def _render(damage: Damage, *, is_trial: bool) -> dict[str, object]:
    return {
        "again": sorted(mark.key for mark in damage.again.values()),
        "removed": len(damage.untidy) + len(damage.orphans) - len(damage.lighter),
        "forgotten": len(damage.lighter),
        "foreign": damage.foreign,
        "dryRun": is_trial,
    }


def describe(damage: Damage, *, is_trial: bool) -> list[str]:
    """Describe the repairs as lines, done or planned; name only the first sources."""
    if not any(damage):
        return ["nothing to repair"]
    lines = []
    keys = sorted(mark.key for mark in damage.again.values())
    if keys:
        what = "would be" if is_trial else "will be"
        lines.append(
            f"{format_amount(len(keys), 'source')} {what} processed again by the next run:"
        )
        lines += [f"  {escape_text(key)}" for key in keys[:SHOWN]]
        lines += [f"  and {format_count(len(keys) - SHOWN)} more"] if len(keys) > SHOWN else []
    if damage.lighter:
        which = format_amount(len(damage.lighter), "source")
        lines.append(f"discarded missing or damaged kept output of {which}")
    extra = len(damage.untidy) + len(damage.orphans) - len(damage.lighter)
    if extra:
        what = "would be removed" if is_trial else "are removed"
        lines.append(
            f"files without a finished source {what} from {format_amount(extra, 'folder')}"
        )
    lines += [
        f"left unchanged because no run wrote it: {escape_text(name)}"
        for name in damage.foreign[:SHOWN]
    ]
    return lines
