"""`strandline failures`: shows why sources failed, with a line for each reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import looking
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.failures import (
    describe_dead_letters,
    describe_failures,
    render_failure_group,
)
from strandline.ledger.checks.counts import (
    DeadLetterCounts,
    count_dead_letters,
    count_sources,
)
from strandline.ledger.output_root import read_output_root
from strandline.ledger.records.entries import SourceState
from strandline.ledger.store.rows import list_failures, list_quarantined
from strandline.run.attempt.failures import FailureGroup, group_failures, view_quarantined
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.run.revise.dead_letters.listing import list_dead_letters
from strandline.storage.layout import PipelineFolder

_LISTINGS = {
    SourceState.FAILED: "ledger sources FILE --state failed",
    SourceState.QUARANTINED: "ledger quarantine list FILE",
}


@click.command(
    "failures",
    epilog=show_examples(
        "strandline failures pipeline.yaml", "strandline failures pipeline.yaml --json"
    ),
)
@take_manifest
@take_volume
@take_json
@each_pipeline
def failures(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Show why sources and rows failed, by stage and error.

    Rows that failed alone are dead letters. An error's origin is shown as a line of code. Each
    reason has the number of its sources or rows, and one example. Sources that finished since then
    are not shown; a source in quarantine is shown with the reason of its quarantine.
    """
    metadata = read_pipeline(file, settings).pipeline.metadata
    folder = PipelineFolder.on_volume(volume, metadata.namespace, metadata.name)
    found = read_failures(folder)
    if as_json:
        for each in found.render():
            write_line(json.dumps(each))
        return
    if not found.counts[SourceState.FAILED]:
        click.echo("no source has failed")
    for state, groups in found.reasons.items():
        for line in _describe(groups, found.counts[state], state):
            click.echo(line)
    for line in describe_dead_letters(found.letters, found.dead.total, found.dead.sources):
        click.echo(line)


class Failures(NamedTuple):
    """Failed sources and rows of a pipeline.

    Attributes:
        reasons: failed sources and sources in quarantine, grouped by reason.
        counts: numbers of sources by state.
        letters: rows that failed alone, grouped by reason.
        dead: numbers of such rows, and of their sources.
    """

    reasons: Mapping[SourceState, tuple[FailureGroup, ...]]
    counts: Mapping[str, int]
    letters: tuple[FailureGroup, ...]
    dead: DeadLetterCounts

    def render(self) -> list[dict[str, Any]]:
        """Return an object for each reason, as with `--json`."""
        dead = [render_failure_group(group, "dead") for group in self.letters]
        return dead + [
            render_failure_group(group, state)
            for state, groups in self.reasons.items()
            for group in groups
        ]


def read_failures(folder: PipelineFolder) -> Failures:
    """Read what has failed in a pipeline."""
    with looking(folder) as store:
        reasons = {
            SourceState.FAILED: group_failures(list_failures(store)),
            SourceState.QUARANTINED: group_failures(map(view_quarantined, list_quarantined(store))),
        }
        counts, dead = count_sources(store), count_dead_letters(store)
        location = read_output_root(store) or str(folder.output)
        # Dead letters are files next to the outputs. If there are none, do not open the outputs,
        # which may be unreachable.
        letters = group_failures(list_dead_letters(store, location)) if dead.total else ()
    return Failures(reasons, counts, letters, dead)


def _describe(groups: tuple[FailureGroup, ...], total: int, state: SourceState) -> Iterator[str]:
    if total:
        yield from describe_failures(groups, total, most=len(groups), state=state)
        yield f"full list: `strandline {_LISTINGS[state]}`"
