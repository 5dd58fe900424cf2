"""Raises memory for the next attempt after out-of-memory kills.

Raised memory is kept until the end of the run, or until a user edits the request, because an
explicit request is intentional. This module must not depend on how kills are detected.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline_api.api_model import evolve
from strandline_api.law.memory_growth import MIB, grow_memory, hold_memory
from strandline_api.notation.quantities import format_memory, parse_memory
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.decide.attempts.fallback import list_on_demand
from strandline_operator.decide.evidence.pods import RAY, find_pod_evidence
from strandline_operator.decide.obstacles.capacity import FreeCapacity, find_rooms
from strandline_operator.decide.scene import Pass
from strandline_operator.decide.verdict import PassState, Verdict, add_event, warn
from strandline_operator.model.view import View

# Maximum factor between raised and requested memory if no node shows how much memory is available.
# A pod larger than all nodes would wait in vain.
_MOST_GROWTH = 8


def needs_nodes(view: View) -> bool:
    """Return True if this pass may raise memory up to a limit that depends on node sizes."""
    current = view.attempts[-1] if view.attempts else None
    spec, counts = view.pipeline.spec, view.pipeline.status.retries
    # Listing all nodes is expensive, so avoid it unless the result is used.
    if current is None or spec is None or spec.oom.max_memory is not None:
        return False
    is_counted = counts is not None and current.spec.number <= counts.through
    # Memory is raised only when an ended attempt is counted.
    if is_counted or current.status.end_time is None:
        return False
    pods = (*view.pods, *view.gone_pods)
    causes = [record.cause for record in current.status.evidence]
    causes += [evidence.cause for pod in pods for evidence in find_pod_evidence(pod)]
    return Cause.OOM_KILLED in causes


def settle_memory(facts: Pass, standing: PassState) -> Verdict:
    """Keep the raised memory that is still valid after edits of requests and limits."""
    status, spec = standing.status, facts.spec
    # A running attempt already has its memory, and a finished run needs no memory.
    if standing.active is not None or status.next_attempt_time is None:
        return Verdict()
    requested = _list_requests(spec)
    memory = hold_memory(spec.oom, requested, _find_raised(status, requested))
    return Verdict(_keep(status, requested, memory))


def raise_memory(
    facts: Pass, status: PipelineStatus, attempt_status: AttemptStatus
) -> tuple[Verdict, str]:
    """Raise the memory of the groups with killed processes, for all later attempts.

    Returns:
        The verdict, and the reason why a group gets less than planned; empty if every group gets
        the planned amount.
    """
    # A kill of a worker that KubeRay replaced does not raise memory, because the attempt did not
    # end because of the kill.
    if attempt_status.cause is not Cause.OOM_KILLED:
        return Verdict(), ""
    spec = facts.spec
    requested = _list_requests(spec)
    raised = _find_raised(status, requested)
    killed = _list_killed(attempt_status, requested)
    rooms = find_rooms(facts.view.sizes or (), spec, list_on_demand(status.spot))
    bounds = {
        name: rooms[name].memory if name in rooms else memory * _MOST_GROWTH
        for name, memory in requested.items()
    }
    before = hold_memory(spec.oom, requested, raised)
    after = grow_memory(spec.oom, requested, killed, raised=raised, bounds=bounds)
    unbounded = grow_memory(evolve(spec.oom, max_memory=None), before, killed)
    after_status = _keep(status, requested, after)
    grown = [name for name in killed if after[name] > before[name]]
    words = ", ".join(f"{name} {after_status.memory[name]}" for name in grown)
    short = [name for name in killed if after[name] < unbounded[name]]
    why = "; ".join(_explain(name, after[name], spec, rooms.get(name)) for name in short)
    reported = add_event(EventReason.MEMORY_RAISED, f"memory of the next attempt: {words}")
    events = ((reported,) if grown else ()) + (
        (warn(EventReason.MEMORY_LIMITED, why),) if why else ()
    )
    return Verdict(after_status, events=events), why


def _explain(group: str, memory: int, spec: PipelineSpec, room: FreeCapacity | None) -> str:
    """Return a clause that explains why a group gets no more memory."""
    size = f"memory of {group} is limited to {_format_size(memory)}"
    # The user's setting is the limit, regardless of the cluster.
    if spec.oom.max_memory is not None:
        return f"{size} by oom.maxMemory"
    if room is None:
        unknown = "the operator found no node that can run the pod"
        return f"{size}, {_MOST_GROWTH} times its request, because {unknown}"
    return f"{size}, the most that the largest suitable node can hold ({room.node})"


def _list_requests(spec: PipelineSpec) -> dict[str, int]:
    requested = {"head": spec.ray.head.resources.memory_bytes}
    return requested | {
        group.name: group.resources.memory_bytes for group in spec.ray.worker_groups
    }


def _find_raised(status: PipelineStatus, requested: Mapping[str, int]) -> dict[str, int]:
    """Return the raised memory of groups with an unchanged request."""
    former_requests = {name: parse_memory(size) for name, size in status.memory_requested.items()}
    return {
        name: parse_memory(size)
        for name, size in status.memory.items()
        # Earlier operators did not record the request, so treat it as unchanged.
        if name in requested and former_requests.get(name, requested[name]) == requested[name]
    }


def _keep(
    status: PipelineStatus, requested: Mapping[str, int], memory: Mapping[str, int]
) -> PipelineStatus:
    raised = {name: size for name, size in memory.items() if size > requested[name]}
    return evolve(
        status,
        memory={name: _format_size(size) for name, size in raised.items()},
        memory_requested={name: format_memory(requested[name]) for name in raised},
    )


def _format_size(size: int) -> str:
    """Format bytes, in MiB if possible, so that sizes can be compared at a glance."""
    return str(size) if size % MIB else f"{size // MIB}Mi"


def _list_killed(status: AttemptStatus, groups: Mapping[str, int]) -> list[str]:
    """Return the groups with killed processes, from the evidence if it names any group."""
    kills = [record for record in status.evidence if record.cause is Cause.OOM_KILLED]
    group_names = {str(kill.details.get("group", "")) for kill in kills} - {""}
    # Raise only these groups, because raising all would waste memory. Skip groups that an edit has
    # removed.
    if group_names:
        return sorted(group_names & groups.keys())
    # Without a group in the evidence, assume workers if Ray reported the kills, or else the head.
    workers = sorted(groups.keys() - {"head"})
    is_of_workers = all(kill.source == RAY for kill in kills)
    return workers if workers and is_of_workers else ["head"]
