"""Converts the preview of a plan to plain data.

This module does no I/O.
"""

from __future__ import annotations

from typing import Any

from strandline.cli.views.plans.facts import (
    ListingFacts,
    PlanFacts,
    RedoPreview,
    number_chains,
    trace_stages,
)
from strandline.plan.partition import Balance, ChainFinding
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.columns import Columns
from strandline.run.revise.cuts.choice import ConsideredCut
from strandline.run.revise.marks.model_costs import AskEstimate


def render_plan(facts: PlanFacts) -> dict[str, Any]:
    """Render the plan for `plan --json`; its keys are stable."""
    plan, ledger, listing = facts.plan, facts.ledger, facts.listing
    stages = (plan.source, *plan.stages)
    return {
        "pipeline": plan.name,
        "namespace": plan.namespace,
        "run": plan.run_id,
        "fingerprint": plan.fingerprint.digest,
        "notFingerprinted": list(plan.fingerprint.unread),
        "output": facts.output,
        "stages": [
            _render_stage(stage) | {"chain": chain, "columns": _render_columns(step.after)}
            for stage, chain, step in zip(
                stages, (None, *map(int, number_chains(plan))), trace_stages(stages), strict=True
            )
        ],
        "ledger": ledger and {"attempt": ledger.attempt, **ledger.counts},
        "changes": ledger.changes if ledger else [],
        "schema": facts.schema,
        "onChange": facts.on_change.value,
        "outdatedBy": list(facts.outdated_by),
        "redo": _render_redo(facts.redo),
        "cuts": [_render_cut(each) for each in facts.cuts],
        "refused": list(facts.unmet),
        "worstKill": facts.worst and facts.worst._asdict(),
        "sources": listing and _render_listing(listing),
        "groups": listing and listing.balance and _render_groups(listing.balance),
        "chained": facts.chaining and _render_chaining(facts.chaining),
        "asks": [_render_estimate(each) for each in facts.estimates],
    }


def _render_estimate(estimate: AskEstimate) -> dict[str, Any]:
    return {
        "stage": estimate.stage,
        "rows": estimate.rows,
        "requests": estimate.requests,
        "promptTokens": estimate.prompt_tokens,
        "completionTokens": estimate.completion_tokens,
        "cost": estimate.cost,
        "asked": estimate.asked,
        "failed": estimate.failed,
    }


def _render_listing(listing: ListingFacts) -> dict[str, Any]:
    counted = {"counters": dict(listing.counters)} if listing.counters else {}
    return {"total": listing.sources, "skipped": listing.skipped} | counted


def _render_chaining(chaining: ChainFinding) -> dict[str, Any]:
    better = {"field": chaining.field, "value": chaining.chunk, "largest": chaining.size}
    return {
        "largest": chaining.largest.size,
        "sources": chaining.largest.total,
        "all": chaining.is_whole,
        "better": better if chaining.field else None,
    }


def _render_groups(balance: Balance) -> dict[str, Any]:
    return {
        "total": len(balance.sizes),
        "largest": balance.sizes[0],
        "smallest": balance.sizes[-1],
        "loads": balance.loads,
        "ratio": balance.ratio,
    }


def _render_cut(cut: ConsideredCut) -> dict[str, Any]:
    return {
        "stage": cut.stage,
        "isKept": cut.is_kept,
        "why": str(cut.verdict),
        "secondsSaved": cut.seconds,
        "bytes": cut.size,
    }


def _render_redo(redo: RedoPreview | None) -> dict[str, Any] | None:
    if redo is None:
        return None
    starts = [
        {"after": start.after, "fromOutput": start.rule == "sink-files", "sources": number}
        for start, number in redo.starts.items()
    ]
    return {"first": dict(redo.first), "starts": starts, "seconds": round(redo.seconds, 3)}


def _render_columns(columns: Columns) -> dict[str, Any]:
    return {"names": list(columns.names), "others": columns.is_open, "without": list(columns.gone)}


def _render_stage(stage: StagePlan) -> dict[str, Any]:
    return {
        "name": stage.name,
        "use": stage.use,
        "shape": stage.shape.name.lower(),
        "fansOut": stage.may_fan_out,
        "gathers": stage.gathers,
        "batchSize": stage.batch_size,
        "group": stage.group,
        "onError": stage.on_error,
        "failsBy": "row" if stage.splits else "task",
        "keep": stage.has_cut,
        "workers": {"min": stage.min_workers, "max": stage.max_workers},
        "resources": {
            "cpu": stage.cpu,
            "gpu": stage.gpu,
            "memory": stage.memory,
            "custom": stage.custom,
        },
    }
