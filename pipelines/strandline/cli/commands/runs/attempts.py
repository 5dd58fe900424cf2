"""`strandline attempts`: lists a pipeline's attempts, or shows the details of an attempt."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import (
    each_pipeline,
    show_examples,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.app.terminal import find_width
from strandline.cli.views.attempt import (
    describe_all_lost,
    describe_attempt,
    describe_attempts,
    render_attempt,
    render_attempt_details,
    view_attempt,
)
from strandline.cli.views.failures import describe_failures
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.rows import list_failures
from strandline.plan.errors import StrandlineError
from strandline.run.attempt.failures import FailureGroup, group_failures
from strandline.run.insight.records import read_chain, read_record
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.published import list_publication_ids, read_publication
from strandline_api.outcome.exit_codes import ExitCode


class UnknownAttemptError(StrandlineError):
    """Raised if no recorded attempt has this number."""

    exit_code = ExitCode.BAD_SPEC


class ListingGroup(click.Group):
    """A group that runs its command `list` if the command line names no command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A first word that is no command must be a file or an option of `list`.
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("attempts", cls=ListingGroup)
def attempts() -> None:
    """List the attempts of a pipeline, or show one.

    `strandline attempts FILE` is short for `strandline attempts list FILE`.
    """


@attempts.command(
    "list",
    epilog=show_examples(
        "strandline attempts pipeline.yaml", "strandline attempts list pipeline.yaml --json"
    ),
)
@take_manifest
@take_volume
@take_json
@each_pipeline
def list_attempts(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """List the attempts, oldest first.

    The columns are number, run, trigger, start, duration, finished sources, cause of a failure, and
    message.
    """
    folder = _locate(file, settings, volume)
    views = [view_attempt(folder, record, time.time()) for record in read_chain(folder)]
    if as_json:
        for view in views:
            write_line(json.dumps(render_attempt(view)))
    elif views:
        click.echo("\n".join(describe_attempts(views, find_width())))
        if lost := describe_all_lost(views):
            click.echo(lost)
    else:
        click.echo("there is no attempt yet")


@attempts.command("show", epilog=show_examples("strandline attempts show pipeline.yaml 1"))
@take_manifest
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@take_volume
@take_json
def show_attempt(
    file: Path, settings: tuple[str, ...], number: int, volume: Path, as_json: bool
) -> None:
    """Show all details of attempt N.

    The details are its predecessor, the evidence of its end and the witness, its process, its
    publications, and the reasons of failed sources that have not been retried since.
    """
    folder = _locate(file, settings, volume)
    record = read_record(folder, number)
    if record is None:
        raise UnknownAttemptError(_explain_missing(folder, number))
    view, published = view_attempt(folder, record, time.time()), _list_publications(folder, number)
    if as_json:
        write_line(json.dumps(render_attempt_details(view, published)))
    else:
        click.echo("\n".join(describe_attempt(view, published, find_width())))
        groups = _group_failures(folder, number)
        for line in describe_failures(groups, sum(group.count for group in groups)):
            click.echo(line)


def _locate(file: Path, settings: tuple[str, ...], volume: Path) -> PipelineFolder:
    metadata = read_pipeline(file, settings).pipeline.metadata
    return PipelineFolder.on_volume(volume, metadata.namespace, metadata.name)


def _list_publications(folder: PipelineFolder, attempt: int) -> list[str]:
    """Return the complete publications, oldest first."""
    identities = [
        identity for identity in list_publication_ids(folder) if identity.attempt == attempt
    ]
    return [
        identity.name for identity in reversed(identities) if read_publication(folder, identity)
    ]


def _group_failures(folder: PipelineFolder, attempt: int) -> tuple[FailureGroup, ...]:
    """Return the reasons of sources that last failed in an attempt. Empty if there is no ledger."""
    # This import loads Arrow, which a list of attempts does not need.
    from strandline.cli.app.ledger_access import looking  # noqa: PLC0415

    try:
        with looking(folder) as store:
            return group_failures(list_failures(store, attempt))
    except (LedgerError, VolumeError):  # show the facts from the attempt's own folder
        return ()


def _explain_missing(folder: PipelineFolder, number: int) -> str:
    numbers = [record.number for record in read_chain(folder)]
    if not numbers:
        return f"there is no attempt {number}: the pipeline has no attempts yet"
    known = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"only {numbers[0]}"
    return f"there is no record of attempt {number}; recorded are {known}"
