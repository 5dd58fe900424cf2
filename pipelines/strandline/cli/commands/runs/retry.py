"""`strandline retry`: one more attempt by hand, which uses up nothing of what the policy allows."""

from __future__ import annotations

from pathlib import Path

import click

from strandline.cli.app.launch import Request, launching
from strandline.cli.app.options import (
    show_examples,
    take_engine,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.views.announcer import create_announcer
from strandline.run.history.records import find_last
from strandline_api.status.enums import Trigger


@click.command("retry", epilog=show_examples("strandline retry pipeline.yaml"))
@take_manifest
@take_volume
@take_engine
@take_json
def retry(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    engine: str | None,
    address: str | None,
    workers: int | None,
    after: str | None,
    as_json: bool,
) -> int:
    """Make one attempt at FILE now, whatever its `retry` says.

    It goes on where the last attempt stopped, and none follows it. Refused while the pipeline
    runs.
    """
    request = Request(file, settings, volume, engine, address, workers, after, as_json)
    announcer = create_announcer(is_json=as_json)
    with announcer.failing(), launching(request) as (_, folder, driver):
        if find_last(folder) is None:
            announcer.announce("no attempt has been made yet; this is the first")
        ended = driver.attempt(Trigger.MANUAL)
        announcer.attempt_ended(ended)
        return ended.outcome.exit_code
