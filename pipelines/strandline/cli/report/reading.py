"""Reads the facts of a report: ledger, records of attempts, samples, and publications.

The module changes nothing and may run next to a driver; files that disappear count as missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from strandline.cli.app.ledger_access import looking
from strandline.cli.report.facts import (
    Cut,
    Kinds,
    LatestFacts,
    RunFacts,
    RunLedger,
    StageDefinition,
    StageFacts,
)
from strandline.cli.report.panels import read_artifacts
from strandline.cli.views.attempt import read_live, view_attempt
from strandline.cli.views.running.snapshot_json import parse_json
from strandline.data.statistics.request_figures import RequestFigures, read_figures
from strandline.engine.flow.chains import cut_chains
from strandline.ledger.checks.completeness import find_gaps
from strandline.ledger.checks.counts import count_finished, count_sources
from strandline.ledger.output_root import read_output_root
from strandline.ledger.records.entries import FailureRecord, Mark, QuarantinedSource
from strandline.ledger.store.rows import list_failed
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.failures import FailureGroups, view_quarantined
from strandline.run.insight.funnel import Cost, estimate_cost
from strandline.run.insight.records import AttemptRecord, read_chain
from strandline.run.insight.samples import count_done, read_samples
from strandline.run.revise.dead_letters.listing import list_dead_letters
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.latest import find_pinned, resolve
from strandline.storage.volume.published import Publication

ATTEMPTS = 30
FAILURES = 100
EXAMPLES = 3  # limit for examples of each kind of dead letters
MARKS = 20
FILES = 20
SOURCES_LOOKED_AT = 10_000  # with more sources, only `verify` checks the files
COUNTERS = 20
NUMBERS = ("tasks_in", "tasks_out", "filtered", "failed", "rows_in", "rows_out", "seconds")
Item = TypeVar("Item")


def read_facts(
    plan: PipelinePlan,
    folder: PipelineFolder,
    time: float,
    file: Sequence[str] = ("FILE",),
    volume: Sequence[str] = (),
) -> RunFacts:
    """Return all facts for a report of a pipeline.

    Args:
        time: current time, in seconds since the epoch.
        file, volume: command-line words that name the pipeline and its volume.

    Raises:
        LedgerError: the ledger exists but is unreadable.
        VolumeError: the folder can't be read.
    """
    records = read_chain(folder)
    views = tuple(view_attempt(folder, record, time) for record in records[-ATTEMPTS:])
    shown = read_live(folder, views[-1], time) if views else None
    shown_samples = {view.record.number: read_samples(folder, view.record.number) for view in views}
    ledger = _read_ledger(folder)
    requests, costs = _read_work(plan, folder, records)
    published = resolve(folder) if folder.path.is_dir() else None
    return RunFacts(
        pipeline=f"{plan.namespace}/{plan.name}",
        run=plan.run_id,
        time=time,
        folder=str(folder.path),
        ledger=ledger,
        attempts=Cut(views, len(records)),
        latest=_describe_latest(folder, published) if published else None,
        samples={number: found for number, found in shown_samples.items() if found},
        artifacts=read_artifacts(plan, published),
        live=None if shown is None else parse_json(shown),
        fingerprint=plan.fingerprint.digest,
        definition=define_stages(plan),
        chains=tuple(
            tuple(stage.name for stage in chain.stages) for chain in cut_chains(plan.stages)
        ),
        funnel=ledger.counts.stages if ledger and ledger.counts.counted else (),
        requests=requests,
        costs=costs,
        file=tuple(file),
        volume=tuple(volume),
    )


def define_stages(plan: PipelinePlan) -> tuple[StageDefinition, ...]:
    """Return the definitions of a pipeline's stages, with defaults."""
    stages = (plan.source, *plan.stages)
    params = [each.stage.params.model_dump(mode="json", by_alias=True) for each in stages]
    return tuple(
        StageDefinition(each.name, each.use, values)
        for each, values in zip(stages, params, strict=True)
    )


def _read_work(
    plan: PipelinePlan, folder: PipelineFolder, records: Iterable[AttemptRecord]
) -> tuple[Mapping[str, RequestFigures], Mapping[int, Cost]]:
    """Return requests to models, by stage, and the cost of each attempt of a run."""
    cores = {stage.name: stage.cpu for stage in plan.stages}
    counters: dict[str, Counter[str]] = {}
    costs = {}
    for record in records:
        samples = read_samples(folder, record.number) if record.run == plan.run_id else None
        if samples is None or not samples.counts:
            continue
        for name, each in samples.counts.items():
            counters.setdefault(name, Counter()).update(each.counters)
        done = count_done(record, samples)
        costs[record.number] = estimate_cost(
            samples.counts, cores, done, is_cut=record.cause is not None
        )
    figures = {name: read_figures(each) for name, each in counters.items()}
    return {name: each for name, each in figures.items() if each.has_any}, costs


