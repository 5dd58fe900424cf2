"""Gathering by hand, between two attempts: what a run does in the end, for one that was killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.state import read_state
from strandline.ledger.lease import OnChange, refuse_changes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.gather import ARTIFACTS, Artifacts, Gatherer
from strandline.run.attempt.placing import make_claim
from strandline.run.attempt.takeover import held_by_hand, make_claimant, written_alone
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.outputs import digest_file
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import Publication, find_newest


class Done(NamedTuple):
    """What a gathering came to.

    Attributes:
        pieces: that were merged, by stage.
        latest: the newest publication; None where there is none.
        is_new: it was made now.
    """

    pieces: dict[str, int]
    latest: Path | None
    is_new: bool


def gather_by_hand(
    plan: PipelinePlan,
    folder: PipelineFolder,
    on_change: OnChange,
    keep_last: int,
    clock: Callable[[], float],
) -> Done:
    """Gather all there is, and publish the artifacts if they are others than those of `latest`.

    Args:
        clock: wall clock, seconds since the epoch.

    Raises:
        LedgerError: there is no ledger, it does not fit, or a driver is alive.
        MergeError: a stage can't merge.
        VolumeError: the volume can't be written to.
    """
    Store(folder.ledger, readonly=True).close()  # or one would be made where there is none
    claimant = make_claimant()
    claim = make_claim(plan, folder, on_change)
    with written_alone(folder, claimant) as store:
        if refuse_changes(store, claim) and on_change is OnChange.RESTART:
            msg = "the pipeline has changed, and what was gathered is to be made anew; run it"
            raise LedgerError(msg)
        if store.read_meta("lease") is None:
            return Done({}, None, is_new=False)
        with held_by_hand(store, claimant) as (attempt, heart):
            gatherer = Gatherer(folder, plan.gathering, store=store, heart=heart)
            gatherer.gather(is_whole=True)
            gatherer.check()
            return _publish_new(plan, gatherer, store, Moment(attempt, clock()), keep_last)


class Moment(NamedTuple):
    """The attempt for which something is published, and when: seconds since the epoch."""

    attempt: int
    time: float


def _publish_new(
    plan: PipelinePlan, gatherer: Gatherer, store: Store, moment: Moment, keep_last: int
) -> Done:
    folder, merged = gatherer.folder, read_state(store).merged
    pieces = {stage: merged[stage].pieces for stage in plan.gathering if stage in merged}
    with gatherer.artifacts() as artifacts:
        gatherer.check()
        latest = find_newest(folder)
        if not artifacts or (latest is not None and _holds(latest, artifacts)):
            return Done(pieces, latest.path if latest else None, is_new=False)
        made = _publish(plan, folder, store, latest, artifacts, moment)
    retain(folder, keep_last, made)
    return Done(pieces, made.path, is_new=True)


def _publish(
    plan: PipelinePlan,
    folder: PipelineFolder,
    store: Store,
    latest: Publication | None,
    artifacts: Artifacts,
    moment: Moment,
) -> Publication:
    """The latest publication once more, with these artifacts."""
    attempt, time = moment
    files: dict[str, bytes | Path] = dict(artifacts)
    facts: dict[str, JsonValue] = {
        "pipeline": f"{plan.namespace}/{plan.name}",
        "run": plan.run_id,
        "fingerprint": plan.fingerprint.digest,
        "attempt": attempt,
        "time": time,
        "isFinal": False,
        "sources": {"total": None, **_count(store)},
    }
    if latest is not None:
        files |= {one: latest.path / one for one in latest.files if not _is_artifact(one)}
    if latest is not None and latest.attempt == attempt:
        facts = dict(latest.facts) | {"time": time}
    return publish(folder, attempt, files, facts)


def _count(store: Store) -> Mapping[str, int]:
    counts = store.count()
    return {"finished": counts["finished"], "failed": counts["failed"], "skipped": 0}


def _holds(published: Publication, artifacts: Artifacts) -> bool:
    """True where these very artifacts are published."""
    there = {name: entry for name, entry in published.files.items() if _is_artifact(name)}
    if there.keys() != artifacts.keys():
        return False
    return all(there[name].digest == _digest(path) for name, path in artifacts.items())


def _is_artifact(name: str) -> bool:
    return name.startswith(f"{ARTIFACTS}/")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return digest_file(file).hex()
