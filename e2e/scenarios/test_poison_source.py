"""A source that kills its worker every time is parked, and the run ends as the tolerance says."""

from __future__ import annotations

import pytest

from proving_ground.ground import Ground

COUNT = 20


@pytest.mark.parametrize(("tolerate", "ends"), [(1, "True"), (0, "False")])
def test_a_poison_source(ground: Ground, tolerate: int, ends: str) -> None:
    story = ground.begin(
        "corpus",
        count=COUNT,
        stages=[{"use": "tide:Poison", "with": {"number": 7}}],
        spec={"quarantine": {"after": 1, "tolerate": tolerate}},
    )
    condition = story.wait_for_end(300)
    assert condition["status"] == ends, story.tell()
    progress = story.status["progress"]
    assert progress["quarantined"] == 1
    assert progress["finished"] == COUNT - 1
    if ends == "False":
        assert condition["reason"] == "QuarantineExceeded"
