"""Reads the inputs of a pass into an immutable view.

A pipeline's objects come from the watch caches, or from the server if a pass requests that or the
caches are not current. A failed list aborts the pass, because an empty list would mean that all
objects are gone. If a list is not permitted, the view records that. This module must not depend on
the decisions based on the view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from strandline_api.law.retry import merge_policies
from strandline_api.names import PREFLIGHT_LABEL, name_claim, name_preflight, name_rayjob
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.defaults import DefaultsRecord
from strandline_api.status.enums import LineageState
from strandline_operator.cluster.access import Access
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.decide.obstacles.namesakes import list_living, may_launch
from strandline_operator.decide.obstacles.predecessors import is_beginning, needs_others
from strandline_operator.decide.obstacles.preflight import needs_preflight
from strandline_operator.decide.obstacles.room.shortages import needs_sizes
from strandline_operator.decide.run.memory import needs_nodes
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.cpu_rules import CpuRules
from strandline_operator.model.nodes.marks import NodeMarks, NodeView
from strandline_operator.model.notices import Notice, QueueState
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob, VolumeClaim
from strandline_operator.model.plan import Resource
from strandline_operator.model.preflight import PreflightJob
from strandline_operator.model.view import (
    AttemptObject,
    DriverView,
    PipelineView,
    Refusal,
    Turn,
    View,
)
from strandline_operator.reconcile.caches.capacity import CapacityMemory
from strandline_operator.reconcile.caches.claims import ClaimMemory
from strandline_operator.reconcile.caches.cluster_cache import ClusterCache
from strandline_operator.reconcile.caches.namespaces.cpu_rules import CpuRulesMemory
from strandline_operator.reconcile.caches.namespaces.defaults import (
    FoundDefaults,
    NamespaceDefaults,
)
from strandline_operator.reconcile.caches.nodes import NodeMemory, list_suspects
from strandline_operator.reconcile.caches.notices import NoticeMemory, list_stuck
from strandline_operator.reconcile.caches.own_kinds import read_pipeline
from strandline_operator.reconcile.caches.pods import PodMemory, PodOwner
from strandline_operator.reconcile.caches.queues import QueueMemory
from strandline_operator.reconcile.departures import DepartureReports
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.readers import Reader, ServerReader
from strandline_operator.reconcile.scheduling.schedule import Key
from strandline_operator.render.defaults import fill_in

# Maximum number of direct and indirect predecessors to read.
MOST_OTHERS = 256


@dataclass(frozen=True, slots=True)
class PassInputs:
    """Inputs of a pass, except the API server.

    Attributes:
        layer: retry policy defaults of this installation.
        cache: objects from the watches.
        is_checked: whether pipelines without a `preflight` setting are checked before they run.
        blind: function that returns a namespace's watches that lack permission.
        find_report: function that returns the result of reporting an attempt's end, by pipeline uid
            and attempt number, or None while the report is pending.
    """

    pods: PodMemory
    drivers: DriverTalk
    defaults: NamespaceDefaults
    layer: RetryPolicy
    cache: ClusterCache = field(default_factory=ClusterCache)
    nodes: NodeMemory = field(default_factory=NodeMemory)
    notices: NoticeMemory = field(default_factory=NoticeMemory)
    blind: Callable[[str], tuple[Refusal, ...]] = lambda _: ()
    claims: ClaimMemory = field(default_factory=ClaimMemory)
    departures: DepartureReports = field(default_factory=DepartureReports)
    capacity: CapacityMemory = field(default_factory=CapacityMemory)
    cpu_rules: CpuRulesMemory = field(default_factory=CpuRulesMemory)
    queues: QueueMemory = field(default_factory=QueueMemory)
    is_checked: bool = False
    find_report: Callable[[str, int], LineageState | None] = lambda _, __: None

    def put(
        self, namespace: str, pipeline: str, resource: Resource, body: Body, now: float
    ) -> bool:
        """Store the response to a write. Return True if cached objects have changed."""
        if resource is Resource.CLAIM:
            self.claims.put(pipeline, body, now)
        return self.cache.put(namespace, resource, body, now)

    def forget(self, pipeline: PodOwner) -> None:
        """Forget a deleted pipeline."""
        self.pods.forget(pipeline)
        for memory in (self.drivers, self.claims, self.departures):
            memory.forget(pipeline.uid)


@dataclass(frozen=True, slots=True)
class PassObservation:
    """A view, and the time by which a pass must request a driver's report again, or None."""

    view: View
    ask_at: float | None


