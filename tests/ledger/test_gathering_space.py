"""A whole gathering takes a limited amount of space, and reports a volume that lacks space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from barn import Barn, barn_at, in_order
from strandline.ledger.gather import gather as gathering
from strandline.ledger.gather.merge import MergeError
from strandline.ledger.gather.space import explain_shortage, find_free, measure_need
from strandline.ledger.gather.verification import verify_pieces

WORDS = [f"{number:03d}" + "x" * 5000 for number in range(80)]
SLACK = 40_000  # bytes for a temporary file and for frame headers


@pytest.fixture
def barn(tmp_path: Path) -> Iterator[Barn]:
    with barn_at(tmp_path) as barn:
        yield barn


class Measured:
    """Joins files, and measures the size of all files after the result is written, at the peak."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peak = 0

    def __call__(self, paths: Sequence[Path], out: Path) -> None:
        with out.open("wb") as file:
            for path in paths:
                file.write(path.read_bytes())
        sizes = (path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        self.peak = max(self.peak, sum(sizes))


def refuse(_: Sequence[Path], __: Path) -> None:
    raise ValueError("not today")


def measure_files(barn: Barn) -> int:
    return sum(path.stat().st_size for path in barn.shards.rglob("*") if path.is_file())


def test_law_a_whole_gathering_takes_no_more_than_three_times_the_pieces(barn: Barn) -> None:
    """The space is for the pieces, the joined pieces, and the result; earlier results are extra."""
    for at in range(0, 80, 20):
        barn.put(*WORDS[at : at + 20])
    pieces = measure_files(barn)
    measured = Measured(barn.shards)
    barn.merges["words"] = measured
    barn.gather(is_whole=True)
    assert measured.peak <= 3 * pieces + SLACK
    assert in_order(*WORDS) == barn.merged()
    assert measured.peak - pieces <= measure_need(barn.shards) + SLACK


def test_earlier_merged_files_are_removed_if_space_is_short(
    barn: Barn, monkeypatch: pytest.MonkeyPatch
) -> None:
    barn.put(*WORDS[:40])
    barn.gather()
    barn.put(*WORDS[40:])
    pieces = measure_files(barn) - sum(map(len, WORDS[:40]))
    monkeypatch.setattr(gathering, "find_free", lambda _: 0)
    measured = Measured(barn.shards)
    barn.merges["words"] = measured
    barn.gather(is_whole=True)
    assert measured.peak <= 3 * pieces + SLACK
    assert in_order(*WORDS) == barn.merged()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_pack_without_a_merge_is_a_valid_state(barn: Barn, is_sealed: bool) -> None:
    """The state occurs if a stage cannot merge, or if a kill follows after the pack was written."""
    barn.put("a", "b")
    barn.gather(is_whole=is_sealed)
    barn.put("c")
    barn.merges["words"] = refuse
    with pytest.raises(MergeError):
        barn.gather(is_whole=True)
    barn.merges["words"] = barn.merge
    assert in_order("a", "b") == barn.merged()
    assert not list(barn.shards.glob("*.shard"))
    assert [] == verify_pieces(barn.store, barn.shards).problems
    barn.put("d")
    barn.gather()
    assert sorted("abcd") == sorted(barn.merged())
    barn.put("e")
    barn.gather(is_whole=True)
    assert in_order(*"abcde") == barn.merged()
    assert [] == barn.gather(is_whole=True)
    assert [] == verify_pieces(barn.store, barn.shards).problems


def test_a_stopped_gathering_leaves_the_shards_unchanged(barn: Barn) -> None:
    barn.put("a")
    with pytest.raises(MergeError, match="stopped"):
        barn.gather(is_whole=True, must_stop=lambda: True)
    assert ["000002.shard"] == barn.files()


@pytest.mark.parametrize(("free", "is_short"), [(0, True), (100 << 20, False)])
def test_a_shortage_is_reported_with_the_required_space(
    barn: Barn, free: int, is_short: bool
) -> None:
    assert explain_shortage(barn.shards / "none", lambda _: 0) is None
    barn.put(*WORDS)
    said = explain_shortage(barn.shards, lambda _: free)
    assert is_short == (said is not None)
    if said:
        assert said.startswith(
            f"{barn.shards}: merging the gathered pieces will need up to 1 MiB, "
        )
        assert "and 0 MiB are free" in said
    assert 2 * measure_files(barn) == measure_need(barn.shards)
    assert find_free(barn.shards) > 0
