"""A cluster whose nodes join and die during a run.

tests/engine/test_node_losses.py checks the same laws in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from node_trials import SOURCES

PATIENCE = 580
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the program, and return its record. Both runs share one cluster, which starts slowly."""
    program = Path(__file__).with_name("node_trials.py")
    path = tmp_path_factory.mktemp("nodes") / "seen.json"
    done = subprocess.run(
        [sys.executable, str(program), str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(path.read_text())
    return answer


def test_a_node_that_joins_is_used(seen: dict[str, Any]) -> None:
    trial = seen["joins"]
    assert trial["byNode"].get(seen["there"], 0) > 0, seen
    assert trial["most"]["slow"] > 3  # more than the first node can hold
    assert "slow" in trial["bottlenecks"]


@pytest.mark.parametrize("name", ["joins", "dies"])
def test_law_all_sources_finish_once_whatever_nodes_do(seen: dict[str, Any], name: str) -> None:
    trial = seen[name]
    assert (trial["code"], trial["finished"]) == ("COMPLETE", SOURCES), trial
    assert trial["problems"] == []
    assert trial["numbers"] == list(range(SOURCES))


def test_law_data_lost_with_a_node_is_recomputed(seen: dict[str, Any]) -> None:
    trial = seen["dies"]
    assert "data was lost with a node; the affected sources start again" in trial["notes"]
    assert trial["finished"] == SOURCES


def test_a_lost_node_is_detected_and_blames_no_source(seen: dict[str, Any]) -> None:
    trial = seen["dies"]
    assert trial["byNode"].get(seen["there"], 0) > 0, seen  # the node was used until its death
    assert trial["incidents"], trial
