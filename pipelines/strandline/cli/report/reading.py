"""Reads what a report says: ledger, records of attempts, samples, and what is published.

It changes nothing and may be run beside a driver; what goes away meanwhile counts as not there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from strandline.cli.app.ledger_access import looking
from strandline.cli.report.facts import Cut, LatestFacts, LedgerFacts, RunFacts, StageFacts
from strandline.cli.report.panels import read_artifacts
from strandline.cli.views.attempt import read_live, view_attempt
from strandline.cli.views.snapshot import parse_json
from strandline.ledger.entries import FailureRecord
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.history.records import read_chain
from strandline.run.history.sampling import read_samples
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import find_pinned, resolve
from strandline.storage.volume.published import Publication

ATTEMPTS = 30
FAILURES = 100
MARKS = 20
FILES = 20
COUNTERS = 20
NUMBERS = ("tasks_in", "tasks_out", "filtered", "failed", "rows_in", "rows_out", "seconds")
Item = TypeVar("Item")


def read_facts(plan: PipelinePlan, folder: PipelineFolder, time: float) -> RunFacts:
    """All that a report of a pipeline says.

    Args:
        time: now, in seconds since the epoch.

    Raises:
        LedgerError: there is a ledger, and it can't be read.
        VolumeError: the folder can't be looked at.
    """
    records = read_chain(folder)
    views = tuple(view_attempt(folder, record, time) for record in records[-ATTEMPTS:])
    shown = read_live(folder, views[-1], time) if views else None
    samples = {view.record.number: read_samples(folder, view.record.number) for view in views}
    published = resolve(folder) if folder.path.is_dir() else None
    return RunFacts(
        pipeline=f"{plan.namespace}/{plan.name}",
        run=plan.run_id,
        time=time,
        folder=str(folder.path),
        ledger=_read_ledger(folder),
        attempts=Cut(views, len(records)),
        latest=_describe_latest(folder, published) if published else None,
        samples={number: found for number, found in samples.items() if found},
        artifacts=read_artifacts(plan, published),
        live=None if shown is None else parse_json(shown),
    )


def _read_ledger(folder: PipelineFolder) -> LedgerFacts | None:
    data = folder.ledger / "data.mdb"
    if not (data.exists() and data.stat().st_size):
        return None
    with looking(folder) as store:
        counts = store.count()
        failures, failed_in = _read_failures(store)
        parked = (entry for _, entry in store.list_parked())
        marks = (entry for _, entry in store.list_marks())
        return LedgerFacts(
            size=data.stat().st_blocks * 512,
            listed=store.read_meta("listed"),
            finished=counts["finished"],
            failed_in=failed_in,
            failures=failures,
            parked=_cut(parked, FAILURES, counts["quarantined"]),
            inflight=_cut(marks, MARKS, counts["inflight"]),
        )


def _read_failures(store: Store) -> tuple[Cut[FailureRecord], Mapping[str, int]]:
    """The first failures, and how many there are in each stage: all are looked at, few are kept."""
    kept: list[FailureRecord] = []
    failed_in: Counter[str] = Counter()
    for _, entry in store.list_failures():
        failed_in[entry.stage] += 1
        if len(kept) < FAILURES:
            kept.append(entry)
    return Cut(tuple(kept), failed_in.total()), dict(failed_in.most_common())


def _cut(items: Iterable[Item], limit: int, count: int) -> Cut[Item]:
    return Cut(tuple(islice(items, limit)), count)


def _describe_latest(folder: PipelineFolder, published: Publication) -> LatestFacts:
    facts = published.facts
    time = facts.get("time")
    sizes = ((name, entry.size) for name, entry in sorted(published.files.items()))
    pinned = find_pinned(folder)
    return LatestFacts(
        name=published.place.name,
        attempt=published.attempt,
        time=float(time) if isinstance(time, int | float) else None,
        is_final=facts.get("isFinal") is True,
        is_pinned=pinned is not None and pinned.place == published.place,
        files=_cut(sizes, FILES, len(published.files)),
        stages=tuple(_read_stages(published)),
    )


def _read_stages(published: Publication) -> Iterable[StageFacts]:
    try:
        metrics = json.loads((published.path / "metrics.json").read_bytes())
    except (OSError, ValueError):  # removed meanwhile, or written by another hand
        return
    stages = metrics.get("stages") if isinstance(metrics, dict) else None
    for name, said in (stages if isinstance(stages, dict) else {}).items():
        if isinstance(said, dict):
            numbers = {key: _number(said.get(key)) for key in NUMBERS}
            yield StageFacts(str(name), numbers, _cut_counters(said.get("counters")))


def _cut_counters(said: Any) -> Cut[tuple[str, int]]:  # noqa: ANN401 - JSON
    known = said.items() if isinstance(said, dict) else ()
    counters = [(str(name), number) for name, number in known if isinstance(number, int)]
    counters.sort(key=lambda counter: -counter[1])
    return _cut(counters, COUNTERS, len(counters))


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None
