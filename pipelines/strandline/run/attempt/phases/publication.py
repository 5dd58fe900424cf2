"""Publication: merges statistics, lists outputs, and publishes the new state to readers."""

from __future__ import annotations

from dataclasses import replace

from strandline.run.attempt.phases.state import AttemptState, require
from strandline.run.release.file_list import make_index, publish_list
from strandline_api.outcome.exit_codes import ExitCode

# Maximum number of finished sources for which the list of files is written after a request to stop.
# Writing this many takes a fraction of a second.
LISTED_IN_HASTE = 20_000


def gather(state: AttemptState) -> AttemptState:
    """Merge the statistics of all stages. After a request to stop, skip slow work.

    Precondition: the result of the attempt is set.
    """
    state.gatherer.gather(is_whole=not state.was_stopped, is_brief=state.was_stopped)
    return state


def list_files(state: AttemptState) -> AttemptState:
    """Write the list of current data files, and the index of the sink.

    After a request to stop, a long list is left for the next attempt.

    Precondition: shared files are tidy.
    """
    held = state.held
    with held.session.open() as store:
        if state.was_stopped and store.count()["finished"] > LISTED_IN_HASTE:
            return state
        with state.control.heartbeat.trusting():
            index = make_index(state.config.plan.sink, held.location)
            return state.add_incidents(publish_list(store, held.location, held.attempt, index))


def publish(state: AttemptState) -> AttemptState:
    """Publish the state of the attempt. Readers see it only if the requirements are met.

    Raises:
        MergeError: if a stage could not merge its statistics. Everything else is published.

    Precondition: statistics are merged, and outputs are listed.
    """
    result = replace(require(state.result), seconds=state.control.now() - state.start)
    with state.held.session.open() as store:
        result = require(state.publisher).publish_end(result, store)
    state.gatherer.check()
    return replace(state, result=result)


def deliver(state: AttemptState) -> AttemptState:
    """Deliver the outputs.

    Precondition: the pipeline names a target, and the attempt is complete.
    """
    config, result = state.config, require(state.result)
    if config.deliver is None or result.code is not ExitCode.COMPLETE:
        return state
    with state.control.heartbeat.trusting():
        where = config.deliver(state.held.session)
    return replace(state, result=replace(result, message=f"{result.message}; {where}"))
