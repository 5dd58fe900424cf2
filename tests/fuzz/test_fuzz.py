"""A few rounds of the fuzzer, and planted differences that it must report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from drawing import KINDS, Disturbance, Round, draw_round
from fuzz_stages import OPENED
from fuzzing import Fuzz, Play, find_differences, make_environment
from players import InlinePlayer, Played, WorkersPlayer
from stands import Stand
from store_server import require_server, serve
from strandline.storage.faults import STEPS

pytestmark = pytest.mark.first(reason="drawn runs of two engines")

PLAYERS = sorted(KINDS)
# Seed of a round with outputs and artifacts.
TELLING = 106


def in_full_tier(*seeds: int) -> list[ParameterSet]:
    """Return seeds as test parameters of the third tier."""
    return [pytest.param(seed, marks=pytest.mark.full) for seed in seeds]


@pytest.fixture(scope="module")
def inline() -> Iterator[InlinePlayer]:
    player = InlinePlayer(make_environment({}))
    yield player
    player.close()


@pytest.mark.parametrize("seed", [0, 1, *in_full_tier(2, 3, 4, 5)])
def test_a_disturbed_run_equals_an_undisturbed_run(
    inline: InlinePlayer, seed: int, tmp_path: Path
) -> None:
    fuzz = Fuzz(tmp_path, inline)
    assert fuzz.play(seed, inline) == []
    assert fuzz.rounds == {"inline": 1}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", [0, *in_full_tier(1)])
def test_a_disturbed_run_of_forked_workers_equals_an_undisturbed_run(
    inline: InlinePlayer, seed: int, tmp_path: Path
) -> None:
    player = WorkersPlayer(make_environment({}), engine="processes")
    assert Fuzz(tmp_path, inline).play(seed, player) == []


@pytest.mark.full
def test_a_disturbed_run_on_ray_equals_an_undisturbed_run(
    inline: InlinePlayer, tmp_path: Path
) -> None:
    assert Fuzz(tmp_path, inline).play(48, WorkersPlayer(make_environment({}))) == []


@pytest.mark.full
def test_a_disturbed_run_to_a_store_equals_an_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(require_server(), tmp_path / "s3") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        server.open().mkdir("fuzz")
        player = InlinePlayer(make_environment({}))
        try:
            assert Fuzz(tmp_path, player).play(1, player, "s3://fuzz") == []
        finally:
            player.close()


class Tampering:
    """Runs pipelines like another player, and then corrupts the results."""

    name = "inline"

    def __init__(self, player: InlinePlayer, spoil: Callable[[Stand], None]) -> None:
        self._player = player
        self._spoil = spoil

    def run(self, stand: Stand) -> int:
        code = self._player.run(stand)
        self._spoil(stand)
        return code

    def disturb(self, stand: Stand, disturbance: Disturbance) -> Played:
        return self._player.disturb(stand, disturbance)


def lose_output(stand: Stand) -> None:
    next(stand.job.find_folder(stand.volume).output.glob("???/*/*.*")).unlink()


def add_output(stand: Stand) -> None:
    source = next(stand.job.find_folder(stand.volume).output.glob("???/*"))
    (source / "more.json").write_text("[]")


def change_artifact(stand: Stand) -> None:
    artifact = next((stand.job.find_folder(stand.volume).latest / "artifacts").iterdir())
    artifact.write_bytes(artifact.read_bytes() * 2)


def open_again(stand: Stand) -> None:
    log = stand.folder / OPENED
    log.write_text(log.read_text() * 2)


def leave_something(stand: Stand) -> None:
    (stand.temporary / "spool").touch()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lose_output, "outputs missing: 1"),
        (add_output, "outputs too many: 1"),
        (change_artifact, "artifacts not the same: 1"),
        (open_again, "was finished, and opened again"),
        (leave_something, "left over in the temporary folder: spool"),
    ],
)
def test_corrupted_results_are_detected(
    inline: InlinePlayer, tmp_path: Path, spoil: Callable[[Stand], None], words: str
) -> None:
    play = Play(draw_round(TELLING), tmp_path / "round", Tampering(inline, spoil), inline)
    assert [problem for problem in play.find_problems() if words in problem]


@pytest.mark.parametrize(
    ("ours", "problems"),
    [
        ({"a": 1, "b": 2}, []),
        ({"a": 1}, ["things missing: 1, such as 'b'"]),
        ({"a": 1, "b": 2, "c": 3}, ["things too many: 1, such as 'c'"]),
        ({"a": 2, "b": 1}, ["things not the same: 2, such as 'a'"]),
    ],
)
def test_differences_are_described(ours: dict[str, int], problems: list[str]) -> None:
    assert list(find_differences("things", ours, {"a": 1, "b": 2})) == problems


@pytest.mark.parametrize("player", PLAYERS)
def test_a_seed_draws_the_same_round_and_another_one_another(player: str) -> None:
    assert draw_round(7, player) == draw_round(7, player)
    assert draw_round(7, player) != draw_round(8, player)


@pytest.mark.parametrize("player", PLAYERS)
def test_every_kind_of_disturbance_is_drawn_soon(player: str) -> None:
    disturbances = [
        disturbance for seed in range(400) for disturbance in list_disturbances(seed, player)
    ]
    assert {disturbance.kind for disturbance in disturbances} == set(KINDS[player])
    if "kill" in KINDS[player]:
        assert {disturbance.step for disturbance in disturbances} == {"", *STEPS}
    assert {disturbance.trouble for disturbance in disturbances} >= {"", "die", "ValueError"}


def list_disturbances(seed: int, player: str) -> list[Disturbance]:
    chapters = draw_round(seed, player).chapters
    return [chapter.disturbance for chapter in chapters if chapter.disturbance]


@pytest.mark.parametrize("seed", range(40))
def test_the_last_chapter_is_undisturbed_and_versions_are_never_reused(seed: int) -> None:
    told = draw_round(seed)
    assert told.chapters[-1].disturbance is None
    assert all(chapter.disturbance for chapter in told.chapters[:-1])
    used: dict[int, str] = {}
    for chapter in told.chapters:
        for key, version in chapter.sources.items():
            assert used.setdefault(version, key) == key


def test_chains_of_all_shapes_are_drawn() -> None:
    rounds = [draw_round(seed) for seed in range(200)]
    used = {stage["use"].rpartition(":")[2] for told in rounds for stage in told.stages}
    assert used >= {"Split", "Batched", "Joined", "Kept", "Failing", "Trouble", "Tabulate"}
    assert {told.sink["use"] for told in rounds} == {"fuzz_stages:WordSink", "jsonl", "parquet"}
    assert {told.is_shared for told in rounds} == {True, False}
    assert max(count_kinds(told) for told in rounds) > 4


def count_kinds(told: Round) -> int:
    return len({stage["use"] for stage in told.stages})
