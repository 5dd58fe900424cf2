"""Recordings of Karpenter on a real API server, as the operator reads them.

`make karpenter` makes the recordings. Each file has every version of nodes, pods, NodeClaims, and
events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.disruptions import Disruption
from strandline_operator.decide.attempts.drains import read_drain
from strandline_operator.decide.evidence.disruptions import find_taking
from strandline_operator.decide.obstacles.room.findings import RoomFinding, RoomKind, find_room
from strandline_operator.model.nodes.marks import NodeMarks, read_marks
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Pod

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "karpenter"


@dataclass
class Recording:
    """A story, played until a pod is gone or until the end.

    Attributes:
        nodes, pods: last version of each object, by name.
        events: all events.
    """

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    events: dict[str, Json] = field(default_factory=dict)

    @classmethod
    def play(cls, story: str, until_gone: str = "") -> Recording:
        """Play a story."""
        recording = cls()
        lines = (RECORDINGS / f"{story}.jsonl").read_text(encoding="utf-8").splitlines()
        for line in map(json.loads, lines[1:]):
            if line.get("gone") and line["gone"] == until_gone:
                return recording
            body = line.get("object")
            kinds = {"Node": recording.nodes, "Pod": recording.pods, "Event": recording.events}
            if body is not None and line["kind"] in kinds:
                kinds[line["kind"]][body["metadata"]["name"]] = body
        return recording

    def read_pod(self, name: str) -> Pod:
        return Pod.read(self.pods[name])

    def read_marks(self, pod: str) -> NodeMarks:
        return read_marks(self.nodes[self.pods[pod]["spec"]["nodeName"]])

    @property
    def notices(self) -> tuple[Notice, ...]:
        return tuple(map(Notice.read, self.events.values()))


def find_recorded_room(story: str) -> RoomFinding | None:
    recording = Recording.play(story)
    now = max(notice.time for notice in recording.notices)
    return find_room(recording.read_pod("worker"), recording.notices, None, now)


@pytest.mark.parametrize(
    ("story", "pod", "kind"),
    [
        ("consolidated", "small", Disruption.NODE_CONSOLIDATED),
        # Karpenter gives no reason for forced removals.
        ("expired", "worker", Disruption.NODE_DISRUPTED),
        ("taken-back", "worker", Disruption.NODE_DISRUPTED),
    ],
)
def test_an_eviction_by_karpenter_is_a_disruption(story: str, pod: str, kind: Disruption) -> None:
    recording = Recording.play(story, until_gone=pod)
    taking = find_taking(recording.read_pod(pod), recording.read_marks(pod), recording.notices)
    assert taking is not None
    assert (taking.kind, taking.kind.cause) == (kind, Cause.EVICTED)
    assert taking.node in taking.sentence
    assert taking.is_spot == (story != "consolidated")


def test_karpenters_mark_on_a_node_is_seen_before_its_pod_goes() -> None:
    recording = Recording.play("consolidated", until_gone="small")
    drain = read_drain(recording.read_marks("small"))
    assert drain is not None
    assert drain.heeds_annotations


def test_a_node_held_by_a_protected_pod_shows_no_drain() -> None:
    recording = Recording.play("held-back")
    assert read_drain(recording.read_marks("head")) is None


@pytest.mark.parametrize("story", ["too-large", "limits-near"])
def test_karpenter_reports_large_pods_and_nearly_full_pools_alike(
    story: str,
) -> None:
    finding = find_recorded_room(story)
    assert finding is not None
    assert "no instance type has enough resources" in finding.words
    # The pool may be full only at the moment, so this finding must not end the run.
    assert not finding.is_certain


def test_a_nominated_node_is_on_its_way() -> None:
    recording = Recording.play("expired")
    pending = next(
        line["object"]
        for line in map(json.loads, (RECORDINGS / "expired.jsonl").read_text().splitlines()[1:])
        if line["kind"] == "Pod" and "Unschedulable" in json.dumps(line.get("object"))
    )
    nominated = [notice for notice in recording.notices if notice.reason == "Nominated"]
    finding = find_room(Pod.read(pending), nominated, None, nominated[0].time)
    assert finding is not None
    assert finding.kind is RoomKind.ON_ITS_WAY
