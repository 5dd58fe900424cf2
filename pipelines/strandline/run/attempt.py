"""One attempt: take the ledger over, run the engine, say how it ended.

The order matters: whoever still writes is gone before the lease is taken, the lease is taken
before anything is swept, and the ledger is handed back whatever happens.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from strandline.engine.inline import run_inline, set_up_stage
from strandline.engine.pools import RayOptions
from strandline.engine.ports import Control, Ending, KeeperLedger, Listing, NoLedger, Progress
from strandline.ledger.errors import LedgerError
from strandline.ledger.keeper import Keeper
from strandline.ledger.lease import (
    Claim,
    Claimant,
    OnChange,
    end_attempt,
    open_attempt,
    refuse_live_driver,
)
from strandline.ledger.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Counts
from strandline.plan.stage import OnRemoved, Source, SourceStage
from strandline.run.outcome import Outcome, judge
from strandline.storage.errors import VolumeError
from strandline.storage.filesystems import explain_unsafe, read_mounts
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.locks import (
    Process,
    find_process,
    hold_exclusive,
    hold_shared,
    read_boot_id,
)
from strandline.storage.remote import open_outputs
from strandline_api.documents import SpecError
from strandline_api.problems import Problem

ORPHAN_SECONDS = 30.0


class ListingError(StrandlineError):
    """The sources can't be listed; the message says why."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, as opposed to what.

    Attributes:
        volume: folder that holds ledger and attempts; None: no ledger, nothing is tracked.
        engine: `ray` or `inline`.
        address: of an existing Ray cluster; None starts a local one.
        workers: workers of the local Ray, None: one a core.
        on_change: what to do when the pipeline has changed.
    """

    volume: Path | None
    engine: str = "ray"
    address: str | None = None
    workers: int | None = None
    on_change: OnChange = OnChange.FAIL


@dataclass(frozen=True, slots=True)
class _Held:
    """A ledger that was taken over for an attempt, and where its output goes."""

    folder: PipelineFolder
    attempt: int
    uid: str
    place: str


def run_attempt(
    plan: PipelinePlan,
    options: Options,
    must_stop: Callable[[], bool] = lambda: False,
    report: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Run a plan once, as far as it goes.

    Raises:
        SpecError, LedgerError, VolumeError and the rest of `outcome.code_of`: the attempt could
            not begin or not go on; what is finished is kept.
    """
    begun = time.monotonic()
    control = Control(must_stop, report, time.monotonic)
    source, listing = open_source(plan)
    if options.volume is None:
        attempt, place = 0, _require_output(plan)
        ending = _run_untracked(plan, listing, options, control)
    else:
        folder = PipelineFolder.of(options.volume, plan.namespace, plan.name)
        place = plan.output or str(folder.output)
        with _take_over(plan, folder, options, place) as held:
            attempt = held.attempt
            ending = _run_tracked(plan, listing, options, control, held)
    code, message = judge(ending, was_stopped=must_stop())
    listed = Counts(tasks_out=ending.listed, counters=source.counters)
    return Outcome(
        code=code,
        message=message,
        attempt=attempt,
        total=ending.listed if ending.is_listed else None,
        standing=ending.standing,
        counts={plan.source.name: listed, **ending.counts},
        output=place,
        seconds=time.monotonic() - begun,
        incidents=tuple(ending.incidents),
    )


def open_listing(plan: PipelinePlan) -> Listing:
    """The plan's sources as a stream of batches."""
    return open_source(plan)[1]


def open_source(plan: PipelinePlan) -> tuple[SourceStage, Listing]:
    """The source stage, set up, and what it lists.

    Raises:
        StageSetupError: it can't be set up.
    """
    stage = set_up_stage(plan.source).stage
    assert isinstance(stage, SourceStage)  # checked when the plan was built
    return stage, Listing(_list_sources(plan.source.name, stage))


