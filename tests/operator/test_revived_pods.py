"""A failed pod that starts again, as after a restart of its VM, is recognized."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cache_feed import CacheFeed
from fake_api import FakeApi
from node_bodies import end_by_shutdown
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_pod
from played_operator import Operator
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod
from strandline_operator.model.plan import PassPlan, Resource
from strandline_operator.model.view import View

Json = dict[str, Any]
NAME = "corpus-1-head"


class Watcher:
    """An operator that decides nothing. Its passes read pods from the watches or from the server.

    Args:
        is_late: True if the watch lags behind, so passes read pods from the server.
    """

    def __init__(self, *, is_late: bool) -> None:
        self.api = FakeApi()
        pipeline = make_pipeline(self.api.store)
        make_attempt(self.api.store, pipeline)
        make_pod(self.api.store, pipeline, NAME, "head")
        self.operator = Operator(self.api, Limits())
        self.views: list[View] = []
        self.operator.passes.decide = self.decide
        self.feed: CacheFeed = self.operator.feed
        self.is_late = is_late

    def decide(self, view: View, *_: object) -> PassPlan:
        self.views.append(view)
        return PassPlan()

    def show(self, status: Json) -> Pod:
        self.api.store.put_status(Resource.POD, NAMESPACE, NAME, status)
        self.feed.follow()
        if self.is_late:
            for kind in self.feed.cache.namespaces[None].kinds.values():
                kind.is_connected = False
        asyncio.run(self.operator.passes.run(KEY))
        return next(iter((*self.views[-1].pods, *self.views[-1].gone_pods)))


@pytest.mark.parametrize("is_late", [False, True])
def test_a_restarted_pod_keeps_the_reason_of_its_end(*, is_late: bool) -> None:
    watcher = Watcher(is_late=is_late)
    failed = watcher.show(end_by_shutdown())
    assert (failed.phase, failed.is_revived) == ("Failed", False)
    for phase in ("Pending", "Running"):
        pod = watcher.show({"phase": phase})
        assert (pod.phase, pod.is_revived, pod.reason) == (phase, True, "Terminated")
        assert pod.disruption == "TerminationByKubelet"
    watcher.api.store.remove(Resource.POD, NAMESPACE, NAME)
    watcher.feed.follow()
    asyncio.run(watcher.operator.passes.run(KEY))
    (gone,) = watcher.views[-1].gone_pods
    assert (gone.is_gone, gone.is_revived) == (True, True)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_pod_that_starts_late_has_no_earlier_end(*, is_late: bool) -> None:
    watcher = Watcher(is_late=is_late)
    for phase in ("Pending", "Running", "Pending"):
        assert not watcher.show({"phase": phase}).is_revived
