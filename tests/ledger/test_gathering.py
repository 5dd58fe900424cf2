"""Gathering merges every finished source once, in order, however often and whenever it runs."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barn import Barn, barn_at, in_order
from example_counts import scale_examples
from ledger_builders import opened
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.merge import FAN_IN, MergeError, MergeTree
from strandline.ledger.gather.pieces import find_shard
from strandline.ledger.gather.state import find_merged, find_pack
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.records.entries import Change
from strandline.storage.errors import VolumeError

KEYS = [f"{one}{two}" for one in ascii_lowercase[:9] for two in ascii_lowercase[:9]]


@pytest.fixture
def barn(tmp_path: Path) -> Iterator[Barn]:
    with barn_at(tmp_path) as made:
        yield made


def test_a_whole_gathering_is_in_the_order_of_the_ledger(barn: Barn) -> None:
    barn.put("d", "a")
    barn.put("c", "b")
    barn.gather(is_whole=True)
    assert in_order("a", "b", "c", "d") == barn.merged()


def test_an_intermediate_gathering_reads_only_new_pieces(barn: Barn) -> None:
    barn.put("a", "b", "c")
    barn.gather()
    before = barn.merged()
    barn.put("d", "e")
    find_shard(barn.shards, 2).unlink()  # merged pieces must not be read again
    barn.gather()
    assert before + in_order("d", "e") == barn.merged()


def test_the_final_gathering_reads_everything_again(barn: Barn) -> None:
    barn.put("a", "b", "c")
    barn.gather()
    barn.put("d", "e")
    barn.gather()
    barn.gather(is_whole=True)
    assert in_order("a", "b", "c", "d", "e") == barn.merged()


def test_a_gathering_with_nothing_new_reads_nothing(barn: Barn) -> None:
    barn.put("a", "b")
    barn.gather()
    assert [] == barn.gather()
    barn.gather(is_whole=True)
    assert [] == barn.gather(is_whole=True)
    assert [] == barn.gather()
    assert in_order("a", "b") == barn.merged()


def test_pack_and_merged_file_replace_shards(barn: Barn) -> None:
    barn.put("a")
    barn.put("b")
    barn.gather()
    assert ["000001.merged", "000002.shard", "000003.shard"] == barn.files()
    barn.gather(is_whole=True)
    assert ["000002.merged", "000002.pack"] == barn.files()
    barn.put("c")
    barn.gather(is_whole=True)
    assert ["000003.merged", "000003.pack"] == barn.files()
    assert in_order("a", "b", "c") == barn.merged()


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_redone_source_replaces_its_pieces(barn: Barn, is_sealed: bool, is_whole: bool) -> None:
    barn.put("a", "b", "c")
    barn.gather(is_whole=is_sealed)
    barn.mark("b")
    barn.gather(is_whole=is_whole)
    assert in_order("a", "c") == barn.merged()
    barn.put("b", version="2")
    barn.gather(is_whole=True)
    assert {"a", "b2", "c"} == set(barn.merged())
    assert [] == verify_pieces(barn.store, barn.shards).problems


def test_a_removed_source_removes_its_pieces(barn: Barn) -> None:
    barn.put("a", "b")
    barn.gather(is_whole=True)
    barn.drop("a")
    barn.gather()
    assert ["b"] == barn.merged()
    barn.drop("b")
    barn.gather(is_whole=True)
    assert {} == barn.state.merged
    assert b"" == find_pack(barn.shards, barn.state).read_bytes()


def test_a_dropped_source_that_was_never_gathered_leaves_no_trace(barn: Barn) -> None:
    barn.put("a", "b")
    barn.mark("a")
    barn.gather()
    assert ["b"] == barn.merged()


def test_stages_are_merged_separately(tmp_path: Path) -> None:
    with barn_at(tmp_path, "words", "lines") as barn:
        barn.put("a", stages=("words", "lines"))
        barn.put("b", stages=("lines",))
        barn.gather(is_whole=True)
        assert ["a"] == barn.merged("words")
        assert in_order("a", "b") == barn.merged("lines")


def test_a_stage_that_was_removed_and_restored_has_all_its_pieces(tmp_path: Path) -> None:
    with barn_at(tmp_path, "words", "lines") as barn:
        barn.put("a", stages=("words", "lines"))
        barn.gather(is_whole=True)
        lines = barn.merges.pop("lines")
        barn.put("b")
        barn.gather(is_whole=True)
        assert {"words"} == barn.state.merged.keys()
        barn.merges["lines"] = lines
        barn.gather()
        assert ["a"] == barn.merged("lines")


def test_a_lost_merged_file_is_made_again(barn: Barn) -> None:
    barn.put("a", "b")
    barn.gather(is_whole=True)
    find_merged(barn.shards, barn.state, "words").unlink()
    barn.gather()
    assert in_order("a", "b") == barn.merged()


@pytest.mark.parametrize("is_sealed", [True, False])
def test_damaged_pieces_end_the_gathering_and_keep_merged_files(
    barn: Barn, is_sealed: bool
) -> None:
    barn.put("a", "b")
    barn.gather(is_whole=is_sealed)
    before = barn.merged()
    path = find_pack(barn.shards, barn.state) if is_sealed else find_shard(barn.shards, 2)
    path.write_bytes(path.read_bytes().replace(b"a\n", b"x\n"))
    barn.put("c")
    with pytest.raises(LedgerError, match="changed since it was written; restore it"):
        barn.gather(is_whole=True)
    assert before == barn.merged()


def test_pieces_that_a_stage_cannot_merge_stay_for_later(barn: Barn) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no")

    barn.put("a")
    works = barn.merges["words"]
    barn.merges["words"] = refuse
    with pytest.raises(MergeError, match="stage 'words' can't merge its gathered pieces: Value"):
        barn.gather(is_whole=True)
    barn.merges["words"] = works
    barn.gather(is_whole=True)
    assert ["a"] == barn.merged()
    assert ["000001.merged", "000002.pack"] == barn.files()


def test_a_merge_without_space_leaves_no_files(barn: Barn) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    barn.put("a")
    barn.merges["words"] = fill
    with pytest.raises(VolumeError, match="no space is left on the volume"):
        barn.gather(is_whole=True)
    assert ["000001.pack"] == barn.files()  # the pack has replaced the shard


def test_a_merge_may_move_the_one_file_it_was_given(barn: Barn) -> None:
    def move(paths: Sequence[Path], out: Path) -> None:
        paths[0].rename(out)

    barn.merges["words"] = move
    barn.put("a")
    barn.gather()
    assert ["a"] == barn.merged()


def test_a_brief_gathering_skips_pieces_to_reread(barn: Barn) -> None:
    barn.put("a", "b")
    barn.gather(is_whole=True)
    barn.put("c")
    assert [*in_order("a", "b"), "c"] == barn.gather(is_brief=True)
    barn.drop("a")
    barn.put("d")
    assert [] == barn.gather(is_brief=True)
    assert in_order("b", "c", "d") == barn.gather(is_whole=True)


def test_shards_without_finished_sources_are_removed(barn: Barn) -> None:
    barn.put("a")
    barn.gather(is_whole=True)
    for _ in range(3):
        barn.put("b")
        barn.drop("b")
    barn.gather(is_whole=True)
    barn.gather(is_whole=True)
    assert ["000002.merged", "000002.pack"] == barn.files()
    find_shard(barn.shards, barn.attempt).write_bytes(b"of a source that failed")
    barn.gather(is_whole=True)
    assert ["000002.merged", "000002.pack"] == barn.files()


def test_a_merge_that_writes_nothing_is_reported(barn: Barn) -> None:
    barn.put("a")
    barn.merges["words"] = lambda paths, out: None
    with pytest.raises(MergeError, match="'words' returned no file from the merge of 1 files"):
        barn.gather()


def test_a_stopped_merge_changes_nothing(barn: Barn) -> None:
    barn.put("a")
    with pytest.raises(MergeError, match="was stopped"):
        barn.gather(must_stop=lambda: True)
    barn.gather()
    assert ["a"] == barn.merged()


@pytest.mark.parametrize("is_dropping", [True, False])
def test_sources_that_finish_during_a_gathering_are_gathered_next_time(
    barn: Barn, is_dropping: bool
) -> None:
    barn.put("a", "b")
    merge = barn.merge

    def finish_another(*arguments: object) -> None:
        if "c" not in {record.key for _, _, record in barn.store.list_records()}:
            barn.put("c")
            if is_dropping:
                barn.mark("b")
        merge(*arguments)  # type: ignore[arg-type]

    barn.merges["words"] = finish_another
    barn.gather()
    assert in_order("a", "b") == barn.merged()  # the state when the gathering started
    barn.gather()
    assert {"a", "c", *([] if is_dropping else ["b"])} == set(barn.merged())
    assert [] == barn.gather()


@settings(max_examples=scale_examples(25), deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "mark", "drop", "gather", "whole"]),
            st.sets(st.sampled_from(KEYS[:12]), min_size=1, max_size=5),
        ),
        max_size=12,
    )
)
def test_law_merged_files_hold_exactly_the_finished_sources(
    steps: list[tuple[str, set[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with barn_at(tmp_path_factory.mktemp("barn")) as barn:
        finished: dict[str, str] = {}
        for number, (step, keys) in enumerate(steps, 2):
            if step in {"gather", "whole"}:
                barn.gather(is_whole=step == "whole")
                assert sorted(finished.values()) == sorted(
                    barn.merged() if barn.state.merged else []
                )
                continue
            for key in sorted(keys):
                finished.pop(key, None)
                barn.drop(key) if step == "drop" else barn.mark(key)
            if step == "put":
                barn.put(*sorted(keys), version=str(number))
                finished |= {key: f"{key}{number}" for key in keys}
        barn.gather(is_whole=True)
        ordered = [finished[key] for key in in_order(*finished)]
        assert ordered == (barn.merged() if barn.state.merged else [])
        assert [] == verify_pieces(barn.store, barn.shards).problems


@settings(max_examples=scale_examples(25), deadline=None)
@given(count=st.integers(0, 300))
def test_law_a_tree_of_merges_keeps_the_order_with_few_files(
    count: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    most, widest = 0, 0

    def concatenate(paths: object, out: Path) -> None:
        nonlocal widest
        given_paths = list(paths)  # type: ignore[call-overload]
        widest = max(widest, len(given_paths))
        out.write_text("".join(path.read_text() for path in given_paths))

    tree = MergeTree("words", concatenate, folder, lambda: False)
    for number in range(count):
        tree.add(f"{number} ".encode())
        most = max(most, len(list(folder.iterdir())))
    tree.finish(folder / "out")
    assert [str(number) for number in range(count)] == (folder / "out").read_text().split()
    assert most <= 3 * FAN_IN
    assert widest <= 2 * FAN_IN
    assert ["out"] == [path.name for path in folder.iterdir()]


def test_a_ledger_older_than_pieces_can_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write(Change(meta={"x": 1}))
    environment = lmdb.open(str(tmp_path), max_dbs=8)
    with environment.begin(write=True) as txn:
        txn.drop(environment.open_db(b"ungathered", txn=txn))
    environment.close()
    with opened(tmp_path, readonly=True) as store:
        assert (0, []) == verify_pieces(store, tmp_path / "shards")