def _read_ledger(folder: PipelineFolder) -> RunLedger | None:
    data = folder.ledger / "data.mdb"
    # If the file is empty, the ledger is still being created.
    if not (data.exists() and data.stat().st_size):
        return None
    with looking(folder) as store:
        sources, finished = count_sources(store), count_finished(store)
        failures, failed_in, failed_by, failures_by_kind = _read_failures(store)
        marks, inflight_of = _read_marks(store)
        progress = store.read_meta("progress") or {}
        quarantine, quarantine_by_kind = _read_quarantine(store)
        dead = finished.dead.total
        location = read_output_root(store) or str(folder.output)
        return RunLedger(
            size=data.stat().st_blocks * 512,
            listed=store.read_meta("listed"),
            finished=sources["finished"],
            finished_by={progress["attempt"]: progress["finished"]} if progress else {},
            counts=finished,
            failed_in=failed_in,
            failed_by=failed_by,
            failures_by_kind=failures_by_kind,
            quarantine_by_kind=quarantine_by_kind,
            dead_by_kind=_read_dead_letters(store, location) if dead else Kinds(),
            inflight_of=inflight_of,
            failures=failures,
            quarantine=quarantine,
            inflight=marks,
            gaps=_list_gaps(store, location),
        )


def _list_gaps(store: Store, location: str) -> tuple[str, ...]:
    """Return the gaps of the data set. If there are too many sources, the files are not checked."""
    # If the outputs are unreachable, the ledger alone still shows most gaps.
    with suppress(StrandlineError):
        if store.count()["finished"] <= SOURCES_LOOKED_AT:
            return tuple(find_gaps(store, open_outputs(location)).list_sentences())
    return tuple(find_gaps(store).list_sentences())


def _read_failures(
    store: Store,
) -> tuple[Cut[FailureRecord], Mapping[str, int], Mapping[int, int], Kinds]:
    """Return the first failures, failure counts by stage and by attempt, and failures by kind."""
    kept: list[FailureRecord] = []
    failed_in: Counter[str] = Counter()
    failed_by: Counter[int] = Counter()
    groups = FailureGroups()
    for _, entry in list_failed(store):
        failed_in[entry.stage] += 1
        failed_by[entry.attempt] += 1
        groups.add(entry)
        if len(kept) < FAILURES:
            kept.append(entry)
    failures = Cut(tuple(kept), failed_in.total())
    kinds = Kinds(groups.list_groups(), groups.others)
    return failures, dict(failed_in.most_common()), failed_by, kinds


def _read_dead_letters(store: Store, location: str) -> Kinds:
    """Return dead letters by kind. Unreadable files are left out, because `verify` reports them."""
    groups = FailureGroups(examples=EXAMPLES)
    with suppress(OSError):
        for letter in list_dead_letters(store, location):
            groups.add(letter)
    return Kinds(groups.list_groups(), groups.others)


def _read_quarantine(store: Store) -> tuple[Cut[QuarantinedSource], Kinds]:
    """Return the first sources in quarantine, and all sources in quarantine by kind."""
    kept: list[QuarantinedSource] = []
    groups, count = FailureGroups(), 0
    for _, entry in store.list_quarantined():
        groups.add(view_quarantined(entry))
        count += 1
        if len(kept) < FAILURES:
            kept.append(entry)
    return Cut(tuple(kept), count), Kinds(groups.list_groups(), groups.others)


def _read_marks(store: Store) -> tuple[Cut[Mark], Mapping[int, int]]:
    """Return the first sources in flight, and the number of sources in flight by attempt."""
    kept: list[Mark] = []
    released_by: Counter[int] = Counter()
    for _, entry in store.list_marks():
        released_by[entry.attempt] += 1
        if len(kept) < MARKS:
            kept.append(entry)
    return Cut(tuple(kept), released_by.total()), released_by


def _cut(items: Iterable[Item], limit: int, count: int) -> Cut[Item]:
    return Cut(tuple(islice(items, limit)), count)


def _describe_latest(folder: PipelineFolder, published: Publication) -> LatestFacts:
    facts = published.facts
    time = facts.get("time")
    sizes = ((name, entry.size) for name, entry in sorted(published.files.items()))
    pinned = find_pinned(folder)
    return LatestFacts(
        name=published.identity.name,
        attempt=published.attempt,
        time=float(time) if isinstance(time, int | float) else None,
        is_final=facts.get("isFinal") is True,
        is_pinned=pinned is not None and pinned.identity == published.identity,
        files=_cut(sizes, FILES, len(published.files)),
        stages=tuple(_read_stages(published)),
    )


def _read_stages(published: Publication) -> Iterable[StageFacts]:
    try:
        metrics = json.loads((published.path / "metrics.json").read_bytes())
    except (OSError, ValueError):  # deleted in the meantime, or not written by Strandline
        return
    stages = metrics.get("stages") if isinstance(metrics, dict) else None
    for name, values in (stages if isinstance(stages, dict) else {}).items():
        if isinstance(values, dict):
            numbers = {key: _number(values.get(key)) for key in NUMBERS}
            yield StageFacts(str(name), numbers, _cut_counters(values.get("counters")))


def _cut_counters(values: Any) -> Cut[tuple[str, int]]:  # noqa: ANN401 - JSON
    known = values.items() if isinstance(values, dict) else ()
    counters = [(str(name), number) for name, number in known if isinstance(number, int)]
    counters.sort(key=lambda counter: -counter[1])
    return _cut(counters, COUNTERS, len(counters))


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None