async def find_pipeline(api: Api, key: Key, cache: ClusterCache) -> PipelineView | None:
    """Return a pipeline from the server, without its other objects, or None if it does not exist.

    Raises:
        ApiError: if reading failed.
    """
    body = await api.get(Resource.PIPELINE, key.namespace, key.name)
    if body is None:
        return None
    scope = cache.find(key.namespace)
    before = None if scope is None else scope.find_pipeline(key.namespace, key.name)
    return read_pipeline(body, before)


async def observe(
    api: Api,
    pipeline: PipelineView,
    inputs: PassInputs,
    now: float,
    *,
    turn: Turn | None = None,
    refusals: tuple[Refusal, ...] = (),
    open_reader: Callable[[Access], Reader] = ServerReader,
) -> PassObservation:
    """Read all objects of a pipeline.

    Args:
        open_reader: function that returns the reader for the pipeline's objects.

    Raises:
        ApiError: if reading failed for a reason other than a missing permission.
    """
    namespace = pipeline.meta.namespace
    reader = open_reader(access := Access(api, namespace))
    children = await _find_children(reader, pipeline, inputs.pods)
    current = children.attempts[-1] if children.attempts else None
    namesakes = await _find_namesakes(reader, pipeline, current)
    if access.refused:
        unread = tuple(access.refused)
        return PassObservation(View(pipeline, turn=turn or Turn(), unread=unread), None)
    defaults = await inputs.defaults.read(api, namespace, now)
    filled = replace(pipeline, spec=fill_in(pipeline, defaults.spec))
    rayjob = _find_rayjob(pipeline, current, children)
    driver, ask_at = await _read_driver(api, pipeline, current, children, inputs.drivers, now)
    environment = await _look_around(access, pipeline, rayjob, children, inputs, now)
    claim, output = await _read_claims(reader, filled, current, inputs.claims, now)
    view = View(
        pipeline=pipeline,
        attempts=children.attempts,
        rayjobs=children.rayjobs,
        rayclusters=children.rayclusters,
        pods=children.pods,
        gone_pods=children.gone_pods,
        namesakes=namesakes,
        policy=_merge_policies(pipeline, defaults.policy, inputs.layer),
        claim=claim,
        output=output,
        code=await _read_code(access, pipeline, current),
        driver=driver,
        has_kuberay=Resource.RAYJOB not in access.unserved,
        turn=turn or Turn(),
        refusals=(*refusals, *defaults.refusals, *inputs.blind(namespace)),
        unread=tuple(access.refused),
        lineage=_find_reports(pipeline, inputs),
    )
    view = replace(view, **environment._asdict())
    view = await _add_defaults(view, reader, defaults, inputs.defaults.name)
    if needs_others(pipeline, current):
        others = await _read_others(reader, pipeline)
        view = replace(view, others=others, unread=tuple(access.refused))
    if needs_preflight(filled, current, by_default=inputs.is_checked):
        view = replace(view, preflight=await _read_preflight(api, pipeline.meta))
    return PassObservation(await _add_sizes(view, api, inputs, now), ask_at)


async def _add_sizes(view: View, api: Api, inputs: PassInputs, now: float) -> View:
    """Return the view, with the sizes of nodes if a decision needs them."""
    if needs_nodes(view) or needs_sizes(view):
        return replace(view, sizes=await inputs.capacity.read(api, now))
    return view


async def _add_defaults(view: View, reader: Reader, defaults: FoundDefaults, name: str) -> View:
    """Return the view with the namespace's current or recorded defaults."""
    before = await _find_former_defaults(reader, view.pipeline, defaults)
    return replace(
        view,
        defaults=defaults.spec,
        defaults_problem=defaults.unusable,
        defaults_name=name,
        defaults_digest=defaults.digest,
        defaults_before=before,
    )


