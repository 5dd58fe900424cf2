"""`kubectl strandline attempts` and `logs`: the cluster's records of attempts, and their logs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json
from strandline.cli.app.terminal import find_width
from strandline.cli.cluster.claim_job import (
    ClusterSession,
    CommandOrder,
    NothingRunError,
    run_command,
)
from strandline.cli.cluster.objects import (
    ATTEMPTS,
    ClusterPipeline,
    ListedAttempt,
    read_cluster_attempt,
)
from strandline.cli.cluster.placement import ClaimUse
from strandline.cli.cluster.waiting import choose_log
from strandline.cli.commands.cluster.session import (
    open_session,
    take_cluster,
    take_pipeline,
    take_start,
)
from strandline.cli.views.format import align, escape_text, format_time
from strandline.plan.errors import StrandlineError
from strandline_api.names import name_attempt, select_pipeline
from strandline_api.spec.pod_paths import VOLUME

# If a log grew too long, its older half is in a file with the suffix `.1`. The command fails if the
# log is gone.
_PRINT = 'for part in "$1.1" "$1"; do [ ! -f "$part" ] || cat "$part"; done; [ -f "$1" ]'
_COLUMNS = ("attempt", "run", "trigger", "started (UTC)", "phase", "finished", "cause", "message")


@click.command(
    "attempts",
    epilog=show_examples(
        "kubectl strandline attempts corpus", "kubectl strandline attempts corpus --json"
    ),
)
@take_pipeline
@take_cluster
@take_json
def list_attempts(pipeline: str, as_json: bool) -> None:
    """List the attempts that the cluster keeps, oldest first.

    The columns are number, run, trigger, start, phase, finished sources of the total, cause of a
    failure, and message. `attemptHistoryLimit` sets the number of attempts to keep.
    """
    session = open_session()
    found = session.find_pipeline(pipeline)
    listed = session.kubectl.get(ATTEMPTS, "-l", select_pipeline(found.uid))["items"]
    # Sort by number: the API server sorts by name, where `corpus-10` precedes `corpus-9`.
    attempts = sorted(map(read_cluster_attempt, listed), key=lambda attempt: attempt.number)
    if as_json:
        for attempt in attempts:
            write_line(json.dumps(_render(attempt)))
    elif attempts:
        click.echo("\n".join(describe_cluster_attempts(attempts, find_width())))
    else:
        click.echo("there is no attempt yet")


def describe_cluster_attempts(
    attempts: Sequence[ListedAttempt], width: int | None = None
) -> Iterator[str]:
    """Describe attempts as a table, with one line per attempt if the width allows."""
    return align([_COLUMNS, *map(_make_row, attempts)], len(_COLUMNS), width)


def _make_row(attempt: ListedAttempt) -> tuple[str, ...]:
    status = attempt.status
    started = status.start_time
    return (
        str(attempt.number),
        escape_text(attempt.run),
        escape_text(attempt.trigger),
        "" if started is None else format_time(started, "%Y-%m-%d %H:%M:%S"),
        status.phase.value,
        status.progress.text if status.progress else "",
        attempt.cause.value if attempt.cause else "",
        escape_text(status.message),
    )


def _render(attempt: ListedAttempt) -> dict[str, object]:
    """Render a line of `--json`; its keys are stable."""
    status = attempt.status
    return {
        "attempt": attempt.number,
        "run": attempt.run,
        "trigger": attempt.trigger,
        "started": _format_iso(status.start_time),
        "ended": _format_iso(status.end_time),
        "phase": status.phase.value,
        "progress": status.progress.text if status.progress else None,
        "cause": attempt.cause.value if attempt.cause else None,
        "exitCode": status.outcome.exit_code if status.outcome else None,
        "message": status.message,
    }


def _format_iso(time: float | None) -> str | None:
    return None if time is None else format_time(time, "%Y-%m-%dT%H:%M:%SZ")


@click.command(
    "logs",
    epilog=show_examples(
        "kubectl strandline logs corpus --follow", "kubectl strandline logs corpus --attempt 2"
    ),
)
@take_pipeline
@take_cluster
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the driver ends.")
@click.option(
    "--attempt", "number", type=click.IntRange(min=1), metavar="N", help="[default: the latest]"
)
@take_start
def show_log(pipeline: str, follow: bool, number: int | None, start_timeout: float) -> int:
    """Print the driver's log.

    If the attempt's pods are gone, a Job reads the log from the volume. If that fails, the command
    prints the last lines from the attempt's status.
    """
    session = open_session(start_timeout)
    found = session.find_pipeline(pipeline)
    number = number or found.status.attempt
    if not number:
        msg = f"{pipeline} has no attempt yet, so there is no log"
        raise NothingRunError(msg)
    pods = session.kubectl.get("pods", "-l", select_pipeline(found.uid))["items"]
    chosen = choose_log(pods, number)
    if chosen is None:
        return _show_kept(session, found, number)
    words = ["logs", *(["--follow"] * follow), "-c", chosen[1], f"pod/{chosen[0]}"]
    return session.kubectl.follow(words, sys.stdout.buffer)


def _show_kept(session: ClusterSession, pipeline: ClusterPipeline, number: int) -> int:
    """Print the complete log from the volume, or the last lines from the attempt's status."""
    name = name_attempt(pipeline.name, number)
    status = read_cluster_attempt(session.kubectl.get(ATTEMPTS, name)).status
    # Prefer the file, because the status keeps only the last lines.
    if status.log_file:
        session.show(f"no pod of attempt {number} prints a log; reading {status.log_file}")
        why = _print_file(session, pipeline, status.log_file)
        if why is None:
            return 0
        session.show(f"{status.log_file} can't be read: {why}")
    if not status.log_tail:
        msg = f"no pod of attempt {number} prints a log, and no log was kept"
        raise NothingRunError(msg)
    session.show(f"no pod of attempt {number} prints a log; these lines were kept:")
    for line in status.log_tail:
        click.echo(escape_text(line))
    return 0


def _print_file(session: ClusterSession, pipeline: ClusterPipeline, name: str) -> str | None:
    """Print a log from the volume. Return None on success, otherwise the reason of the failure."""
    path = f"{VOLUME}/{pipeline.namespace}/{pipeline.name}/{name}"
    words = ["/bin/sh", "-c", _PRINT, "logs", path]
    order = CommandOrder("logs", ClaimUse.COPY, words)
    try:
        code = run_command(session, pipeline, order, sys.stdout.buffer)
    except StrandlineError as error:
        return str(error)
    return None if code == 0 else "it was removed to make space for newer logs"
