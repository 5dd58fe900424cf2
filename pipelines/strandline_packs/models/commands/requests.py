"""`strandline requests`: shows, exports and prunes the request logs of stages with models."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import show_examples, take_json, take_manifest, take_volume
from strandline.cli.views.format import format_bytes, format_count
from strandline.data.statistics.request_figures import format_cost
from strandline.plan.pipeline import PipelinePlan
from strandline.run.manifest.manifest import read_manifest
from strandline_api.notation.quantities import parse_duration
from strandline_packs.models.asking.log.log_folders import LogFolder, find_folder
from strandline_packs.models.asking.spending.account import read_spent

_STORE = "{stage}: the log is at {url}; prune it with a lifecycle rule of the store"


@click.group("requests")
def requests() -> None:
    """Show and prune the logs of requests to models."""


@requests.command(
    "list", epilog=show_examples("strandline requests list pipeline.yaml --volume ./data")
)
@take_manifest
@take_volume
@take_json
def list_requests(file: Path, settings: tuple[str, ...], volume: Path, as_json: bool) -> None:
    """Show the size of each stage's log."""
    plan = read_manifest(file, settings, volume=volume).plan
    shown = [(log, log.measure()) for log in _find_logs(plan, volume)]
    if as_json:
        rows = [
            {"stage": log.stage, "folder": str(log.path), **size._asdict(), **_render_spent(log)}
            for log, size in shown
        ]
        write_line(json.dumps(rows))
        return
    for log, size in shown:
        what = f"{format_count(size.requests)} requests, {format_bytes(size.bytes)}"
        write_line(f"{log.stage}: {what} in {log.path}")
        spent = read_spent(log.path)
        if spent is not None:
            parts = [f"{format_count(spent.requests)} requests"]
            parts.append(f"{format_count(spent.tokens)} tokens")
            if spent.estimated:
                parts.append(f"estimated for {format_count(spent.estimated)}")
            if log.prices is not None:
                parts.append(f"cost {format_cost(spent.price(log.prices))}")
            write_line(f"{log.stage}: spent by all attempts: {', '.join(parts)}")


def _render_spent(log: LogFolder) -> dict[str, Any]:
    spent = read_spent(log.path)
    if spent is None:
        return {}
    shown: dict[str, Any] = {
        "requests": spent.requests,
        "promptTokens": spent.prompt_tokens,
        "completionTokens": spent.completion_tokens,
    }
    if spent.estimated:
        shown["estimatedRequests"] = spent.estimated
    if log.prices is not None:
        shown["cost"] = round(spent.price(log.prices), 6)
    return {"spent": shown}


@requests.command(
    "export", epilog=show_examples("strandline requests export pipeline.yaml --volume ./data")
)
@take_manifest
@take_volume
def export_requests(file: Path, settings: tuple[str, ...], volume: Path) -> None:
    """Write the answers as JSON Lines, each with the digest of its request and its rows' keys.

    The log does not contain the prompts.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    for log in _find_logs(plan, volume):
        for entry in log.read():
            answer = entry.answer
            line = {
                "stage": log.stage,
                "request": entry.digest.hex(),
                "keys": list(entry.keys),
                "time": entry.time,
                "text": answer.text,
                "vector": None if answer.vector is None else answer.vector.tolist(),
                "finish": answer.finish,
                "promptTokens": answer.prompt_tokens,
                "completionTokens": answer.completion_tokens,
                "model": answer.model,
            }
            write_line(json.dumps(line, ensure_ascii=False))


@requests.command(
    "prune",
    epilog=show_examples("strandline requests prune pipeline.yaml --older-than 30d"),
)
@take_manifest
@take_volume
@click.option(
    "--older-than",
    required=True,
    metavar="DURATION",
    callback=lambda _context, _option, text: _read_age(text),
    help="Minimum age, such as 30d or 12h; 0s removes all answers.",
)
def prune_requests(file: Path, settings: tuple[str, ...], volume: Path, older_than: float) -> None:
    """Remove the answers that are older than a duration; later runs request them again.

    Pruning during a run is safe.
    """
    plan = read_manifest(file, settings, volume=volume).plan
    before = time.time() - older_than
    for log in _find_logs(plan, volume):
        write_line(f"{log.stage}: {format_count(log.prune(before))} requests pruned")


def _read_age(text: str) -> float:
    try:
        return 0.0 if text in {"0", "0s"} else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _find_logs(plan: PipelinePlan, volume: Path) -> Iterator[LogFolder]:
    own = locate(plan, volume).path
    for stage in plan.stages:
        found = find_folder(stage.stage, stage.name, own)
        if isinstance(found, str):
            write_line(_STORE.format(stage=stage.name, url=found))
        elif found is not None:
            yield found
