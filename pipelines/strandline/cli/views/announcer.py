"""Reports events between attempts to a person or a script.

The driver reports its own attempt. This module adds facts that a killed driver can't report: the
cause of its end, and the next step.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.views.format import escape_text, format_amount
from strandline.plan.errors import StrandlineError
from strandline.run.supervise.supervision import EndedAttempt
from strandline_api.documents.problems import SpecError
from strandline_api.law.retry import GiveUp, RetryAt, describe_wait
from strandline_api.outcome.causes import Treatment
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line, name_outcome
from strandline_api.outcome.evidence import name_cause
from strandline_api.outcome.exit_codes import ExitCode


class Announcer:
    """Announces events as plain sentences on stderr."""

    def begin(self, pipeline: str) -> None:
        """Announce which pipeline starts now, if there are several."""
        self.announce(f"{pipeline}:")

    def leave_out(self, pipeline: str, needed: str) -> None:
        """Announce that a pipeline is skipped because an earlier pipeline is incomplete."""
        self.announce(f"{pipeline}: skipped because {needed} has not completed")

    def attempt_ended(self, ended: EndedAttempt) -> None:
        """Describe the end of an attempt whose driver could not report the end."""
        if ended.is_reported:
            return
        outcome = ended.outcome
        which = f"attempt {outcome.attempt}" if outcome.attempt else "the attempt"
        cause = name_cause(outcome.evidence).cause
        done = f"{format_amount(outcome.sources.finished, 'source')} finished by it"
        self.announce(f"{which} ended with {cause}: {outcome.message}; {done}")

    def retry(self, decision: RetryAt) -> None:
        """Announce that another attempt follows. `waiting` shows the wait before it."""

    def give_up(self, ended: EndedAttempt, decision: GiveUp) -> None:
        """Announce that no attempt follows, unless the driver's message already implies it."""
        is_final = name_cause(ended.outcome.evidence).cause.treatment is Treatment.NEVER
        if not (is_final or ended.is_lasting):
            self.announce(f"no further attempt: {decision.why}")

    def stopped(self) -> None:
        """Announce that a request to stop ended the wait."""
        self.announce("stopped while waiting for the next attempt; run it again to continue")

    @contextmanager
    def waiting(self, retry: RetryAt) -> Iterator[Callable[[float], None]]:
        """Show that the run waits before a retry.

        Yield a function that takes the remaining seconds.
        """
        shown: list[str] = []

        def show(left: float) -> None:
            # In a log, show a single line for a wait, not a countdown.
            if not shown:
                shown.append(describe_wait(retry, left=left))
                self.announce(shown[0])

        yield show

    def end(self, ended: EndedAttempt) -> None:
        """Announce the end of a single attempt to readers of its log."""
        self.attempt_ended(ended)
        click.echo(format_outcome_line(ended.outcome), err=True)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Report an error that leaves the block, for readers who do not see stderr."""
        yield

    def announce(self, sentence: str) -> None:
        """Show a sentence to the user."""
        click.echo(escape_text(sentence), err=True)


class TerminalAnnouncer(Announcer):
    """Announces events in a terminal, with a countdown that is redrawn in place."""

    @contextmanager
    def waiting(self, retry: RetryAt) -> Iterator[Callable[[float], None]]:
        def show(left: float) -> None:
            # `\r` returns to the start of the line, and `\x1b[K` erases the previous countdown.
            click.echo(f"\r\x1b[K{describe_wait(retry, left=left)}", err=True, nl=False)

        try:
            yield show
        finally:
            click.echo("", err=True)


class JsonAnnouncer(Announcer):
    """Announces events as one JSON object per line on stdout."""

    def begin(self, pipeline: str) -> None:
        _write({"event": "pipeline", "pipeline": pipeline})

    def leave_out(self, pipeline: str, needed: str) -> None:
        _write({"event": "left-out", "pipeline": pipeline, "needed": needed})

    def attempt_ended(self, ended: EndedAttempt) -> None:
        if not ended.is_reported:
            _write(_render_outcome(ended.outcome))

    def retry(self, decision: RetryAt) -> None:
        _write(
            {
                "event": "retry",
                "cause": decision.cause.value,
                "retry": decision.number,
                "of": decision.of,
                "seconds": round(decision.delay, 3),
                "message": decision.why,
            }
        )

    def give_up(self, ended: EndedAttempt, decision: GiveUp) -> None:
        # Print nothing: the last attempt's outcome is also the run's outcome, and must stay the
        # last line.
        pass

    def stopped(self) -> None:
        message = "stopped while waiting for the next attempt; run it again to continue"
        _write(_render_error(ExitCode.INTERRUPTED, message))

    @contextmanager
    def waiting(self, retry: RetryAt) -> Iterator[Callable[[float], None]]:  # noqa: ARG002
        yield lambda _: None

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except (StrandlineError, SpecError) as error:
            code = ExitCode.BAD_SPEC if isinstance(error, SpecError) else error.exit_code
            _write(_render_error(code, str(error)))
            raise


def create_announcer(*, is_json: bool) -> Announcer:
    """Return the announcer for the outputs of this process."""
    if is_json:
        return JsonAnnouncer()
    return TerminalAnnouncer() if sys.stderr.isatty() else Announcer()


def _render_outcome(outcome: DriverOutcome) -> dict[str, object]:
    sources = outcome.to_json()["sources"]
    return {
        **_render_error(outcome.exit_code, outcome.message),
        "attempt": outcome.attempt,
        "cause": name_cause(outcome.evidence).cause.value,
        "sources": sources,
    }


def _render_error(code: int, message: str) -> dict[str, object]:
    return {
        "event": "outcome",
        "outcome": name_outcome(code),
        "exitCode": int(code),
        "message": message,
    }


def _write(content: dict[str, object]) -> None:
    write_line(json.dumps(content))
