"""Kills of the operator and failed requests do not change how a run ends.

`make soak-operator` runs many more schedules.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from api_server import ApiServer
from counting_proxy import CountingProxy, Disturber, Kind
from kill_trials import Finding, Trial, compare, judge, match_causes, tell
from kube_client import KubeClient
from operator_stories import STORIES, Performance
from overlap_watch import OverlapWatch
from recordings import Json
from run_operator_soak import draw_trials, tabulate
from troubles import KillPoint, KillSchedule, RandomTroubles

KILLS = 10
BETWEEN = 6  # changes between two kills; the story makes about sixty changes


def tell_story(
    server: ApiServer, watch: OverlapWatch, folder: Path, story: str, disturber: Disturber
) -> tuple[CountingProxy, Json]:
    """Run a story, and return the proxy and the end."""
    with closing(KubeClient(server.kubeconfig)) as client:
        performance = Performance.open(server, client, STORIES[story])
        faults, proxy = tell(server, folder, performance, disturber, story)
        watch.catch_up()
        assert faults + judge(performance, watch, None) == []
        end = performance.end
        client.delete("Namespace", performance.namespace)
    return proxy, end


def test_ten_kills_of_the_operator_do_not_change_the_run(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    points = [KillPoint(3 + BETWEEN * at, is_late=at % 2 == 1) for at in range(KILLS)]
    schedule = KillSchedule(points)
    proxy, end = tell_story(api_server, overlap_watch, tmp_path, "fails twice", schedule)
    assert [call.change for call, _ in proxy.troubles] == [point.count for point in points]
    assert (end["numbers"], end["left"]) == ([1, 2, 3], [])
    assert {name: end["retries"][name] for name in ("attempts", "retries", "disruptions")} == {
        "attempts": 3,
        "retries": 2,
        "disruptions": 0,
    }


def test_random_request_failures_do_not_change_a_runs_end(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    troubles = RandomTroubles("smoke", rate=0.04)
    proxy, end = tell_story(api_server, overlap_watch, tmp_path, "out of memory", troubles)
    assert {trouble.kind for _, trouble in proxy.troubles} == set(Kind) - {Kind.KILLED}
    assert end["numbers"] == [1, 2]


# Rules for the comparison of ends.

PEACE: Json = {
    "phase": "Succeeded",
    "attempt": 2,
    "run": "first",
    "conditions": {},
    "numbers": [1, 2],
    "left": [],
    "claim": True,
    "retries": {"attempts": 2, "retries": 0, "disruptions": 1, "through": 2},
    "memory": {"cpu": "12Gi"},
    "causes": ["Preempted", ""],
}


def test_an_end_is_compared_in_full() -> None:
    assert compare(PEACE, PEACE) == []
    for name in PEACE.keys() - {"causes"}:
        assert len(compare({**PEACE, name: "other"}, PEACE)) == 1, name


def test_a_second_best_cause_is_charged_once_to_either_budget() -> None:
    retries = {"attempts": 2, "retries": 1, "disruptions": 0, "through": 2}
    end = {**PEACE, "causes": ["ApplicationError", ""], "memory": None, "retries": retries}
    assert compare(end, PEACE) == []
    for doubled in ({**retries, "disruptions": 1}, {**retries, "attempts": 3}):
        assert compare({**end, "retries": doubled}, PEACE) != []


@pytest.mark.parametrize(
    ("causes", "is_right"),
    [
        (["Preempted", ""], True),
        (["Interrupted", ""], True),
        (["", ""], False),
        (["Preempted"], False),
        (["Preempted", "", ""], False),
    ],
)
def test_causes_must_be_allowed_by_the_story(causes: list[str], is_right: bool) -> None:
    assert match_causes(causes, ["Preempted|Interrupted", ""]) is is_right


def make_finding(story: str, *points: KillPoint, faults: int = 0) -> Finding:
    trial = Trial(story, points, "seed")
    return Finding(trial, {}, 200, 30, len(points), 1.0, ["fault"] * faults)


def test_schedules_repeat_for_a_seed_and_cover_every_story() -> None:
    peace = {name: make_finding(name) for name in ("goes well", "deleted")}
    trials = list(draw_trials(peace, 100, "7"))
    assert trials == list(draw_trials(peace, 100, "7"))
    assert trials != list(draw_trials(peace, 100, "8"))
    assert len({trial.seed for trial in trials}) == 100
    for name in peace:
        own = [point for trial in trials if trial.story == name for point in trial.points]
        changes = [point.count for point in own if not point.of_all]
        assert {count * 5 // 31 for count in changes} == set(range(5))
        assert 1 <= min(changes) <= max(changes) <= 30
        assert {point.is_late for point in own} == {True, False}


def test_the_table_counts_the_right_ends_of_each_story() -> None:
    kill = KillPoint(3)
    findings = [
        make_finding("goes well"),
        make_finding("goes well", kill, kill),
        make_finding("goes well", kill, faults=1),
    ]
    table = tabulate(findings, "7").splitlines()
    assert table[0] == "2 schedules with 3 kills, SEED=7; 1 came to the end of peace."
    assert table[-1] == "| goes well | 1 | 30, 200 | 2 | 3 | 1 of 2 |"
