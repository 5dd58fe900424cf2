"""The user's view of each obstacle after 1, 5, and 30 minutes, on a real API server.

One operator serves a namespace for each scene. Its clock and the dates of the server's responses
are set ahead by these minutes, so the objects written at the start have this age. The golden text
is a page of the documentation; `pytest --update-golden` writes the page.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from api_server import ROOT, ApiServer
from counting_proxy import run_proxy
from kube_client import KubeClient, spell_path
from obstacle_scenes import Cluster, list_scenes
from operator_process import QUICK, OperatorProcess, run_skewed_operator
from operator_stories import spell_pipeline
from recordings import Json
from test_operator_obstacles import PATIENCE, grant
from waiting import wait_until

PAGE = ROOT / "docs" / "obstacles.md"
ALERTS = ROOT / "charts" / "strandline" / "files" / "alerts.yaml"
MINUTES = (1, 5, 30)
LATE_SECONDS = 30.0  # seconds from each of these minutes to the look
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Passes run every two seconds, and most effects need a few passes.
SETTLE_SECONDS = 15.0
# Slow machines need more time: repeat until nothing changes for this time, at most so many times.
STILL_SECONDS, MOST_LOOKS = 5.0, 12
SAME = "″"  # ditto mark
HEAD = (
    "# What an obstacle looks like\n\n"
    "Recognize why a pipeline does not run: each table shows an obstacle after 1, 5, and 30 "
    "minutes. PHASE and STATE are columns of `kubectl get cpipe`. See "
    "[Reasons](failures.md#reasons) for remedies.\n\n"
    f"A cell with {SAME} repeats the cell above. TIME and N stand for values that vary.\n"
)
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\dZ?\b"), "TIME"),
    (re.compile(r"\bt-\d+-[0-9a-f]{6}\b"), "team"),
    (re.compile(r"\bhome-\d+-[0-9a-f]{6}\b"), "strandline"),
    (re.compile(r"\b\d+ (s|min|m|h|seconds|minutes)\b"), r"N \1"),
    (re.compile(r"uid [0-9a-f-]{36}"), "uid UID"),
)


class Sight(NamedTuple):
    """A pipeline as users see it at one moment.

    Attributes:
        pipeline: phase and state.
        attempt: name, phase, and message of the newest attempt, or empty strings.
        warnings: numbers of warning events by reason.
        conditions: status and reason of each condition, by type.
    """

    pipeline: tuple[str, str]
    attempt: tuple[str, str, str]
    warnings: Counter[str]
    conditions: dict[str, tuple[str, str]]


def mask(text: str) -> str:
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


def look(client: KubeClient, namespace: str, name: str) -> Sight:
    body = client.get("CurationPipeline", name, namespace) or {}
    status: Json = body.get("status", {})
    attempts = [
        each
        for each in client.list("CurationAttempt", namespace)
        if each["spec"]["pipeline"] == name
    ]
    newest = max(attempts, key=lambda each: each["spec"]["number"], default=None)
    told: Counter[str] = Counter()
    for event in client.list("Event", namespace):
        about = event["involvedObject"]
        if event["type"] == "Warning" and about["kind"].startswith("Curation"):
            told[event["reason"]] += event.get("count") or 1
    return Sight(
        show_row(client, namespace, name),
        ("", "", "") if newest is None else describe_attempt(newest),
        told,
        {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", ())},
    )


def show_row(client: KubeClient, namespace: str, name: str) -> tuple[str, str]:
    """Return the columns PHASE and STATE, as the server prints them."""
    path = spell_path("CurationPipeline", namespace, name)
    table = client.ask("GET", path, accept=TABLE)
    names = [column["name"].upper() for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    cells = dict(zip(names, row["cells"], strict=True))
    return str(cells["PHASE"] or ""), str(cells["STATE"] or "")


def describe_attempt(body: Json) -> tuple[str, str, str]:
    status = body.get("status", {})
    number = str(body["spec"]["number"])
    return number, str(status.get("phase", "")), str(status.get("message", ""))


def find_alert(sights: list[Sight]) -> str:
    """Return the alert that fires for a stuck pipeline at the last look, or an empty string."""
    reasons = [sight.conditions.get("Succeeded", ("", ""))[1] for sight in sights]
    if sights[-1].pipeline[0] == "Failed":
        return "StrandlineRunFailed"
    # The alert fires after 15 minutes, so only the last look can show it.
    (blocked,) = [rule for rule in list_rules() if rule["alert"] == "StrandlinePipelinesBlocked"]
    pattern = re.search(r'reason=~"([^"]+)"', blocked["expr"])
    assert pattern is not None
    is_late = len(sights) == len(MINUTES) and re.fullmatch(pattern[1], reasons[-1])
    return str(blocked["alert"]) if is_late else ""


def list_rules() -> list[Json]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    listed = groups["groups"] if isinstance(groups, dict) else groups
    return [rule for group in listed for rule in group["rules"]]


def spell_section(title: str, sights: list[Sight]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| After | PHASE | STATE | Attempt | Its MESSAGE | Warnings | Conditions | Alert |"
    yield "|---|---|---|---|---|---|---|---|"
    above: list[str] = []
    for at, minutes in enumerate(MINUTES):
        sight = sights[at]
        conditions = ", ".join(
            f"{name}={truth}: {reason}"
            for name, (truth, reason) in sorted(sight.conditions.items())
        )
        number, phase, message = sight.attempt
        cells = [
            *sight.pipeline,
            f"{number} {phase}".strip(),
            message,
            ", ".join(sorted(sight.warnings)),
            conditions,
            find_alert(sights[: at + 1]),
        ]
        masked = [mask(cell).replace("|", "/") for cell in cells]
        yield f"| {minutes} min | {' | '.join(mark_repetitions(masked, above))} |"
        above = masked


def mark_repetitions(cells: list[str], above: list[str]) -> list[str]:
    """Replace cells that equal the cell above with a ditto mark. Empty cells stay empty."""
    pairs = zip(cells, above or [""] * len(cells), strict=True)
    return [SAME if cell and cell == before else cell for cell, before in pairs]


@pytest.mark.timeout(900)
def test_the_page_shows_what_users_see_of_each_obstacle(
    request: pytest.FixtureRequest, api_server: ApiServer, client: KubeClient, tmp_path: Path
) -> None:
    home = api_server.make_namespace("home")
    kubeconfig = api_server.make_account(home, "operator")
    scenes = list_scenes()
    places = {title: api_server.make_namespace() for title in scenes}
    for title, scene in scenes.items():
        grant(client, places[title], home, scene.missing)
        scene.prepare(client, places[title])
        client.create(spell_pipeline(scene.name, **scene.spec), places[title])
    clusters = [Cluster(client, places[title], scene) for title, scene in scenes.items()]
    clock = tmp_path / "clock"
    clock.write_text("0")
    with run_proxy(kubeconfig, tmp_path) as proxy:
        words = ("--namespaces", ",".join(places.values()))
        with run_skewed_operator(proxy.kubeconfig, tmp_path, clock, *words, **QUICK) as operator:
            seen = {title: list[Sight]() for title in scenes}

            def look_at_all() -> dict[str, Sight]:
                return {
                    title: look(client, places[title], scene.name)
                    for title, scene in scenes.items()
                }

            wait_until(lambda: all(sight.conditions for sight in look_at_all().values()), PATIENCE)
            play(clusters, operator, look_at_all)
            for minutes in MINUTES:
                proxy.ahead = 60.0 * minutes + LATE_SECONDS
                clock.write_text(str(proxy.ahead))
                for cluster in clusters:
                    cluster.go_on(proxy.ahead)
                for title, sight in play(clusters, operator, look_at_all).items():
                    seen[title].append(sight)
    text = HEAD + "\n".join(line for title in scenes for line in spell_section(title, seen[title]))
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{text}\n", encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == f"{text}\n"


def play(
    clusters: list[Cluster], operator: OperatorProcess, look_at_all: Callable[[], dict[str, Sight]]
) -> dict[str, Sight]:
    """Alternate between the operator and the cluster until nothing changes."""
    pass_by(clusters, operator, SETTLE_SECONDS)
    sights = look_at_all()
    for _ in range(MOST_LOOKS):
        pass_by(clusters, operator, STILL_SECONDS)
        before, sights = sights, look_at_all()
        if before == sights:
            break
    return sights


def pass_by(clusters: list[Cluster], operator: OperatorProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert operator.is_alive, operator.tail
        for cluster in clusters:
            cluster.tick()
        time.sleep(0.2)