def _list_sources(name: str, stage: SourceStage) -> Iterator[Source]:
    """The stage's sources, with what goes wrong put into a sentence."""
    is_empty = True
    try:
        for source in stage.list_sources():
            is_empty = False
            yield source
    except OSError as error:
        msg = f"the sources can't be listed: {error}"
        raise ListingError(msg) from error
    if is_empty:
        # An output may be deleted because its source vanished: never because a mount is missing.
        problem = Problem("spec.source", f"{name!r} lists no sources; check its paths")
        raise SpecError((problem,))


def _run_untracked(
    plan: PipelinePlan, listing: Listing, options: Options, control: Control
) -> Ending:
    place = _require_output(plan)
    if options.engine == "inline":
        return run_inline(plan, listing, NoLedger(), open_outputs(place), control)
    from strandline.engine.ray_driver import run_ray  # noqa: PLC0415 - `inline` works without Ray

    ray_options = RayOptions(options.address, options.workers, place)
    return run_ray(plan, listing, None, ray_options, control)


def _require_output(plan: PipelinePlan) -> str:
    if plan.output is None:
        problem = Problem("spec.sink.with.path", "required where there is no volume to write to")
        raise SpecError((problem,))
    return plan.output


@contextmanager
def _take_over(
    plan: PipelinePlan, folder: PipelineFolder, options: Options, place: str
) -> Iterator[_Held]:
    """Open the ledger for a new attempt, and hand it back in the end."""
    unsafe = explain_unsafe(folder.ledger, read_mounts())
    if unsafe:
        raise VolumeError(unsafe)
    make_folder(folder.ledger)
    claimant = Claimant(uuid.uuid4().hex, read_boot_id(), _find_self(), time.time())
    name = f"{plan.namespace}/{plan.name}"
    claim = Claim(name, plan.run_id, plan.fingerprint, options.on_change)
    with _opened(folder) as store:
        refuse_live_driver(store, claimant, find_process)
        with hold_exclusive(folder.writers_lock, ORPHAN_SECONDS):
            refuse_live_driver(store, claimant, find_process)
            attempt = open_attempt(store, claim, claimant)
            open_outputs(place).sweep()
    try:
        yield _Held(folder, attempt, claimant.uid, place)
    finally:
        with suppress(LedgerError, VolumeError), _opened(folder) as store:
            store.keep_lease(attempt, claimant.uid)
            end_attempt(store, attempt, claimant)


@contextmanager
def _opened(folder: PipelineFolder) -> Iterator[Store]:
    store = Store(folder.ledger)
    try:
        yield store
    finally:
        store.close()


def _run_tracked(
    plan: PipelinePlan, listing: Listing, options: Options, control: Control, held: _Held
) -> Ending:
    if options.engine == "inline":
        return _run_inline(plan, listing, control, held)
    from strandline.engine.ray_driver import run_ray  # noqa: PLC0415 - `inline` works without Ray
    from strandline.engine.ray_ledger import LedgerPlace  # noqa: PLC0415 - the same

    deletes = deletes_vanished(plan)
    ledger = LedgerPlace(held.folder.ledger, held.attempt, held.uid, held.place, deletes)
    ray_options = RayOptions(
        options.address,
        options.workers,
        held.place,
        writer=f"{held.attempt:04d}",
        writers_lock=held.folder.writers_lock,
        keeps_sinks=plan.output is None,
    )
    return run_ray(plan, listing, ledger, ray_options, control)


def _run_inline(plan: PipelinePlan, listing: Listing, control: Control, held: _Held) -> Ending:
    writer = hold_shared(held.folder.writers_lock)
    outputs = open_outputs(held.place, f"{held.attempt:04d}")
    try:
        with _opened(held.folder) as store:
            store.keep_lease(held.attempt, held.uid)
            deletes = deletes_vanished(plan)
            keeper = Keeper(store, outputs, held.attempt, time.monotonic, deletes_vanished=deletes)
            return run_inline(plan, listing, KeeperLedger(keeper), outputs, control)
    finally:
        os.close(writer)


def deletes_vanished(plan: PipelinePlan) -> bool:
    """True where the source says `onRemoved: Delete`."""
    return getattr(plan.source.stage.params, "on_removed", None) is OnRemoved.DELETE


def _find_self() -> Process:
    process = find_process(os.getpid())
    assert process is not None  # this process is alive
    return process
