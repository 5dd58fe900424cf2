"""Commands that need the volume: a Job that mounts the volume runs the local command.

A command takes the options of its local counterpart, so mistakes are found before a pod is created.
"""

from __future__ import annotations

import copy
import io
import shutil
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

from strandline.cli.app.commands import program
from strandline.cli.app.options import show_examples
from strandline.cli.app.terminal import find_width
from strandline.cli.cluster.claim_job import CommandOrder, run_command
from strandline.cli.cluster.edited_spec import render_edits
from strandline.cli.cluster.placement import ClaimUse
from strandline.cli.commands.cluster.session import (
    open_session,
    take_cluster,
    take_pipeline,
    take_start,
)
from strandline.cli.views.format import format_bytes
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import CONFIG, MANIFEST, VOLUME

# The commands, and how they use the volume.
USES = {
    ("plan",): ClaimUse.READ,
    ("verify",): ClaimUse.READ,
    ("repair",): ClaimUse.REPAIR,
    ("report",): ClaimUse.READ,
    ("card",): ClaimUse.OUTPUT,
    ("failures",): ClaimUse.READ,
    ("top",): ClaimUse.READ,
    ("ledger", "stats"): ClaimUse.READ,
    ("ledger", "sources"): ClaimUse.READ,
    ("ledger", "export"): ClaimUse.READ,
    ("ledger", "quarantine", "list"): ClaimUse.READ,
    ("ledger", "quarantine", "release"): ClaimUse.WRITE,
    ("ledger", "move-outputs"): ClaimUse.WRITE,
    ("ledger", "own-outputs"): ClaimUse.WRITE,
}
# Options that have no use here: the cluster determines their values, or they name files in the pod.
_LEFT_OUT = frozenset(
    {"file", "files", "settings", "volume", "ask", "once", "to", "form", "metrics", "sample"}
)
_PAGE = "out"


def make_claim_command(path: tuple[str, ...], shown: tuple[str, ...] = ()) -> click.Command:
    """Create the cluster's counterpart of a local command.

    Args:
        path: words of the local command, as in `USES`.
        shown: words of the cluster's command, or None if they are the same.
    """
    own = find_command(path)
    called = " ".join(shown or path)

    def call(pipeline: str, start_timeout: float, **_: object) -> int:
        return _call(path, own, pipeline, start_timeout)

    command = click.command(
        path[-1],
        help=f"{own.get_short_help_str(200)}\n\nRuns `strandline {' '.join(path)}` in a Job that "
        "mounts the volumes of the pipeline's latest attempt.",
        epilog=show_examples(f"kubectl strandline {called} corpus{_make_up(path)}"),
    )(take_pipeline(take_cluster(take_start(call))))
    command.params += [_free(param) for param in _list_params(own)]
    return command


def find_command(path: Sequence[str]) -> click.Command:
    """Return a local command by its words."""

    def enter(group: click.Command, name: str) -> click.Command:
        assert isinstance(group, click.Group)  # true for all entries of the table
        found = group.get_command(click.Context(group), name)
        assert found is not None
        return found

    return reduce(enter, path, cast("click.Command", program))


def render_words(
    own: click.Command, values: dict[str, Any], given: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Render parsed parameters as arguments of a command line.

    Args:
        own: the command.
        values: values of the parameters, by name.
        given: names of the parameters that the command line contains.

    Returns:
        The options, and the arguments that follow the file.
    """
    options: list[str] = []
    arguments: list[str] = []
    for param in _list_params(own):
        name = str(param.name)
        if name not in given or name == _PAGE:
            continue
        several = values[name] if param.multiple or param.nargs != 1 else [values[name]]
        if isinstance(param, click.Option):
            for value in several:
                options += [param.opts[0]] if param.is_flag else [param.opts[0], str(value)]
        else:
            arguments += map(str, several)
    return options, arguments


def _list_params(own: click.Command) -> list[Any]:
    return [
        param
        for param in own.params
        if param.name not in _LEFT_OUT and (param.expose_value or isinstance(param, click.Argument))
    ]


def _free(param: click.Parameter) -> click.Parameter:
    """Return a copy of a parameter without its callback, which must run only in the Job."""
    # Copy the parameter, because the local command still needs the callback.
    freed = copy.copy(param)
    freed.callback = None
    return freed


def _make_up(path: tuple[str, ...]) -> str:
    return {"sources": " --state failed", "release": " --all"}.get(path[-1], "")


def _call(path: tuple[str, ...], own: click.Command, pipeline: str, start: float) -> int:
    ctx = click.get_current_context()
    # Pass only options from the command line. The pod may have another version, which chooses its
    # own defaults.
    given = frozenset(
        name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    )
    options, arguments = render_words(own, ctx.params, given)
    page, use = ctx.params.get(_PAGE), USES[path]
    if page is not None:
        # Write the page on this machine: the command in the pod prints the page to its stdout.
        options, use = [*options, f"--{_PAGE}", "-"], ClaimUse.READ
    session = open_session(start)
    found = session.find_pipeline(pipeline)
    # Only a plan shows the current spec; all other commands read results of the latest attempt.
    if path == ("plan",):
        options += render_edits(found)
    words = ["strandline", *path, f"{CONFIG}/{MANIFEST}", "--volume", VOLUME, *options]
    order = CommandOrder(path[-1], use, [*words, *_guard(arguments)], find_width())
    if page is None or str(page) == "-":
        return run_command(session, found, order, sys.stdout.buffer)
    # Collect the page in memory, so that a failed command does not truncate an existing page.
    content = io.BytesIO()
    code = run_command(session, found, order, content)
    return code or _write_page(Path(page), content)


def _guard(arguments: list[str]) -> list[str]:
    """Return arguments after `--`, so that none of them is parsed as an option."""
    return ["--", *arguments] if arguments else []


def _write_page(path: Path, content: io.BytesIO) -> int:
    try:
        with path.open("wb") as file:
            content.seek(0)
            shutil.copyfileobj(content, file)
    except OSError as error:
        msg = f"{path}: can't be written: {error.strerror}"
        raise click.UsageError(msg) from error
    click.echo(f"{path}: {format_bytes(content.tell())}", err=True)
    return int(ExitCode.COMPLETE)
