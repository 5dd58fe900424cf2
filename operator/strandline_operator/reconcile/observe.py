"""Reads all that one pass decides from, into one frozen view.

Every pass reads anew: what the watches have seen only says when to look, and what pods looked like
before they went. A list that could not be read ends the pass, since an empty one would mean that
everything is gone. This room must not know what follows from what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from strandline_api.attempt import AttemptSpec, parse_attempt_status
from strandline_api.documents import SpecError, parse_pipeline
from strandline_api.labels import select_pipeline
from strandline_api.names import name_claim, name_rayjob
from strandline_api.pipeline import PipelineSpec
from strandline_api.retry import merge_policies
from strandline_api.spec_policy import RetryPolicy
from strandline_api.status import parse_status
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import NotFound
from strandline_operator.model.objects import Claim, Meta, Pod, RayCluster, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import AttemptView, DriverView, PipelineView, Refusal, View
from strandline_operator.reconcile.defaults import NamespaceDefaults
from strandline_operator.reconcile.driver_talk import DriverTalk
from strandline_operator.reconcile.pod_memory import PodMemory
from strandline_operator.reconcile.schedule import Key


@dataclass(frozen=True, slots=True)
class Senses:
    """What a pass reads from beside the API server.

    Attributes:
        layer: the installation's own defaults of the retry policy.
    """

    pods: PodMemory
    drivers: DriverTalk
    defaults: NamespaceDefaults
    layer: RetryPolicy


@dataclass(frozen=True, slots=True)
class Observed:
    """A view, and when the driver is to be asked again; None where there is none to ask."""

    view: View
    ask_at: float | None


async def observe(
    api: Api,
    key: Key,
    senses: Senses,
    now: float,
    *,
    may_dispatch: bool = True,
    refusals: tuple[Refusal, ...] = (),
) -> Observed | None:
    """Read one pipeline and all that belongs to it; None where there is no such pipeline.

    Raises:
        ApiError: something could not be read.
    """
    body = await api.get(Resource.PIPELINE, key.namespace, key.name)
    if body is None:
        return None
    pipeline = read_pipeline(body)
    children = await _read_children(api, pipeline, senses.pods)
    layer, problems = await senses.defaults.read(api, key.namespace, now)
    current = children.attempts[-1] if children.attempts else None
    driver, ask_at = await _hear(api, pipeline, current, children, senses.drivers, now)
    view = View(
        pipeline=pipeline,
        attempts=children.attempts,
        rayjobs=children.rayjobs,
        rayclusters=children.rayclusters,
        pods=children.pods,
        gone_pods=children.gone_pods,
        taken=await _find_taken(api, pipeline, current, children.rayjobs),
        policy=merge_policies(pipeline.spec.retry, layer, senses.layer)
        if pipeline.spec
        else merge_policies(layer, senses.layer),
        claim=await _read_claim(api, pipeline),
        driver=driver,
        has_kuberay=children.has_kuberay,
        may_dispatch=may_dispatch,
        refusals=(*refusals, *problems),
    )
    return Observed(view, ask_at)


def read_pipeline(body: Body) -> PipelineView:
    """A pipeline from its object; whatever is wrong with it is said, never raised."""
    meta = Meta.read(body)
    written = body.get("metadata")
    labels = written.get("labels") if isinstance(written, dict) else None
    manifest: Body = {
        "apiVersion": body.get("apiVersion"),
        "kind": body.get("kind"),
        "metadata": {"name": meta.name, "namespace": meta.namespace, "labels": labels or {}},
        "spec": body.get("spec"),
    }
    spec, problems = _read_spec(manifest)
    status = body.get("status")
    return PipelineView(
        meta=meta,
        spec=spec,
        problems=problems,
        status=parse_status(status),
        has_status=bool(status),
        manifest=manifest,
    )


def read_attempt(body: Body) -> AttemptView | None:
    """An attempt from its object; None where nobody of ours can have made it."""
    try:
        spec = AttemptSpec.parse(body.get("spec"))
    except ValidationError:
        return None
    return AttemptView(Meta.read(body), spec, parse_attempt_status(body.get("status")))


@dataclass(frozen=True, slots=True)
class _Children:
    attempts: tuple[AttemptView, ...]
    rayjobs: tuple[RayJob, ...]
    rayclusters: tuple[RayCluster, ...]
    pods: tuple[Pod, ...]
    gone_pods: tuple[Pod, ...]
    has_kuberay: bool


async def _read_children(api: Api, pipeline: PipelineView, memory: PodMemory) -> _Children:
    """Read in the order in which things are made, so that nothing is seen without its maker."""
    uid, namespace = pipeline.meta.uid, pipeline.meta.namespace
    selector = select_pipeline(uid)
    known = memory.live(uid)
    attempts = map(read_attempt, await api.list_all(Resource.ATTEMPT, namespace, selector))
    mine = [one for one in attempts if one is not None and one.meta.owner == uid]
    rayjobs = await _list_served(api, Resource.RAYJOB, namespace, selector)
    clusters = await _list_served(api, Resource.RAYCLUSTER, namespace, selector)
    bodies = await api.list_all(Resource.POD, namespace, selector)
    pods, gone = memory.compare(uid, known, map(Pod.read, bodies))
    return _Children(
        attempts=tuple(sorted(mine, key=lambda one: one.spec.number)),
        rayjobs=tuple(map(RayJob.read, rayjobs or ())),
        rayclusters=tuple(map(RayCluster.read, clusters or ())),
        pods=pods,
        gone_pods=gone,
        has_kuberay=rayjobs is not None,
    )


async def _list_served(
    api: Api, resource: Resource, namespace: str, selector: str
) -> list[Body] | None:
    try:
        return await api.list_all(resource, namespace, selector)
    except NotFound:
        return None


async def _hear(
    api: Api,
    pipeline: PipelineView,
    current: AttemptView | None,
    children: _Children,
    drivers: DriverTalk,
    now: float,
) -> tuple[DriverView | None, float | None]:
    uid = pipeline.meta.uid
    if current is None or current.status.is_frozen:
        drivers.forget(uid)
        return None, None
    name = name_rayjob(pipeline.meta.name, current.spec.number)
    rayjob = next((one for one in children.rayjobs if one.meta.name == name), None)
    return await drivers.listen(api, uid, current, rayjob, children.pods, now)


async def _find_taken(
    api: Api, pipeline: PipelineView, current: AttemptView | None, rayjobs: tuple[RayJob, ...]
) -> frozenset[str]:
    """The name that the attempt's RayJob must have, where another's RayJob has it."""
    if current is None or current.status.is_frozen or current.status.ray_job is not None:
        return frozenset()
    name = name_rayjob(pipeline.meta.name, current.spec.number)
    if any(one.meta.name == name for one in rayjobs):
        return frozenset()
    body = await api.get(Resource.RAYJOB, pipeline.meta.namespace, name)
    if body is None or Meta.read(body).owner == current.meta.uid:
        return frozenset()
    return frozenset({name})


async def _read_claim(api: Api, pipeline: PipelineView) -> Claim | None:
    given = pipeline.spec.storage.ledger.claim_name if pipeline.spec else None
    name = given or name_claim(pipeline.meta.name)
    body = await api.get(Resource.CLAIM, pipeline.meta.namespace, name)
    return None if body is None else Claim.read(body)


def _read_spec(manifest: Body) -> tuple[PipelineSpec | None, tuple[str, ...]]:
    try:
        return parse_pipeline(manifest).spec, ()
    except SpecError as error:
        return None, tuple(map(str, error.problems))
