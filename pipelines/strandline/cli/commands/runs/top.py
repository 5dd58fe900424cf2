"""`strandline top`: shows the current state of a run, refreshed until the user quits."""

from __future__ import annotations

import json
import select
import sys
import termios
import time
import tty
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from strandline.cli.app.ledger_access import looking
from strandline.cli.app.options import show_examples, take_manifest, take_volume
from strandline.cli.app.terminal import find_width
from strandline.cli.views.attempt import read_live, view_attempt
from strandline.cli.views.running.snapshot_json import parse_json
from strandline.cli.views.running.top import Failed, RecentFailures, TopFacts, draw_top
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.store.rows import list_failed
from strandline.plan.errors import StrandlineError
from strandline.run.insight.records import find_last
from strandline.run.manifest.yaml_file import list_pipelines, read_pipeline
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.reader_token import HEADER, derive_token

# Seconds between two refreshes, and seconds to wait for a driver's response.
INTERVAL = 1.0
ANSWER_SECONDS = 5.0
# Maximum number of failures, and of quarantined sources, that the command searches for new
# failures. The rest is only counted.
LOOKED_THROUGH = 10_000
WIDTH = 120  # number of characters without a terminal


class NoDriverError(StrandlineError):
    """Raised if no driver responds at the given address."""


@click.command(
    "top",
    epilog=show_examples(
        "strandline top pipeline.yaml", "strandline top pipeline.yaml --volume /data --once"
    ),
)
@take_manifest
@take_volume
@click.option(
    "--once",
    is_flag=True,
    help="Print the state once. This is the default if the output is not a terminal.",
)
@click.option(
    "--ask",
    metavar="HOST:PORT",
    help="Request the state from the driver at this address (`run --serve`) instead of reading the "
    "volume.",
)
@click.option(
    "--attempt-uid",
    metavar="UID",
    default="",
    help="With --ask on a cluster: metadata.uid of the CurationAttempt, which the driver requires.",
)
def top(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    once: bool,
    ask: str | None,
    attempt_uid: str,
) -> None:
    """Show the current state of a run, until q or Ctrl-C.

    The view shows rate, utilisation and queue of each stage, the bottleneck, the sources by state,
    and recent failures. If FILE has several pipelines, they follow one another, the running one
    first.
    """
    # A driver works on one pipeline, and settings change one.
    paths = [file] if ask or settings else list_pipelines(file)
    looks = []
    for path in paths:
        metadata = read_pipeline(path, settings).pipeline.metadata
        name = f"{metadata.namespace}/{metadata.name}"
        if ask is None:
            folder = PipelineFolder.on_volume(volume, metadata.namespace, metadata.name)
            looks.append(partial(look_at_volume, name, folder, RecentFailures()))
        else:
            looks.append(partial(ask_driver, name, ask, attempt_uid))
    console = Console(width=find_width() or WIDTH)
    if once or not (sys.stdin.isatty() and sys.stdout.isatty()):
        console.print(_draw(looks, time.time()), highlight=False)
        return
    with suppress(KeyboardInterrupt):
        _watch(console, partial(_draw, looks))


def _draw(looks: Sequence[Callable[[float], TopFacts]], now: float) -> Group:
    """Return the views of the pipelines, those with a running driver first."""
    facts = sorted((look(now) for look in looks), key=lambda each: each.live is None)
    parts = [part for each in facts for part in (Text(), draw_top(each))]
    return Group(*parts[1:])


def look_at_volume(
    name: str, folder: PipelineFolder, recent: RecentFailures, now: float
) -> TopFacts:
    """Return the facts from the newest attempt's driver and from the ledger."""
    record = find_last(folder)
    if record is None:
        return TopFacts(name)
    view = view_attempt(folder, record, now)
    shown = read_live(folder, view, now)
    live = None if shown is None else parse_json(shown)
    data = folder.ledger / "data.mdb"
    # If the file is empty, the ledger is still being created.
    if not (data.exists() and data.stat().st_size):
        return TopFacts(name, view, live)
    with looking(folder) as store:
        counts = count_sources(store)
        known: Iterator[tuple[bytes, Failed]] = chain(
            islice(list_failed(store), LOOKED_THROUGH),
            islice(store.list_quarantined(), LOOKED_THROUGH),
        )
        own = (report for _, report in known if report.attempt == record.number)
        failures = recent.take(own, record.number)
    return TopFacts(name, view, live, counts, failures)


def ask_driver(name: str, host: str, attempt_uid: str, _now: float) -> TopFacts:
    """Return the facts from a driver.

    Args:
        attempt_uid: uid of the CurationAttempt; empty outside of a cluster.

    Raises:
        NoDriverError: the driver does not answer.
    """
    headers = {HEADER: derive_token(attempt_uid)} if attempt_uid else {}
    request = urllib.request.Request(f"http://{host}/progress", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - HTTP
            shown = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        what = "has nothing to report yet"
        if error.code == HTTPStatus.UNAUTHORIZED:
            what = "requires --attempt-uid, the metadata.uid of its CurationAttempt"
        msg = f"{host}: the driver {what} ({error.code})"
        raise NoDriverError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"{host}: no driver responds there: {error}"
        raise NoDriverError(msg) from error
    return TopFacts(f"{name} at {host}", live=parse_json(shown))


def _watch(console: Console, draw: Callable[[float], Group]) -> None:
    with (
        _reading_keys() as read_key,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(draw(time.time()), refresh=True)
            # In cbreak mode, Ctrl-D arrives as `\x04`.
            if read_key(INTERVAL) in {"q", "Q", "\x04"}:
                return


@contextmanager
def _reading_keys() -> Iterator[Callable[[float], str]]:
    """Turn off echo until the block ends. Yield a function that waits some seconds for a key."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def read_key(seconds: float) -> str:
        ready, _, _ = select.select([keyboard], [], [], seconds)
        # At the end of input, no key can follow, so quit instead of looping forever.
        return (sys.stdin.read(1) or "q") if ready else ""

    try:
        # Unlike raw mode, cbreak mode still turns Ctrl-C into a KeyboardInterrupt.
        tty.setcbreak(keyboard)
        yield read_key
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
