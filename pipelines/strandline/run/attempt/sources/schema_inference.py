"""Infers the schema of a run from some of the sources, once for a ledger.

The ledger stores the inferred schema, so later attempts and later sources use the same schema. This
module must not depend on the file formats or on the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from heapq import nsmallest
from typing import ClassVar

import pyarrow as pa

from strandline.data.tables.schema_reader import SchemaReader
from strandline.data.tables.schemas import (
    SchemaClashError,
    format_schema,
    list_widened,
    pack_schema,
    unify,
    unpack_schema,
)
from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.setup import set_up_stage
from strandline.engine.core.ports import ADMIT_BATCH, Listing
from strandline.ledger.records.entries import Change
from strandline.ledger.store.recipes import read_changes, read_recipes
from strandline.ledger.store.store import Store
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task
from strandline_api.outcome.exit_codes import ExitCode

_META = "schemas"
_SINCE = "schemas since"  # first attempt of the recipe with these schemas
# Maximum number of sources to try for each source that is needed. Without this limit, the run would
# read all unreadable or empty sources before it begins.
_TRIED = 10
# Maximum number of sources from which the sample is chosen. A sample of all sources would be
# better, but listing millions of sources before reading the first would take too long.
_LISTED = 10_000


class SchemaInferenceError(StrandlineError):
    """Raised if the sources have no schema in common, or if all tried sources are unreadable."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


def settle_schema(
    plan: PipelinePlan,
    store: Store | None,
    list_sources: Callable[[], Listing],
    tell: Callable[[str], None],
    must_stop: Callable[[], bool],
    *,
    renews: bool = False,
) -> PipelinePlan:
    """Return a plan with its reader's schema. Infer the schema if necessary.

    Args:
        renews: whether finished sources are replaced if the source or the reader has changed. If
            so, a new schema is inferred after such a change.
        store: stores the schema, or None to infer a schema for this run only.
        list_sources: starts a listing.
        tell: reports the inferred schema and the widened columns.

    Raises:
        SchemaInferenceError: if no schema can be inferred.
    """
    reader = _find_inferring(plan)
    if reader is None:
        return plan
    is_new = renews and store is not None and _has_other_rows(plan, store)
    if store is not None and not is_new and (settled := recall_schema(plan, store)) is not plan:
        return settled
    if store is not None and reader.is_sampled and _has_own_types(plan, store):
        return plan
    with closing(list_sources()) as listing:
        schema = _infer(plan.stages[0], listing, tell, must_stop)
    if schema is None:  # no source was listed, or a stop was requested
        return plan
    if store is not None:
        kept = store.read_meta(_META) or {}
        meta = {_META: kept | {plan.stages[0].name: pack_schema(schema)}}
        store.write(Change(meta=meta | {_SINCE: read_recipes(store)[-1].since}))
    return _put(plan, reader, schema)


def recall_schema(plan: PipelinePlan, store: Store) -> PipelinePlan:
    """Return a plan with the reader's schema that was inferred for the finished sources."""
    reader = _find_inferring(plan)
    # Ignore the stored schema if no source is finished, because no output has this schema.
    # Corrected data or a restarted pipeline may have another schema.
    if reader is None or not store.count()["finished"]:
        return plan
    packed = (store.read_meta(_META) or {}).get(plan.stages[0].name)
    return plan if packed is None else _put(plan, reader, unpack_schema(packed))


def _has_own_types(plan: PipelinePlan, store: Store) -> bool:
    """Return True if the ledger has finished sources but no schema, as in releases up to 0.1."""
    is_kept = plan.stages[0].name in (store.read_meta(_META) or {})
    return not is_kept and store.count()["finished"] > 0


def _has_other_rows(plan: PipelinePlan, store: Store) -> bool:
    """Return True if the source or the reader has changed since the schema was inferred."""
    changes = read_changes(store)
    first = changes and changes.find_first(store.read_meta(_SINCE) or 0)
    return first in {plan.source.name, plan.stages[0].name}


def describe_schema(plan: PipelinePlan) -> str | None:
    """Describe the schema that the first stage reads. Return None if each task has its own.

    If the schema will be inferred during the run, the description says so.
    """
    stage = plan.stages[0].stage
    if not isinstance(stage, SchemaReader):
        return None
    if stage.schema is not None:
        return format_schema(stage.schema)
    if not stage.sample_size:
        return None
    if stage.is_sampled:
        return f"inferred when a run begins, from the beginnings of {stage.sample_size} sources"
    return f"inferred from the first sources when a run begins, {stage.sample_size} of them"


def _find_inferring(plan: PipelinePlan) -> SchemaReader | None:
    stage = plan.stages[0].stage
    return stage if isinstance(stage, SchemaReader) and stage.sample_size else None


