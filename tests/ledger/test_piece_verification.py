"""Verification of gathered pieces finds all kinds of damage, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barn import Barn, barn_at
from strandline.ledger.gather import verification as piece_verification
from strandline.ledger.gather.pieces import find_shard
from strandline.ledger.gather.state import find_merged, find_pack, read_state
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.records.entries import Change


@pytest.fixture
def barn(tmp_path: Path) -> Iterator[Barn]:
    """Yield a ledger with three sources sealed in a pack, and two in a shard."""
    with barn_at(tmp_path) as made:
        made.put("a", "b", "c")
        made.gather(is_whole=True)
        made.put("d", "e")
        yield made


def shard(barn: Barn) -> Path:
    return find_shard(barn.shards, barn.attempt)


def pack(barn: Barn) -> Path:
    return find_pack(barn.shards, barn.state)


def merged(barn: Barn) -> Path:
    return find_merged(barn.shards, barn.state, "words")


def test_intact_pieces_pass_verification(barn: Barn) -> None:
    assert (5, []) == verify_pieces(barn.store, barn.shards)
    assert (5, []) == verify_pieces(barn.store, barn.shards, reads_bytes=False)
    barn.gather()
    assert (5, []) == verify_pieces(barn.store, barn.shards)
    barn.gather(is_whole=True)
    assert (5, []) == verify_pieces(barn.store, barn.shards)


def test_pieces_replaced_meanwhile_are_checked_again(
    barn: Barn, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [barn.state]
    barn.gather(is_whole=True)  # removes the files that the first state names
    monkeypatch.setattr(
        piece_verification, "read_state", lambda store: seen.pop() if seen else read_state(store)
    )
    assert (5, []) == verify_pieces(barn.store, barn.shards)
    assert not seen


def test_unreferenced_bytes_are_ignored(barn: Barn) -> None:
    barn.mark("a")
    barn.mark("d")
    with shard(barn).open("ab") as file:
        file.write(b"half a frame")
    assert (3, []) == verify_pieces(barn.store, barn.shards)


@pytest.mark.parametrize("find", [shard, pack, merged])
def test_changed_bytes_are_found(barn: Barn, find: Callable[[Barn], Path]) -> None:
    path = find(barn)
    path.write_bytes(path.read_bytes()[:-2] + b"z\n")
    (problem,) = verify_pieces(barn.store, barn.shards).problems
    assert "changed since it was written" in problem
    assert [] == verify_pieces(barn.store, barn.shards, reads_bytes=False).problems


@pytest.mark.parametrize("reads_bytes", [True, False])
@pytest.mark.parametrize(("find", "count"), [(shard, 2), (pack, 3), (merged, 1)])
def test_a_missing_file_is_found(
    barn: Barn, find: Callable[[Barn], Path], count: int, reads_bytes: bool
) -> None:
    find(barn).unlink()
    verdict = verify_pieces(barn.store, barn.shards, reads_bytes=reads_bytes)
    assert count == len(verdict.problems)
    assert all("missing" in problem for problem in verdict.problems)


def test_a_truncated_file_is_found(barn: Barn) -> None:
    shard(barn).write_bytes(shard(barn).read_bytes()[:-1])
    for reads_bytes in (True, False):
        assert 1 == len(verify_pieces(barn.store, barn.shards, reads_bytes=reads_bytes).problems)


def test_a_piece_under_another_name_is_found(barn: Barn) -> None:
    shard(barn).write_bytes(shard(barn).read_bytes().replace(b"words", b"other"))
    problems = verify_pieces(barn.store, barn.shards).problems
    assert 2 == len(problems)
    assert all("is not at its recorded position" in problem for problem in problems)


def test_a_missing_piece_in_the_pack_hides_no_other_problem(barn: Barn) -> None:
    content = pack(barn).read_bytes()
    size = len(content) // 3
    pack(barn).write_bytes(content[size:])
    (problem,) = verify_pieces(barn.store, barn.shards).problems
    assert problem.endswith("is missing")


def test_unmerged_pieces_are_found(barn: Barn) -> None:
    barn.gather(is_whole=True)
    spelled = barn.state.to_json()
    spelled["merged"] = {"words": (4, *barn.state.merged["words"][1:])}
    barn.store.write(Change(meta={"gathered": spelled}))
    assert ["stage 'words': 4 of 5 pieces are merged"] == (
        verify_pieces(barn.store, barn.shards).problems
    )
