"""Runs a plan without a volume. There is no permanent ledger, so the run can't be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from strandline.engine.core.ports import Control, Ending, Listing
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.session import LedgerSession, opened_new
from strandline.ledger.records.entries import FailureRecord
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import SourceStage
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import make_engine
from strandline.run.attempt.failures import group_failures
from strandline.run.attempt.folder.takeover import TakenFolder
from strandline.run.attempt.outcome import AttemptResult, conclude_attempt
from strandline.run.attempt.phases.order import WORKING, advance
from strandline.run.attempt.phases.schema import find_settled
from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.attempt.sources.partitions import open_source
from strandline.run.insight.records import TABLE
from strandline.run.release.gatherer import Gatherer
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.outputs.disk.temporary import owned_folder
from strandline.storage.outputs.ownership import read_owner, refuse_other
from strandline.storage.outputs.ports import OutputLocation
from strandline.storage.outputs.remote import resolve_location
from strandline.storage.volume.inflight import InFlightTable
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.spec.policy import Quarantine


def run_untracked(config: AttemptConfig, control: Control) -> AttemptResult:
    """Run a plan whose outputs have their own location.

    Raises:
        SpecError: if the plan names no location for its outputs, or requires a ledger.
        PlaceTakenError: if another pipeline owns the location.
    """
    if config.publishing is not None:
        message = "publish.require needs a ledger, but this run has none"
        raise SpecError((Problem("spec.publish", message, "name a volume"),))
    start = control.now()
    source, listing = open_source(config.plan)
    location = _require_output(config.plan)
    refuse_other(location, read_owner(location), None)
    if config.plan.gathering:
        ending = _run_aside(config, (source, listing), control, location)
    else:
        plan = find_settled(config, control, None)
        ending = make_engine(config, OutputLocation(location)).run(plan, listing, None, control)
    dead = sum(each.dead for each in ending.counts.values())
    result = conclude_attempt(config, source, ending, was_stopped=control.must_stop(), dead=dead)
    failures = [FailureRecord(each.key, 0, each.stage, each.message, 1) for each in ending.failures]
    return replace(
        result,
        output=location,
        seconds=control.now() - start,
        failures=tuple(failures),
        failure_groups=group_failures(failures),
    )


def _run_aside(
    config: AttemptConfig, lists: tuple[SourceStage, Listing], control: Control, location: str
) -> Ending:
    """Run with a temporary ledger, and write the artifacts next to the outputs."""
    config = replace(config, quarantine=Quarantine())
    with take_aside(location, control.heartbeat) as held:
        gatherer = Gatherer(
            held.folder, config.plan.gathering, held.session, control.heartbeat, control.note
        )
        state = AttemptState(config, control, control.now(), *lists, held, gatherer, config.plan)
        state = advance(state, WORKING)
        gatherer.gather(is_whole=True)
        gatherer.put_beside(location)
        gatherer.check()
    return require(state.ending)


def _require_output(plan: PipelinePlan) -> str:
    if plan.output is not None:
        return resolve_location(plan.output)
    sink = plan.stages[-1]
    if "path" in type(sink.stage.params).model_fields:
        message = "required because there is no volume to write to"
        hint = "or call `run` with a `checkpoint_path`"
        raise SpecError((Problem("spec.sink.with.path", message, hint),))
    # Without a parameter `path`, a user's own sink always writes to the volume.
    message = f"required because the sink {sink.name!r} has no parameter `path`"
    hint = "the outputs are written to that folder"
    raise SpecError((Problem("checkpoint_path", message, hint),))


@contextmanager
def take_aside(location: str, heartbeat: Heartbeat) -> Iterator[TakenFolder]:
    """Provide a temporary ledger until the block ends. Gathering needs a ledger.

    Args:
        location: output location of the sink.
    """
    with owned_folder("aside") as path:
        folder, uid = PipelineFolder(path), "untracked"
        make_folder(folder.attempt(1))
        make_folder(folder.ledger)
        session = LedgerSession(folder.ledger, 1, uid, heartbeat)
        with opened_new(folder.ledger) as store:
            store.take_lease({"attempt": 1, "uid": uid})
        with closing(InFlightTable(folder.attempt(1) / TABLE)) as table:
            yield TakenFolder(folder, session, location, table, uid)
