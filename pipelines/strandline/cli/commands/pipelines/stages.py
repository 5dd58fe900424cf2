"""`strandline stages`: lists the stages available for `use:`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json
from strandline.cli.app.program import add_debug
from strandline.cli.app.terminal import find_width
from strandline.cli.views.stage_catalogue import (
    StageEntry,
    describe_catalogue,
    describe_entry,
    read_entry,
    render_entry,
)
from strandline.plan.stages.registry import (
    UnknownStageError,
    find_pack,
    find_stage,
    read_stages,
)


@click.command(
    "stages",
    epilog=show_examples("strandline stages", "strandline stages filter-text-quality --json"),
)
@click.argument("name", required=False)
@add_debug
@take_json
def stages(name: str | None, as_json: bool) -> None:
    """List the stages, or show NAME with its parameters.

    For your own stage, NAME is `module:Class`.
    """
    if name is None:
        known, problems = read_stages()
        for problem in problems:
            click.echo(f"strandline: {problem}", err=True)
        entries = [read_entry(use, found) for use, found in known.items()]
        lines = describe_catalogue(entries, find_width())
    else:
        entries = [_find_entry(name)]
        lines = [*describe_entry(entries[0], find_width()), *_describe_pack(name)]
    if as_json:
        rendered = [render_entry(entry) for entry in entries]
        write_line(json.dumps(rendered if name is None else rendered[0]))
    else:
        click.echo("\n".join(lines))


def _describe_pack(use: str) -> Iterator[str]:
    if (found := find_pack(use)) is not None:
        name, pack = found
        yield ""
        yield f"pack: {', '.join(filter(None, (name, pack.page)))}"


def _find_entry(name: str) -> StageEntry:
    try:
        return read_entry(name, find_stage(name))
    except UnknownStageError as error:
        raise click.UsageError(str(error)) from error
