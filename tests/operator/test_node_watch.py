"""A mark on a node requests passes of the pipelines with pods on this node."""

from __future__ import annotations

import asyncio
import logging

import pytest

from fake_api import Call, until
from node_bodies import GKE_SPOT, SHUTTING_DOWN, spell_node, spell_taint
from operator_bodies import make_attempt, make_pipeline, make_pod
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.nodes.marks import NodeMarks
from strandline_operator.model.plan import Resource
from strandline_operator.settings import Settings
from test_service import Scene


def find_marks(scene: Scene) -> NodeMarks | None:
    """Return the newest pass's marks of the only pod's node, or None."""
    return next(iter(scene.views[-1].marks.values()), None)


def make_scene(settings: Settings | None = None) -> Scene:
    """Return a scene of a pipeline with a pod on `node-1`, and another pipeline without pods."""
    scene = Scene(settings)
    pipeline = make_pipeline(scene.api.store)
    make_attempt(scene.api.store, pipeline)
    make_pod(scene.api.store, pipeline, "corpus-1-head", "head")
    make_pipeline(scene.api.store, "other")
    scene.api.put_node(spell_node("node-1", GKE_SPOT))
    scene.api.put_node(spell_node("node-2"))
    return scene


def test_a_mark_on_a_node_requests_passes_of_its_pods_pipelines() -> None:
    scene = make_scene()

    async def story() -> None:
        await scene.service.start()
        await until(lambda: sorted(scene.seen) == ["corpus", "other"])
        begun = len(scene.seen)
        scene.api.put_node(spell_node("node-1", GKE_SPOT, conditions=[SHUTTING_DOWN]))
        await until(lambda: len(scene.seen) == begun + 1)
        marks = find_marks(scene)
        assert marks is not None
        assert (scene.seen[-1], marks.is_spot, marks.is_shutting_down) == ("corpus", True, True)
        scene.api.remove_node("node-1")
        await until(lambda: len(scene.seen) == begun + 2)
        marks = find_marks(scene)
        assert marks is not None
        assert (marks.is_gone, marks.is_spot) == (True, True)
        scene.api.put_node(spell_node("node-2", taints=[spell_taint("karpenter.sh/disrupted")]))
        await asyncio.sleep(0.02)
        assert len(scene.seen) == begun + 2

    scene.play(story)


def test_a_heartbeat_of_a_node_requests_no_pass() -> None:
    scene = make_scene()

    async def story() -> None:
        await scene.service.start()
        await until(lambda: len(scene.seen) == 2)
        beating = spell_node("node-1", GKE_SPOT)
        beating["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-26T04:00:00Z"
        scene.api.put_node(beating)
        await asyncio.sleep(0.02)
        assert len(scene.seen) == 2

    scene.play(story)


def test_without_permission_to_watch_nodes_only_marks_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = make_scene()
    caplog.set_level(logging.INFO)

    def refuse(call: Call) -> None:
        if call.resource is Resource.NODE and call.verb in {"list", "watch"}:
            raise Forbidden(403, "Forbidden", "cannot list nodes")

    scene.api.before.append(refuse)

    async def story() -> None:
        await scene.service.start()
        await until(lambda: "corpus" in scene.seen)
        view = next(view for view in scene.views if view.pipeline.meta.name == "corpus")
        # The node was read by name, and the missing permission to watch nodes is not reported.
        assert [marks.is_spot for marks in view.marks.values()] == [True]
        assert view.refusals == ()

    scene.play(story)
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


def test_nodes_are_not_read_if_disabled() -> None:
    scene = make_scene(Settings(read_nodes=False))

    async def story() -> None:
        await scene.service.start()
        await until(lambda: "corpus" in scene.seen)
        await asyncio.sleep(0.02)
        assert not [call for call in scene.api.calls if call.resource is Resource.NODE]

    scene.play(story)
