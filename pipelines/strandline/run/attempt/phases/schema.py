"""Schema: determines the schema of a reader that infers one, before any source is processed."""

from __future__ import annotations

from dataclasses import replace

from strandline.engine.core.ports import Control
from strandline.ledger.access.lease import OnChange
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.phases.state import AttemptState, list_all
from strandline.run.attempt.sources.schema_inference import settle_schema


def settle(state: AttemptState) -> AttemptState:
    """Set the reader's schema from the ledger, or infer a schema.

    Precondition: the attempt processes sources. Dead letters have the schema of their own files.
    """
    if state.is_retrial:
        return state
    with state.held.session.open() as store:
        plan = find_settled(state.config, state.control, store)
    return replace(state, plan=plan)


def find_settled(config: AttemptConfig, control: Control, store: Store | None) -> PipelinePlan:
    """Return the plan of an attempt with a schema. Count the inference as progress of the attempt.

    Args:
        store: stores the schema, or None to infer a schema for this run only.

    Raises:
        SchemaInferenceError: if the sources have no schema in common.
    """

    def must_stop() -> bool:
        control.heartbeat.note_progress()
        return control.must_stop()

    renews = config.on_change is OnChange.REDO
    return settle_schema(
        config.plan, store, lambda: list_all(config), control.note, must_stop, renews=renews
    )
