"""Shows an attempt while it runs: in a terminal, a notebook, a log, or to a script.

The module decides when and where to show progress; other views decide about its form.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, TextIO

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from strandline.cli.app.json_output import find_text
from strandline.cli.app.signals import StoppedAtOnceError
from strandline.cli.app.terminal import find_width
from strandline.cli.views.format import format_seconds
from strandline.cli.views.running.progress import describe_line, draw
from strandline.cli.views.running.snapshot import STARTING, Pace, Snapshot, take_snapshot
from strandline.cli.views.running.snapshot_json import render_snapshot
from strandline.cli.views.summary import Details, describe_outcome, render_outcome
from strandline.engine.core.ports import RunProgress
from strandline.plan.errors import code_of
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

NOTEBOOK_WIDTH = 100  # characters in a line; narrower cells get a scroll bar


class Reporter:
    """Prints a line every few seconds on stderr, and the summary on stdout.

    Args:
        now: clock in seconds from any fixed point.
    """

    # Seconds between lines. A log keeps every line, so updates are rarer than in a terminal.
    interval = 5.0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._begun = now()
        self._due = self._begun + self.interval
        self._is_begun = False
        self._pace = Pace()
        self._shown_notes = 0

    def report(self, progress: RunProgress) -> bool:
        """Show progress if an update is due. Return True in that case, and on the first call."""
        for note in progress.notes[self._shown_notes :]:
            self.announce(note)
        self._shown_notes = len(progress.notes)
        if not self._is_begun and progress.dashboard:
            self.announce(f"Ray's dashboard: {progress.dashboard}")
        now = self._now()
        if now >= self._due:
            self._due = now + self.interval
            self.show(take_snapshot(progress, now - self._begun, self._pace))
        elif self._is_begun:
            return False
        # Return True on the first call even without an update: the engine has started, so the
        # caller must restore signal handlers that Ray has replaced.
        self._is_begun = True
        return True

    def take(self, progress: RunProgress) -> None:
        """Show progress if an update is due."""
        self.report(progress)

    @contextmanager
    def watching(self, _name: str) -> Iterator[None]:
        """Show progress until the block ends. The summary reports the end."""
        yield

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Report an error that leaves the block, for readers who do not see stderr."""
        yield

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        click.echo(describe_line(snapshot), err=True)

    def announce(self, sentence: str) -> None:
        """Show a sentence to the user."""
        click.echo(sentence, err=True)

    def end(self, sentence: str) -> None:
        """Show the result of a run, for views without a summary."""

    def close(self, outcome: AttemptResult, details: Details) -> None:
        """Show the result of the attempt."""
        for line in describe_outcome(outcome, details, find_width()):
            click.echo(line)


class TerminalReporter(Reporter):
    """Shows a table in a terminal, redrawn in place."""

    interval = 0.25

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._name = ""

    @contextmanager
    def watching(self, name: str) -> Iterator[None]:
        self._name = name
        with self._live:
            self.show(STARTING)  # Ray needs seconds to start
            yield

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(draw(self._name, snapshot), refresh=True)

    def announce(self, sentence: str) -> None:
        self._live.console.print(sentence, markup=False, highlight=False)


class NotebookReporter(Reporter):
    """Shows a table in the output of a notebook's cell, redrawn in place.

    Args:
        display: IPython's `display`.
        now: clock in seconds from any fixed point.
    """

    interval = 0.5

    def __init__(
        self, display: Callable[..., Any], now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(now)
        self._display = display
        self._handle: Any = None
        self._name = ""
        self._sentences: list[str] = []

    @contextmanager
    def watching(self, name: str) -> Iterator[None]:
        self._name = name
        self.show(STARTING)
        yield

    def show(self, snapshot: Snapshot) -> None:
        self._draw(draw(self._name, snapshot))

    def announce(self, sentence: str) -> None:
        self._sentences.append(sentence)
        # Show the sentence immediately instead of with the next table: a user who has interrupted
        # the kernel expects a reaction.
        self._draw(Text(self._name, "bold"))

    def end(self, sentence: str) -> None:
        seconds = format_seconds(self._now() - self._begun)
        self._draw(Text(f"{self._name}  {seconds}\n{sentence}"))

    def _draw(self, content: RenderableType) -> None:
        """Replace the displayed content."""
        out = io.StringIO()
        # Without `force_jupyter=False`, rich would display the text instead of writing it to the
        # file.
        console = Console(file=out, width=NOTEBOOK_WIDTH, color_system=None, force_jupyter=False)
        console.print(*map(Text, self._sentences), content, sep="\n")
        text = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
        page = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
        if self._handle is None:
            self._handle = self._display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)


class JsonReporter(Reporter):
    """Writes one JSON object per line to a standard output that other code can't use."""

    interval = 1.0

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        # Keep the stream, because `sys.stdout` is redirected to stderr while stages run.
        self._out = find_text()

    def show(self, snapshot: Snapshot) -> None:
        self._write(render_snapshot(snapshot))

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except StoppedAtOnceError as error:
            self._write(_render_error(ExitCode.INTERRUPTED, str(error)))
            raise
        except Exception as error:
            self._write(_render_error(code_of(error), str(error)))
            raise

    def close(self, outcome: AttemptResult, details: Details) -> None:
        self._write(render_outcome(outcome, details))

    def _write(self, content: dict[str, object]) -> None:
        click.echo(json.dumps(content), file=self._out)


def create_reporter(*, is_json: bool, stderr: TextIO | None = None) -> Reporter:
    """Return the reporter for this process' output.

    Args:
        stderr: stream for progress; by default this process' own.
    """
    stream = stderr or sys.stderr
    if is_json:
        return JsonReporter()
    if stream.isatty():
        return TerminalReporter(Console(file=stream))
    return Reporter()


def _render_error(code: ExitCode, message: str) -> dict[str, object]:
    return {"event": "outcome", "outcome": code.name, "exitCode": int(code), "message": message}