async def _find_former_defaults(
    reader: Reader, pipeline: PipelineView, defaults: FoundDefaults
) -> DefaultsRecord | None:
    """Return another pipeline's record of missing defaults, for a new pipeline, if any."""
    is_missing = not defaults.digest and not defaults.unusable
    # After its first pass, a pipeline has its own record.
    if pipeline.has_status or not is_missing:
        return None
    others = await reader.list_pipelines()
    records = (other.status.defaults for other in others if not other.meta.is_deleting)
    waits = [record for record in records if record is not None and record.is_known]
    # Use the wait that ends first, so that a series of new pipelines does not prolong it.
    first = min(waits, key=lambda record: record.missing_since or inf, default=None)
    return first and DefaultsRecord(digest=first.digest, missing_since=first.missing_since)


def _find_reports(pipeline: PipelineView, inputs: PassInputs) -> dict[int, LineageState]:
    """Return the available results of pending lineage reports, by attempt number."""
    pending = [
        past.number for past in pipeline.status.attempts if past.lineage is LineageState.PENDING
    ]
    states = {number: inputs.find_report(pipeline.meta.uid, number) for number in pending}
    return {number: state for number, state in states.items() if state is not None}


def _merge_policies(pipeline: PipelineView, *layers: RetryPolicy) -> RetryPolicy:
    own = () if pipeline.spec is None else (pipeline.spec.retry,)
    return merge_policies(*own, *layers)


@dataclass(frozen=True, slots=True)
class _Children:
    attempts: tuple[AttemptObject, ...]
    rayjobs: tuple[RayJob, ...]
    rayclusters: tuple[RayClusterState, ...]
    pods: tuple[Pod, ...]
    gone_pods: tuple[Pod, ...]


async def _find_children(reader: Reader, pipeline: PipelineView, memory: PodMemory) -> _Children:
    """Read objects in creation order, so that every object is read after its creator."""
    meta, owner = pipeline.meta, PodOwner(pipeline.meta.namespace, pipeline.meta.uid)
    before = memory.live(owner)
    attempts = await reader.list_attempts(meta)
    siblings = await reader.list_children(meta)
    pods, gone_pods = memory.compare(owner, before, siblings.pods)
    mine = (attempt for attempt in attempts if attempt.meta.owner == meta.uid)
    return _Children(
        attempts=tuple(sorted(mine, key=lambda attempt: attempt.spec.number)),
        rayjobs=siblings.rayjobs,
        rayclusters=siblings.rayclusters,
        pods=pods,
        gone_pods=gone_pods,
    )


class _Environment(NamedTuple):
    """Information about pods that comes from other objects, for the view."""

    nodes: dict[str, NodeView]
    marks: dict[str, NodeMarks]
    notices: tuple[Notice, ...]
    cpu_rules: CpuRules
    queue: QueueState | None


async def _look_around(
    access: Access,
    pipeline: PipelineView,
    rayjob: RayJob | None,
    children: _Children,
    inputs: PassInputs,
    now: float,
) -> _Environment:
    api, pods = access.api, (*children.pods, *children.gone_pods)
    current = children.attempts[-1] if children.attempts else None
    stuck = list_stuck(rayjob, children.rayclusters, children.pods, now)
    nodes = await inputs.nodes.look(api, list_suspects(children.pods, now), now)
    marks = await inputs.nodes.read_marks(api, children.pods, children.gone_pods, now)
    warnings = await inputs.notices.look(api, access.namespace, stuck, now)
    suspension = await inputs.notices.read_suspension(api, rayjob, current, now)
    reasons = await inputs.notices.read_reasons(api, pods, marks, now)
    rules = CpuRules()
    if may_launch(pipeline, current):
        rules = await inputs.cpu_rules.read(api, access.namespace, now)
    queue = await inputs.queues.read(api, rayjob, now)
    return _Environment(nodes, marks, (*warnings, *suspension, *reasons), rules, queue)


def _find_rayjob(
    pipeline: PipelineView, current: AttemptObject | None, children: _Children
) -> RayJob | None:
    """Return the RayJob of the newest attempt.

    Return None if the RayJob is missing, or if the attempt is frozen.
    """
    if current is None or current.status.is_frozen:
        return None
    name = name_rayjob(pipeline.meta.name, current.spec.number)
    return next((rayjob for rayjob in children.rayjobs if rayjob.meta.name == name), None)


