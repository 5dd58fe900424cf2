"""Checks a spec and builds the plan: finds classes, parses parameters, rejects impossible shapes.

The checks find all mistakes that are visible before a run, and report them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from strandline.plan.fingerprint import compute_fingerprint
from strandline.plan.pipeline import BroughtCode, PipelinePlan, StagePlan
from strandline.plan.stages.columns import find_missing, trace_columns
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.registry import (
    MissingModuleError,
    UnknownStageError,
    find_stage,
    list_registered,
)
from strandline.plan.stages.stage import Params, Shape, Stage
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.documents.validation import problems_of
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.spec.work import SinkWork, SourceWork, StageWork

NOTHING = BroughtCode()


def plan_spec(pipeline: CurationPipeline, brought: BroughtCode = NOTHING) -> PipelinePlan:
    """Return the plan of a parsed `CurationPipeline`, whose code must already be importable.

    Raises:
        SpecError: lists every problem with its path in the YAML.
    """
    problems: list[Problem] = []
    found: list[StagePlan] = []
    for at, item in pipeline.spec.items.items():
        stage = _create_stage(f"spec.{at}", item, problems, brought.hint)
        if stage is not None:
            found.append(plan_stage(item, stage, item.use))
    if problems:
        raise SpecError(tuple(problems))
    plans, spec = tuple(found), pipeline.spec
    metadata = pipeline.metadata
    names = metadata.namespace, metadata.name
    plan = check_plan(*names, plans[0], plans[1:], spec.run_id, brought.parts)
    # The sink's own path takes precedence over the output URL in the spec's storage section.
    return replace(plan, output=plan.output or spec.storage.output.url)


def plan_stage(item: SourceWork, stage: Stage, use: str) -> StagePlan:
    """Return the plan of a stage from its item in the spec.

    Args:
        use: name of the stage in the item.
    """
    stage.planned_name = item.name
    return StagePlan(
        name=item.name,
        use=use,
        stage=stage,
        cpu=item.resources.cpu,
        gpu=item.resources.gpu,
        memory=item.resources.memory_bytes,
        custom=dict(item.resources.custom),
        min_workers=item.workers.min,
        max_workers=item.workers.max,
        batch_size=item.batch_size if isinstance(item, SinkWork) else 1,
        group=item.group if isinstance(item, StageWork) else None,
        runtime_env=dict(item.runtime_env),
        max_age=item.workers.max_age_seconds,
        max_memory=item.workers.max_memory_bytes,
        timeout=item.timeout_seconds if isinstance(item, SinkWork) else None,
        isolate=isinstance(item, SinkWork) and item.isolate,
        on_error=item.on_error if isinstance(item, StageWork) else "fail",
        tolerates=item.tolerate_rows if isinstance(item, StageWork) else None,
        has_cut=isinstance(item, StageWork) and item.keep,
        # A percentage limit needs the number of rows of each source that reached the stage.
        is_metered=isinstance(item, StageWork) and isinstance(item.tolerate_rows, str),
    )


def check_plan(
    namespace: str,
    name: str,
    source: StagePlan,
    stages: Sequence[StagePlan],
    run_id: str = "first",
    code: Mapping[str, Any] | None = None,
) -> PipelinePlan:
    """Check the stages, given in order with the sink last, and return their plan.

    Args:
        code: see `compute_fingerprint`.

    Raises:
        SpecError: a shape that can't be resumed, a misplaced source or sink, a name used twice.
    """
    named = [("spec.source", source)]
    named += [(f"spec.stages[{index}]", plan) for index, plan in enumerate(stages[:-1])]
    named += [("spec.sink", stages[-1])] if stages else []
    problems = [Problem(at, message) for at, plan in named for message in _find_faults(at, plan)]
    names = [plan.name for _, plan in named]
    problems += [
        Problem(at, f"the name {plan.name!r} is used twice", "give one of them a `name`")
        for index, (at, plan) in enumerate(named)
        # Report only the second use of a name.
        if plan.name in names[:index]
    ]
    if not stages:
        problems.append(Problem("spec.sink", "required: a pipeline must end with a sink"))
    # The following checks assume stages with valid shapes in valid positions.
    problems += [] if problems else _find_partition_faults(source, stages)
    problems += [] if problems else _find_cut_faults(named)
    problems += [] if problems else _find_missing_columns(named)
    problems += [] if problems else _find_conflicts(named)
    if problems:
        raise SpecError(tuple(problems))
    parts = {plan.name: (plan.use, plan.stage, plan.group) for plan in (source, *stages)}
    output = getattr(stages[-1].stage.params, "path", None)
    fingerprint = compute_fingerprint(parts, code)
    streamed = tuple(mark_streaming(stages))
    # Stages open the files of the source, so they need the same store options.
    if stores := _list_stores(source):
        source = replace(source, stores=stores)
        streamed = tuple(replace(plan, stores=stores) for plan in streamed)
    return PipelinePlan(namespace, name, source, streamed, fingerprint, run_id, output)


def _list_stores(source: StagePlan) -> Mapping[str, Any]:
    params = source.stage.params  # a stage may define any model as its parameters
    return params.list_stores() if isinstance(params, Params) else {}


def mark_streaming(stages: Sequence[StagePlan]) -> Iterator[StagePlan]:
    """Yield the stages, marked with whether yielded tasks are passed on before a call ends."""
    for index, plan in enumerate(stages):
        # A stage that joins groups must first know how many slots a fan-out has. A stage that
        # gathers state yields one piece per task, so such a stage needs exactly one event per task.
        joins = any(later.group is not None for later in stages[index + 1 :])
        is_single = plan.shape is Shape.TASK and not plan.gathers and not plan.cut_of
        streams = is_single and not joins
        yield plan if plan.streams == streams else replace(plan, streams=streams)


def _create_stage(at: str, item: SourceWork, problems: list[Problem], hint: str) -> Stage | None:
    try:
        stage_class = find_stage(item.use)
    except MissingModuleError as error:
        problems.append(Problem(f"{at}.use", str(error), hint))
        return None
    except UnknownStageError as error:
        problems.append(Problem(f"{at}.use", str(error)))
        return None
    try:
        return stage_class(stage_class.Params.model_validate(item.with_))
    except ValidationError as error:
        problems += problems_of(error, stage_class.Params, f"{at}.with")
        return None


def _find_faults(at: str, plan: StagePlan) -> Iterator[str]:
    stage, name = plan.stage, plan.name
    is_source, is_sink = isinstance(stage, SourceStage), isinstance(stage, SinkStage)
    if at == "spec.source" and not is_source:
        yield f"stage {name!r} is not a source; the first stage must list the sources"
    elif at == "spec.sink" and not is_sink:
        yield f"stage {name!r} is not a sink; the last stage must write the output"
    elif at not in {"spec.source", "spec.sink"} and is_source:
        yield f"stage {name!r} is a second source; only the first stage may list sources"
    elif at not in {"spec.source", "spec.sink"} and is_sink:
        yield f"stage {name!r} is a sink; only the last stage may write the output"
    elif is_source and plan.gathers:
        yield (
            f"stage {name!r} can't gather, because it lists sources and receives no tasks; gather "
            "in a separate stage"
        )
    elif is_sink:
        yield from _find_sink_faults(plan)
    elif not is_source:
        yield from _find_shape_faults(plan)


def _find_sink_faults(plan: StagePlan) -> Iterator[str]:
    """Yield problems for methods that the runtime never calls on a sink."""
    for method in ("process", "process_batch"):
        if plan.overrides(method):
            yield (
                f"stage {plan.name!r} is a sink, and only its `write` is called; move the code of "
                f"its `{method}` to a stage before it"
            )


def _find_shape_faults(plan: StagePlan) -> Iterator[str]:
    single = plan.overrides("process")
    batched = plan.overrides("process_batch")
    if plan.stage.mixes_sources:
        yield (
            f"stage {plan.name!r} mixes rows of several sources, so no source could be resumed "
            "alone; mix rows only within a source, or in a second pipeline that reads this "
            "pipeline's output"
        )
    elif single == batched:
        which = "both `process` and" if single else "neither `process` nor"
        yield f"stage {plan.name!r} defines {which} `process_batch`; it needs exactly one"
    elif batched and plan.group is not None:
        yield (
            f"stage {plan.name!r} has a group, whose children are joined into one task; define "
            "`process`"
        )
    elif batched and plan.stage.fans_out_in_batch() and plan.batch_size > 1:
        yield (
            f"stage {plan.name!r} fans out in a batch of {plan.batch_size}, so a child has no "
            "single parent; set batchSize to 1 or fan out in `process`"
        )


def _find_cut_faults(named: Sequence[tuple[str, StagePlan]]) -> Iterator[Problem]:
    """Yield a problem for every `keep` whose output a later stage could not join again."""
    for index, joining in list_uncuttable([plan for _, plan in named]):
        at, plan = named[index]
        if plan.has_cut:
            message = (
                f"the output of {plan.name!r} can't be kept: it is a fan-out within a fan-out, and "
                f"{joining.name!r} joins only one of them"
            )
            yield Problem(f"{at}.keep", message, f"keep the output of {joining.name!r} instead")


def list_uncuttable(stages: Sequence[StagePlan]) -> Iterator[tuple[int, StagePlan]]:
    """Yield the index of each stage that can't have a cut, and the later stage with a group."""
    fans = 0
    for index, plan in enumerate(stages):
        fans += plan.may_fan_out or plan.group is not None
        joining = next((later for later in stages[index + 1 :] if later.group is not None), None)
        if joining is not None and fans > 1:
            yield index, joining


