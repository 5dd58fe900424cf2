"""The commands that need no volume: `retry`, `cancel`, `suspend`, `resume`, and `wait`."""

from __future__ import annotations

from collections.abc import Callable

import click

from strandline.cli.app.options import show_examples
from strandline.cli.cluster.claim_job import ClusterSession
from strandline.cli.cluster.objects import PIPELINES, ClusterPipeline, ListedAttempt
from strandline.cli.cluster.requests import (
    ClusterRequest,
    ask_cancel,
    ask_retry,
    ask_suspension,
)
from strandline.cli.cluster.waiting import describe_run, judge_run
from strandline.cli.commands.cluster.session import open_session, take_cluster, take_pipeline
from strandline.plan.errors import StrandlineError

_LOOK_SECONDS = 2.0


class RunNotEndedError(StrandlineError):
    """Raised if the run has not ended within the given time."""


@click.command("retry", epilog=show_examples("kubectl strandline retry corpus"))
@take_pipeline
@take_cluster
def retry(pipeline: str) -> None:
    """Request an attempt now, outside all retry budgets.

    Sets the annotation `strandline.dev/retry`: use it after a cancellation, after all retries are
    used up, or to skip a long wait. Refused while an attempt is in progress.
    """
    _ask_for_run(pipeline, ask_retry)


@click.command("cancel", epilog=show_examples("kubectl strandline cancel corpus"))
@take_pipeline
@take_cluster
def cancel(pipeline: str) -> None:
    """End the run; finished sources are kept.

    Sets the annotation `strandline.dev/cancel`. No attempt follows until you request one.
    """
    _ask_for_run(pipeline, ask_cancel)


@click.command("suspend", epilog=show_examples("kubectl strandline suspend corpus"))
@take_pipeline
@take_cluster
def suspend(pipeline: str) -> None:
    """Suspend the pipeline until it is resumed.

    Sets `spec.suspend`. If the pipeline comes from a repository, set it there too. A running
    attempt saves its work and ends.
    """
    _ask_for_suspension(pipeline, is_wanted=True)


@click.command("resume", epilog=show_examples("kubectl strandline resume corpus"))
@take_pipeline
@take_cluster
def resume(pipeline: str) -> None:
    """Resume a suspended pipeline."""
    _ask_for_suspension(pipeline, is_wanted=False)


def _ask_for_run(
    pipeline: str,
    ask: Callable[[ClusterPipeline, ListedAttempt | None, float, str], ClusterRequest],
) -> None:
    session = open_session()
    found = session.find_pipeline(pipeline)
    attempt, user = session.find_attempt(found), session.kubectl.find_user()
    _send(session, pipeline, ask(found, attempt, session.now(), user))


def _ask_for_suspension(pipeline: str, *, is_wanted: bool) -> None:
    session = open_session()
    found = session.find_pipeline(pipeline)
    request = ask_suspension(found, session.find_attempt(found), is_wanted=is_wanted)
    _send(session, pipeline, request)


def _send(session: ClusterSession, name: str, request: ClusterRequest) -> None:
    if request.patch is not None:
        session.kubectl.patch(PIPELINES, name, request.patch)
    click.echo(request.sentence)


@click.command("wait", epilog=show_examples("kubectl strandline wait corpus --timeout 3600"))
@take_pipeline
@take_cluster
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Longest wait.  [default: none]",
)
def wait(pipeline: str, timeout: float | None) -> int:
    """Wait until the run has ended.

    The exit code is 0 if the run succeeded, and 75 if it is suspended. After a failure it is the
    exit code of the last attempt's driver, or 1 if that is unknown or the timeout expires. Progress
    goes to stderr.
    """
    session, shown = open_session(), ""
    begun = session.now()
    while True:
        found = session.find_pipeline(pipeline)
        end = judge_run(found, session.find_attempt(found))
        if end is not None:
            click.echo(end.sentence)
            return end.code
        line = describe_run(found)
        if line != shown:
            session.show(line)
            shown = line
        if timeout is not None and session.now() - begun >= timeout:
            msg = f"{pipeline} has not ended after {timeout:g} s"
            raise RunNotEndedError(msg)
        session.sleep(_LOOK_SECONDS)
