"""After a notice, work that fits in the remaining time ends on the node, and no work is repeated.

tests/engine/test_leaving_workers.py and test_node_losses.py check the same laws in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from notice_trials import PARTS, SECONDS, SOURCES

PATIENCE = 580
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the program, and return its record. All runs share one cluster, which starts slowly."""
    program = Path(__file__).with_name("notice_trials.py")
    path = tmp_path_factory.mktemp("notices") / "seen.json"
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


TOLD = ("told", "chained", "parts", "served")


@pytest.mark.parametrize("name", [*TOLD, "taken"])
def test_law_all_sources_finish_with_or_without_a_notice(seen: dict[str, Any], name: str) -> None:
    trial = seen[name]
    assert trial["gone"], trial
    sources = SOURCES // PARTS if name == "parts" else SOURCES
    assert (trial["code"], trial["finished"]) == ("COMPLETE", sources), trial
    assert trial["problems"] == []


@pytest.mark.parametrize("name", TOLD)
def test_law_no_work_is_repeated_if_the_notice_is_longer_than_the_tasks(
    seen: dict[str, Any], name: str
) -> None:
    trial = seen[name]
    assert trial["left"] is not None, trial
    assert trial["incidents"] == []
    assert not any("was lost" in note for note in trial["notes"]), trial
    assert trial["again"] == {"first": 0, "second": 0}
    assert set(trial["lost"].values()) == {0.0}
    assert trial["worked"] > SOURCES * SECONDS / 2


def test_without_a_notice_the_nodes_work_is_repeated(seen: dict[str, Any]) -> None:
    trial = seen["taken"]
    assert trial["incidents"], trial
    assert sum(trial["again"].values()) > 0, trial
    assert 0.0 < trial["lost"]["node"] < trial["worked"], trial
