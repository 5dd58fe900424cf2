"""A source that always kills its worker is quarantined; the tolerance decides the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from proving_ground.ground import Ground
from proving_ground.installation.kubectl_plugin import Plugin
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records

COUNT = 20
TOLERATED = Expectation(
    "poison-source-tolerated",
    "A source kills its worker every time, and one is tolerated",
    "19/20",
    "RunSucceeded",
    'strandline_attempts_total{cause="Completed"}',
)


@pytest.mark.parametrize(
    ("tolerate", "ends"), [pytest.param(1, "True", marks=pytest.mark.extended), (0, "False")]
)
def test_a_poison_source(
    ground: Ground, figures: Figures, records: Records, tmp_path: Path, tolerate: int, ends: str
) -> None:
    story = ground.begin(
        "corpus",
        count=COUNT,
        stages=[{"use": "tide:Poison", "with": {"number": 7}}],
        spec={"quarantine": {"after": 1, "tolerate": tolerate}},
    )
    condition = story.wait_for_end()
    assert condition["status"] == ends, story.describe()
    progress = story.status["progress"]
    assert progress["quarantined"] == 1
    assert progress["finished"] == COUNT - 1
    if ends == "False":
        assert condition["reason"] == "QuarantineExceeded"
        title = "A source kills its worker every time, and none is tolerated"
        records.take(ground, story, "poison-source", title)
        figures.note_end("a source kills its worker every time", condition["reason"])
    else:
        records.show(ground, story, TOLERATED)
        figures.note_end("a source kills its worker every time, and one is tolerated", "Completed")
        _release(Plugin(ground.kube, tmp_path))


def _release(plugin: Plugin) -> None:
    """Release the source from quarantine, as a user would after fixing it."""
    listed = plugin.ask("quarantine", "list", "corpus")
    assert "number-0007" in listed.stdout, listed.stderr
    released = plugin.ask("quarantine", "release", "corpus", "number-0007")
    assert released.stdout == "1 source released, to be tried by the next run\n", released.stderr
    again = plugin.ask("quarantine", "release", "corpus", "--all")
    assert (again.returncode, again.stdout) == (0, "nothing is quarantined\n"), again.stderr