def _put(plan: PipelinePlan, reader: SchemaReader, schema: pa.Schema) -> PipelinePlan:
    first = replace(plan.stages[0], stage=reader.settle(schema))
    return replace(plan, stages=(first, *plan.stages[1:]))


def _infer(
    plan: StagePlan, listing: Listing, tell: Callable[[str], None], must_stop: Callable[[], bool]
) -> pa.Schema | None:
    """Infer a schema that covers the first sources. Return None if no source yields a schema."""
    reader = set_up_stage(plan).stage
    assert isinstance(reader, SchemaReader)  # checked by the callers
    whole: pa.Schema | None = None
    schemas: list[pa.Schema] = []
    failures: list[str] = []
    find = _find_spread if reader.is_sampled else _find_first
    for source in find(listing, reader, must_stop):
        if must_stop():
            return None
        if len(schemas) == reader.sample_size:
            break
        try:
            task = Task(source.data, source.meta)
            schema = (
                reader.sample_schema(task) if reader.is_sampled else reader.infer_schema([task])
            )
            if schema is None:
                continue
            whole = schema if whole is None else unify(whole, schema)
        except SchemaClashError as error:
            raise _explain_clash(plan.name, source, error, reader) from error
        except Exception as error:  # noqa: BLE001 - it fails in the run, where it is told and kept
            failures.append(f"{source.key}: {explain_error(error)}")
            continue
        schemas.append(schema)
    if whole is None:
        if failures and not reader.is_sampled:  # otherwise the run reports the failures
            msg = f"stage {plan.name!r} can't infer a schema: no source can be read; {failures[0]}"
            raise SchemaInferenceError(msg)
        return None
    _tell(plan.name, schemas, whole, tell, is_asked=not reader.is_sampled)
    return whole


def _find_first(
    listing: Listing, reader: SchemaReader, must_stop: Callable[[], bool]
) -> list[Source]:
    """Return the first sources by key, because the order of a folder differs between machines."""
    first, count = list[Source](), reader.sample_size
    while not (listing.is_ended or must_stop()):
        first += listing.draw_sources(ADMIT_BATCH)
        # `nsmallest` keeps few sources in memory, even if the listing has millions.
        first = nsmallest(count * _TRIED, first, key=lambda source: source.key)
    return first


def _find_spread(
    listing: Listing, reader: SchemaReader, must_stop: Callable[[], bool]
) -> list[Source]:
    """Return sources of all kinds, sources spread evenly over all keys, and spares."""
    listed, count = list[Source](), reader.sample_size
    while len(listed) < _LISTED and not (listing.is_ended or must_stop()):
        listed += listing.draw_sources(ADMIT_BATCH)
    listed.sort(key=lambda source: source.key)
    chosen = {at * (len(listed) - 1) // max(1, count - 1) for at in range(count)} if listed else ()
    # Rare kinds would be missed otherwise. The last assignment of a kind wins: its first source.
    kinds = [_find_kind(reader, source) for source in listed]
    of_kind = {kind: at for at, kind in reversed([*enumerate(kinds)])}
    sampled = dict.fromkeys([*sorted(of_kind.values()), *sorted(chosen)])
    others = [source for at, source in enumerate(listed) if at not in sampled]
    # Spares replace unreadable sources.
    return [listed[at] for at in sampled] + others[: count * (_TRIED - 1)]


def _find_kind(reader: SchemaReader, source: Source) -> str:
    try:
        return reader.find_kind(Task(source.data, source.meta))
    except Exception:  # noqa: BLE001 - the source fails in the run, with a message
        return ""


def _explain_clash(
    stage: str, source: Source, error: SchemaClashError, reader: SchemaReader
) -> SchemaInferenceError:
    before, here = error.kinds
    other = (
        (", or set `schema: perTask` to infer the types of each task") if reader.is_sampled else ""
    )
    return SchemaInferenceError(
        f"stage {stage!r} can't infer a schema: the column {error.column!r} is {here} in "
        f"{source.key} and {before} in earlier sources; declare it under `schema`{other}"
    )


def _tell(
    stage: str,
    schemas: list[pa.Schema],
    whole: pa.Schema,
    tell: Callable[[str], None],
    *,
    is_asked: bool,
) -> None:
    count = f"{len(schemas)} sources" if len(schemas) > 1 else "the first source"
    if is_asked:  # otherwise, only `strandline plan` shows the schema
        tell(f"{stage}: the schema, inferred from {count}: {format_schema(whole)}")
    widened = {path for schema in schemas for path in list_widened(schema, whole)}
    if widened:
        tell(f"{stage}: whole numbers are read as fractions in: {', '.join(sorted(widened))}")
