"""`kubectl strandline` reads a volume during and after a run, and changes it when allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.installation.kubectl_plugin import Plugin
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT, EARLY = 120, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
JOBS = "strandline.dev/command"


@pytest.fixture
def plugin(ground: Ground, tmp_path: Path) -> Plugin:
    return Plugin(ground.kube, tmp_path)


def _is_idle(ground: Ground) -> bool:
    return ground.kube.list_all("pods", JOBS) == []


def test_the_plugin_beside_a_run_and_after_it(
    ground: Ground, plugin: Plugin, tmp_path: Path
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK], finished=EARLY)
    beside = plugin.ask("ledger", "stats", "corpus", "--json")
    assert beside.returncode == 0, beside.stderr
    assert '"attempt": 1' in beside.stdout
    refused = plugin.ask("quarantine", "release", "corpus", "--all")
    assert (refused.returncode, refused.stdout) == (69, "")
    assert "attempt 1 of corpus is under way" in refused.stderr
    log = plugin.ask("logs", "corpus")
    assert log.returncode == 0, log.stderr
    with ground.held():
        _check_beside(plugin, tmp_path, story)
    assert plugin.ask("wait", "corpus", "--timeout", "400").returncode == 0, story.describe()
    _check_at_rest(plugin, tmp_path, story)
    story.wait_until("no pods of commands are left", lambda: _is_idle(ground), 60)
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]


def _check_beside(plugin: Plugin, folder: Path, story: Story) -> None:
    verdict = plugin.ask("verify", "corpus")
    assert verdict.returncode == 0, verdict.stderr
    assert "verified: " in verdict.stdout
    page = plugin.ask("report", "corpus")
    assert page.returncode == 0, page.stderr
    (folder / "report.html").unlink()
    copied = plugin.ask("ledger", "backup", "corpus", "--to", "beside.mdb")
    assert copied.returncode == 0, copied.stderr
    assert story.condition("Succeeded")["status"] == "Unknown", "the run was over too soon"


def _check_at_rest(plugin: Plugin, folder: Path, story: Story) -> None:
    story.wait_for_cause(1, 120)
    verdict = plugin.ask("verify", "corpus")
    assert verdict.returncode == 0, verdict.stderr
    assert f"verified: {COUNT} finished sources" in verdict.stdout
    page = plugin.ask("report", "corpus")
    assert page.returncode == 0, page.stderr
    assert (folder / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")
    released = plugin.ask("quarantine", "release", "corpus", "--all")
    assert (released.returncode, released.stdout) == (0, "nothing is quarantined\n")
    unknown = plugin.ask("quarantine", "release", "corpus", "no-such-key")
    assert (unknown.returncode, unknown.stdout) == (64, ""), unknown.stderr
    copied = plugin.ask("cp", "corpus:output", "out")
    assert copied.returncode == 0, copied.stderr
    assert len([path for path in (folder / "out").rglob("*") if path.is_file()]) >= COUNT
    _check_copies(plugin)


def _check_copies(plugin: Plugin) -> None:
    """Restore the backup made during the run, then a backup made after its end."""
    copied = plugin.ask("ledger", "backup", "corpus", "--to", "rest.mdb")
    assert copied.returncode == 0, copied.stderr
    for name, is_whole in (("beside.mdb", False), ("rest.mdb", True)):
        restored = plugin.ask("ledger", "restore", "corpus", "--from", name)
        assert restored.returncode == 0, restored.stderr
        assert "the replaced ledger is in" in restored.stdout
        facts = json.loads(plugin.ask("ledger", "stats", "corpus", "--json").stdout)
        assert (facts["finished"] >= EARLY, facts["finished"] == COUNT) == (True, is_whole)
    verdict = plugin.ask("verify", "corpus")
    assert f"verified: {COUNT} finished sources" in verdict.stdout, verdict.stderr
