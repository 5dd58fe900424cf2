"""A plan that is interrupted anywhere and then repeated gives the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fake_api import FakeApi, KilledError, kill_before
from kuberay_standin.objects import refer
from operator_bodies import NAMESPACE, make_attempt, make_pipeline, make_pod, spell_labels
from strandline_api.objects.attempt import AttemptStatus
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_operator.cluster.errors import Unavailable
from strandline_operator.model.plan import (
    Action,
    Create,
    Delete,
    EventDraft,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import View
from strandline_operator.reconcile.caches.own_kinds import read_attempt, read_pipeline
from strandline_operator.reconcile.enact import enact

PODS = ("pod-0", "pod-1", "pod-2")


def begin() -> FakeApi:
    api = FakeApi()
    pipeline = make_pipeline(api.store)
    for number in (1, 2):
        make_attempt(api.store, pipeline, number)
    for name in PODS:
        make_pod(api.store, pipeline, name, "worker")
    return api


def look(api: FakeApi) -> View:
    body = api.store.get(Resource.PIPELINE, NAMESPACE, "corpus") or {}
    attempts = map(read_attempt, api.store.list(Resource.ATTEMPT))
    return View(
        read_pipeline(body),
        tuple(attempt for attempt in attempts if attempt is not None),
    )


def make_action(api: FakeApi, kind: str, number: int) -> Action:
    pipeline = api.store.list(Resource.PIPELINE)[0]
    if kind == "create":
        labels, name = spell_labels(pipeline), f"made-{number}"
        metadata = {"name": name, "labels": labels, "ownerReferences": [refer(pipeline)]}
        return Create(Resource.CONFIG_MAP, {"metadata": metadata, "data": {}})
    if kind == "delete":
        pods = {
            pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in api.store.list(Resource.POD)
        }
        name = PODS[number]
        return Delete(Resource.POD, name, pods.get(name, "gone"))
    return SetFinalizer(is_set=number > 0)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["create", "delete", "finalizer"]), st.integers(0, 2)), max_size=5
)


def make_plan(api: FakeApi, kinds: list[tuple[str, int]], told: int, view: View) -> PassPlan:
    """Return the next plan: the same actions, and only the statuses that are still outdated."""
    status = PipelineStatus(attempt=2, state="goes on")
    attempts = {
        attempt.meta.name: AttemptStatus(message="goes on")
        for attempt in view.attempts
        if attempt.status.message != "goes on"
    }
    return PassPlan(
        pipeline=None if view.pipeline.status == status else status,
        attempts=attempts,
        actions=tuple(make_action(api, *kind) for kind in kinds),
        events=tuple(EventDraft("RunStarted", f"event {number}") for number in range(told)),
    )


def describe(api: FakeApi) -> Mapping[str, Any]:
    """Return the state of all objects, without the parts that differ between runs."""
    kept = {}
    for (resource, _, name), body in api.store.objects.items():
        if resource is not Resource.EVENT:
            metadata = body["metadata"]
            kept[f"{resource} {name}"] = (
                body.get("status"),
                body.get("spec"),
                sorted(metadata.get("finalizers") or ()),
                "deletionTimestamp" in metadata,
            )
    return kept


async def run_through(api: FakeApi, kinds: list[tuple[str, int]], told: int) -> None:
    view = look(api)
    await enact(api, view, make_plan(api, kinds, told, view), 1_000_000.0)


@given(ACTIONS, st.integers(0, 2), st.data())
def test_law_a_kill_between_any_two_calls_does_not_change_the_result(
    kinds: list[tuple[str, int]], told: int, data: st.DataObject
) -> None:
    whole = begin()
    asyncio.run(run_through(whole, kinds, told))
    cuts = data.draw(st.lists(st.integers(1, len(whole.calls) + 1), max_size=3))

    api = begin()
    for cut in cuts:
        api.before[:] = [kill_before(cut)]
        try:
            asyncio.run(run_through(api, kinds, told))
        except KilledError:
            continue
    api.before.clear()
    asyncio.run(run_through(api, kinds, told))

    assert describe(api) == describe(whole)
    names = [event["metadata"]["name"] for event in api.store.list(Resource.EVENT)]
    assert len(names) == len(set(names)) == told


@given(ACTIONS, st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=3))
def test_law_a_lost_response_changes_nothing(
    kinds: list[tuple[str, int]], losses: list[tuple[int, bool]]
) -> None:
    whole = begin()
    asyncio.run(run_through(whole, kinds, 0))

    api = begin()
    for number, is_done in losses:
        hook = lose(number)
        (api.after if is_done else api.before)[:] = [hook]
        try:
            asyncio.run(run_through(api, kinds, 0))
        except Unavailable:
            continue
        finally:
            api.before.clear()
            api.after.clear()
    asyncio.run(run_through(api, kinds, 0))

    assert describe(api) == describe(whole)


def lose(number: int) -> Any:
    """Return a hook that loses the n-th request, or the response if the hook runs afterwards."""
    left = number

    def hook(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Unavailable(0, "", "no answer")

    return hook


def test_the_property_cuts_everywhere() -> None:
    kinds = [("create", 0), ("delete", 1), ("finalizer", 1)]
    whole = begin()
    asyncio.run(run_through(whole, kinds, 1))
    verbs = [call.verb for call in whole.calls]
    assert verbs == ["status", "status", "status", "create", "delete", "patch", "create"]
