"""What a run gathers that is killed again and again is what one gathers that nobody disturbs."""

from __future__ import annotations

from pathlib import Path

from gather_kills import GatherKills

SEED, KILLS = 8, 5


def test_kills_lose_and_double_nothing_of_what_was_gathered(tmp_path: Path) -> None:
    story = GatherKills(tmp_path).kill(SEED, KILLS)

    assert story.problems == [], story.fired
    assert len(story.fired) == KILLS