def _find_missing_columns(named: Sequence[tuple[str, StagePlan]]) -> Iterator[Problem]:
    found = find_missing(trace_columns((plan.name, plan.stage) for _, plan in named), {})
    if found is None:
        return
    # Load all stages only after a column was found missing: loading is slow, and only the hint
    # about a missing column names the stages that add the column.
    makers: dict[str, list[str]] = {}
    for use, stage_class in list_registered().items():
        if not issubclass(stage_class, SourceStage):
            for column in stage_class.adds_columns:
                makers.setdefault(column, []).append(use)
    found = find_missing(trace_columns((plan.name, plan.stage) for _, plan in named), makers)
    if found is not None:
        yield Problem(named[found.position][0], found.message, found.hint)


def _find_conflicts(named: Sequence[tuple[str, StagePlan]]) -> Iterator[Problem]:
    stages = [plan.stage for _, plan in named]
    for position, (at, plan) in enumerate(named):
        message = plan.stage.find_conflict(stages[:position])
        if message is not None:
            yield Problem(at, f"stage {plan.name!r}: {message}")


def _find_partition_faults(source: StagePlan, stages: Sequence[StagePlan]) -> Iterator[Problem]:
    """Yield problems of pipelines with shared storage. The sink is the last of `stages`."""
    ends = [plan for plan in (source, stages[-1]) if getattr(plan.stage, "is_partitioned", False)]
    if not ends:
        return
    if not getattr(source.stage, "deletes_removed", False):
        message = (
            f"must be Delete: {ends[-1].name!r} combines sources that share storage, so no single "
            "source can be kept"
        )
        yield Problem("spec.source.with.onRemoved", message, "write `onRemoved: Delete`")
    if ends[-1] is not stages[-1]:
        return
    # Search backward from the sink: a `group` after a fan-out joins the tasks again.
    for index, plan in reversed(list(enumerate(stages[:-1]))):
        if plan.may_fan_out:
            message = (
                f"stage {plan.name!r} may fan out, but {stages[-1].name!r} writes sources that "
                "share storage as one task"
            )
            yield Problem(f"spec.stages[{index}]", message, "set `group` on a stage after it")
        if plan.may_fan_out or plan.group is not None:
            return
