"""Shows an attempt while it runs: in a terminal, in a log, or to a script.

It decides when to show and where; how it looks is the views' to say.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import click
from rich.console import Console
from rich.live import Live

from strandline.cli.app.json_output import find_text
from strandline.cli.app.signals import StoppedAtOnceError
from strandline.cli.views.progress import describe_line, draw
from strandline.cli.views.snapshot import Pace, Snapshot, spell_json, take_snapshot
from strandline.cli.views.summary import Details, describe_outcome, spell_outcome
from strandline.engine.core.ports import Progress
from strandline.plan.errors import code_of
from strandline.run.attempt.outcome import Outcome
from strandline_api.outcome.exit_codes import ExitCode


class Reporter:
    """The plain one: a line every few seconds on stderr, the summary on stdout.

    Args:
        now: seconds from any fixed point.
    """

    interval = 5.0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun = now()
        self._due = self._begun + self.interval
        self._is_begun = False
        self._pace = Pace()
        self._told = 0

    def report(self, progress: Progress) -> bool:
        """Show how far the attempt is, where it is time to; True then, and the first time."""
        for note in progress.notes[self._told :]:
            self.say(note)
        self._told = len(progress.notes)
        if not self._is_begun and progress.dashboard:
            self.say(f"Ray's dashboard: {progress.dashboard}")
        now = self._now()
        if now >= self._due:
            self._due = now + self.interval
            self.show(take_snapshot(progress, now - self._begun, self._pace))
        elif self._is_begun:
            return False
        self._is_begun = True
        return True

    @contextmanager
    def watching(self, _name: str) -> Iterator[None]:
        """Show progress as long as the block runs; the summary speaks of its end."""
        yield

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Tell of an error that leaves the block, where the error's sentence does not suffice."""
        yield

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        click.echo(describe_line(snapshot), err=True)

    def say(self, sentence: str) -> None:
        """Say something to a person."""
        click.echo(sentence, err=True)

    def close(self, outcome: Outcome, details: Details) -> None:
        """Show what the attempt came to."""
        for line in describe_outcome(outcome, details):
            click.echo(line)


class TerminalReporter(Reporter):
    """Redraws one table in place."""

    interval = 0.25

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._name = ""

    @contextmanager
    def watching(self, name: str) -> Iterator[None]:
        self._name = name
        with self._live:
            yield

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(draw(self._name, snapshot), refresh=True)

    def say(self, sentence: str) -> None:
        self._live.console.print(sentence, markup=False, highlight=False)


class JsonReporter(Reporter):
    """One object a line on standard output; what others print is not among them."""

    interval = 1.0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._out = find_text()

    def show(self, snapshot: Snapshot) -> None:
        self._write(spell_json(snapshot))

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except StoppedAtOnceError as error:
            self._write(_spell_error(ExitCode.INTERRUPTED, str(error)))
            raise
        except Exception as error:
            self._write(_spell_error(code_of(error), str(error)))
            raise

    def close(self, outcome: Outcome, details: Details) -> None:
        self._write(spell_outcome(outcome, details))

    def _write(self, content: dict[str, object]) -> None:
        click.echo(json.dumps(content), file=self._out)


def create_reporter(*, is_json: bool, stderr: TextIO | None = None) -> Reporter:
    """The reporter for where this process writes to.

    Args:
        stderr: None means this process's own.
    """
    stream = stderr or sys.stderr
    if is_json:
        return JsonReporter()
    if stream.isatty():
        return TerminalReporter(Console(file=stream))
    return Reporter()


def _spell_error(code: ExitCode, message: str) -> dict[str, object]:
    return {"event": "outcome", "outcome": code.name, "exitCode": int(code), "message": message}
