"""Finds storage that sources share, and a chunk size that avoids long chains of sources.

Sources that share storage belong to the same group. A chain of overlapping sources can therefore
join most sources into a single group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pydantic import ValidationError

from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.setup import set_up_stage
from strandline.plan.errors import StrandlineError
from strandline.plan.partition import (
    ChainFinding,
    LargestGroup,
    find_chunk,
    find_largest,
    find_usual_size,
)
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import EndStage, Source, SourceStage
from strandline_api.outcome.exit_codes import ExitCode

MAX_GROUP = 1000  # for source stages without a `max_group` parameter
_MOST_LOOKED_AT = 5000  # maximum number of sources read to detect chaining
_LOOK_SECONDS = 2.0


class PartitionError(StrandlineError):
    """Raised if sources can't be grouped. The message has the reason."""

    exit_code = ExitCode.BAD_SPEC


def find_chaining(plan: PipelinePlan, now: Callable[[], float]) -> ChainFinding | None:
    """Return a finding if most of the first sources form one group, or None.

    Lists a few thousand sources, for a few seconds. Return None if the listing fails, because the
    run lists all sources and reports the error.

    Args:
        now: monotonic clock, in seconds.
    """
    if not plan.partitioned_by:
        return None
    try:
        return _look_at_sources(plan, now)
    except Exception:  # noqa: BLE001 - see above; a source stage may be a user's
        return None


def _look_at_sources(plan: PipelinePlan, now: Callable[[], float]) -> ChainFinding | None:
    stage = set_up_stage(plan.source).stage
    assert isinstance(stage, SourceStage)  # checked when the plan is built
    until = now() + _LOOK_SECONDS
    sources: list[Source] = []
    for source in stage.list_sources():
        if len(sources) == count_sample(plan) or now() > until:
            return describe_chaining(plan, sources, is_whole=False)
        sources.append(source)
    return describe_chaining(plan, sources, is_whole=True)


def count_sample(plan: PipelinePlan) -> int:
    """Return the number of sources to read to detect chaining.

    The sample has more than twice as many sources as a group may have. If a group contains most of
    the sample, the group is too large, regardless of the remaining sources.
    """
    return min(2 * bound_groups(plan) + 1, _MOST_LOOKED_AT)


def describe_chaining(
    plan: PipelinePlan, sources: Sequence[Source], *, is_whole: bool
) -> ChainFinding | None:
    """Return a finding if most of the given sources form one chain, or None.

    Args:
        is_whole: whether the sources are the whole listing.
    """
    ends = plan.partitioned_by
    shares = [set(list_shares(ends, source)) for source in sources]
    largest, most = find_largest(shares), bound_groups(plan)
    # In a sample, require a group above the limit: a small group may contain most of the first
    # sources, but few of all sources.
    is_known = largest.holds_most if is_whole else largest.size > most
    if not (largest.is_chain and is_known):
        return None
    for name, end in ends.items():
        found = _try_chunks(ends, name, sources, most)
        if found is not None:
            at = "spec.source" if end is plan.source.stage else "spec.sink"
            return ChainFinding(largest, is_whole, f"{at}.with.{_name_field(end)}", *found)
    return ChainFinding(largest, is_whole)


def _try_chunks(
    ends: dict[str, EndStage], name: str, sources: Sequence[Source], most: int
) -> tuple[int, int] | None:
    """Return a chunk size that avoids large groups, and the resulting size of the largest group.

    Return None if there is no such chunk size.
    """
    end = ends[name]
    chunk = getattr(end.params, end.chunked_by, None) if end.chunked_by else None
    if not isinstance(chunk, int) or chunk < 1:
        return None
    others = {other: stage for other, stage in ends.items() if other != name}
    fixed = [set(list_shares(others, source)) for source in sources]

    def measure(chunk: int) -> LargestGroup | None:
        try:
            changed = _set_chunk(end, chunk)
        except ValidationError:  # the size is outside the parameter's bounds
            return None
        own = (list_shares({name: changed}, source) for source in sources)
        return find_largest([{*names, *more} for names, more in zip(fixed, own, strict=True)])

    found = find_chunk(chunk, find_usual_size(fixed), most, measure)
    return None if found is None else (found[0], found[1].size)


def _set_chunk(end: EndStage, chunk: int) -> EndStage:
    values = {**end.params.model_dump(by_alias=True), _name_field(end): chunk}
    return type(end)(type(end.params).model_validate(values))


def _name_field(end: EndStage) -> str:
    """Return the name of the chunk parameter in a manifest."""
    assert end.chunked_by is not None  # checked by `_try_chunks`
    return type(end.params).model_fields[end.chunked_by].alias or end.chunked_by


def list_shares(ends: dict[str, EndStage], source: Source) -> Iterator[str]:
    """Yield the names of the storage that a source shares; groups are named after them.

    The stage is part of the name, because two stages may use the same name.
    """
    for stage, end in ends.items():
        try:
            names = _check_names(end.partition_indices(source))
        except Exception as error:
            why = explain_error(error)
            msg = f"stage {stage!r} can't determine the partitions of source {source.key!r}: {why}"
            raise PartitionError(msg) from error
        yield from (f"group/{stage}/{name}" for name in names)


def bound_groups(plan: PipelinePlan) -> int:
    """Return the maximum number of sources in a group."""
    most: int = getattr(plan.source.stage.params, "max_group", MAX_GROUP)
    return most


def _check_names(answer: object) -> list[str]:
    # Reject a string, which is iterable too: its letters would join all sources that have a letter
    # in common.
    names = None if isinstance(answer, str) or not isinstance(answer, Iterable) else list(answer)
    if names is None or not all(isinstance(name, str) for name in names):
        msg = "partition_indices must return a list of names"
        raise TypeError(msg)
    return names