async def _read_driver(
    api: Api,
    pipeline: PipelineView,
    current: AttemptObject | None,
    children: _Children,
    drivers: DriverTalk,
    now: float,
) -> tuple[DriverView | None, float | None]:
    uid = pipeline.meta.uid
    if current is None or current.status.is_frozen:
        drivers.forget(uid)
        return None, None
    rayjob = _find_rayjob(pipeline, current, children)
    limit = pipeline.spec.deadlines.stall_seconds if pipeline.spec else None
    return await drivers.listen(api, uid, current, rayjob, children.pods, now, limit)


async def _find_namesakes(
    reader: Reader, pipeline: PipelineView, current: AttemptObject | None
) -> tuple[str, ...]:
    """Return objects of an earlier pipeline of this name that may run, if relevant in this pass."""
    if not may_launch(pipeline, current):
        return ()
    former = await reader.list_former(pipeline.meta)
    return list_living(former.rayjobs, former.rayclusters, former.pods)


async def _read_others(reader: Reader, pipeline: PipelineView) -> dict[str, PipelineView | None]:
    """Return the pipeline's predecessors by name; before a new run, also indirect predecessors.

    Only indirect predecessors reveal cycles.
    """
    is_far = is_beginning(pipeline)
    ahead = list(pipeline.spec.predecessors) if pipeline.spec else []
    others: dict[str, PipelineView | None] = {}
    while ahead and len(others) < MOST_OTHERS:
        name = ahead.pop(0)
        if name in others or name == pipeline.meta.name:
            continue
        other = others[name] = await reader.find_pipeline(name)
        if is_far and other is not None and other.spec is not None:
            ahead += other.spec.predecessors
    return others


async def _read_claims(
    reader: Reader,
    pipeline: PipelineView,
    current: AttemptObject | None,
    claims: ClaimMemory,
    now: float,
) -> tuple[VolumeClaim | None, VolumeClaim | None]:
    """Return the ledger's claim and the claim for outputs, or None for a missing claim."""
    storage = pipeline.spec.storage if pipeline.spec else None
    ledger = storage.ledger.claim_name if storage else None
    output = storage.output.claim_name if storage else None
    is_in_use = current is not None and not current.status.is_frozen
    # A pass that creates a RayJob has a fresh reader. The RayJob must not use a deleted claim, so
    # read the claim again in such a pass.
    may_be_old = is_in_use or not reader.is_fresh

    async def read(name: str) -> VolumeClaim | None:
        return await claims.read(reader.access, pipeline.meta.uid, name, now, may_be_old=may_be_old)

    ledger_claim = await read(ledger or name_claim(pipeline.meta.name))
    return ledger_claim, None if output is None else await read(output)


async def _read_code(
    access: Access, pipeline: PipelineView, current: AttemptObject | None
) -> CodeFiles | None:
    """Return the code for the next attempt, or None if this pass can't create an attempt."""
    name = pipeline.spec.code.config_map if pipeline.spec else None
    if name is None or not may_launch(pipeline, current):
        return None
    body = await access.get(Resource.CONFIG_MAP, name)
    return None if body is None else CodeFiles.read(body)


async def _read_preflight(api: Api, pipeline: Meta) -> PreflightJob | None:
    """Return the Job of a pipeline's preflight check with its pod, or None if it does not exist.

    No watch covers these objects, because only this check uses them. If the Job may not be read,
    the result contains the server's message.

    Raises:
        ApiError: if reading failed for a reason other than a missing permission.
    """
    name = name_preflight(pipeline.name)
    try:
        body = await api.get(Resource.JOB, pipeline.namespace, name)
        if body is None:
            return None
        token = Meta.read(body).labels.get(PREFLIGHT_LABEL, "")
        selector = f"{PREFLIGHT_LABEL}={token}"
        pods = await api.list_all(Resource.POD, pipeline.namespace, selector) if token else []
    except Forbidden as error:
        return PreflightJob(Meta(name, pipeline.namespace, ""), unread=error.message)
    return PreflightJob.read(body, pods)
