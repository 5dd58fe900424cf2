"""Defines the options that select a cluster, and the session that uses them.

This module reads the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from strandline.cli.app.program import add_debug
from strandline.cli.cluster.claim_job import ClusterSession
from strandline.cli.cluster.kubectl import Kubectl
from strandline_api.names import SUBDOMAIN

_KEY = "strandline.cluster_options"
_OPTIONS = (
    (("--context",), "NAME", "Context of the kubeconfig file."),
    (("-n", "--namespace"), "NAME", "Namespace of the pipeline.  [default: the context's]"),
    (("--kubeconfig",), "FILE", "The kubeconfig file.  [default: kubectl's]"),
)
START_SECONDS = 300.0


def _note(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    """Store an option for kubectl. The option may precede or follow the command's name."""
    if value is not None:
        # Nested contexts share `meta`, so this also finds an option before the command's name.
        ctx.meta.setdefault(_KEY, {})[option.opts[-1]] = value


def take_cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a cluster, and `--debug`."""
    for names, metavar, text in reversed(_OPTIONS):
        option = click.option(
            *names, metavar=metavar, help=text, expose_value=False, callback=_note
        )
        command = option(command)
    return add_debug(command)


def _check_name(_ctx: click.Context, _argument: click.Parameter, value: str) -> str:
    if not SUBDOMAIN.fullmatch(value):
        msg = f"{value!r} is not a pipeline name; `kubectl get cpipe` lists them"
        raise click.BadParameter(msg)
    return value


take_pipeline = click.argument("pipeline", metavar="NAME", callback=_check_name)
take_start = click.option(
    "--start-timeout",
    type=click.FloatRange(min=1),
    default=START_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time for the Job's pod to start.",
)


def open_session(start_seconds: float = START_SECONDS) -> ClusterSession:
    """Return a session with the cluster that the command line selects."""
    given: dict[str, str] = click.get_current_context().meta.get(_KEY, {})
    options = tuple(word for option in given.items() for word in option)
    return ClusterSession(Kubectl(options), time.time, time.sleep, _show, start_seconds)


def _show(line: str) -> None:
    click.echo(line, err=True)
