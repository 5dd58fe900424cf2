"""Laws of buckets: the effects of an added file, and independence of the listing order."""

import os
from collections.abc import Generator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun, Tree
from strandline.data.files.buckets import digest_members, find_bucket, pack_buckets
from strandline.data.files.listed import ListedFile

KEYS = st.lists(st.text(min_size=1, max_size=12).filter(lambda key: "\0" not in key), unique=True)
KEYS = KEYS.map(lambda keys: [key for key in keys if key.isprintable()])


def entries_of(keys: list[str]) -> list[ListedFile]:
    return [ListedFile(key, "/" + key, len(key), 7, f"{len(key)}+7") for key in keys]


@given(KEYS, st.integers(1, 20), st.randoms(use_true_random=False))
def test_the_listing_does_not_depend_on_the_order_of_the_scan(
    keys: list[str], buckets: int, random: Random
) -> None:
    shuffled = list(keys)
    random.shuffle(shuffled)
    first = [(s.key, s.version, s.data) for s in pack_buckets(entries_of(keys), buckets)]
    second = [(s.key, s.version, s.data) for s in pack_buckets(entries_of(shuffled), buckets)]
    assert first == second


@given(KEYS, st.integers(1, 20))
def test_every_file_is_in_the_one_bucket_of_its_key(keys: list[str], buckets: int) -> None:
    for source in pack_buckets(entries_of(keys), buckets):
        members = source.data["key"].to_pylist()
        assert members
        assert members == sorted(members)
        for key in members:
            expected = f"bucket/{find_bucket(key, buckets):05d}-of-{buckets:05d}"
            assert expected == source.key
            keys.remove(key)
    assert [] == keys


@given(KEYS.filter(len), st.integers(1, 20))
def test_adding_a_file_changes_one_bucket(keys: list[str], buckets: int) -> None:
    def versions(some: list[str]) -> set[tuple[str, str]]:
        return {(source.key, source.version) for source in pack_buckets(entries_of(some), buckets)}

    before, after = versions(keys[1:]), versions(keys)
    ((changed, _),) = after - before
    assert f"bucket/{find_bucket(keys[0], buckets):05d}-of-{buckets:05d}" == changed
    assert {changed} >= {key for key, _ in before - after}


def test_a_changed_file_changes_its_bucket(run: type[StageRun], tree: Tree) -> None:
    root = tree(*(f"{index}.txt" for index in range(30)))
    files = run("files", paths=[f"{root}/*.txt"], buckets=8)
    before = {source.key: source.version for source in files.sources()}
    os.utime(root / "3.txt", ns=(1, 1))
    after = {source.key: source.version for source in files.sources()}
    bucket = find_bucket(f"{root}/3.txt", 8)
    assert [f"bucket/{bucket:05d}-of-00008"] == [k for k in after if before[k] != after[k]]
    assert before.keys() == after.keys()


def test_versions_depend_on_the_boundaries_of_keys() -> None:
    one = ListedFile("a", "/a", 1, 0, "1")
    other = ListedFile("a1", "/a1", 1, 0, "")
    assert digest_members([one]) != digest_members([other])


def test_the_spool_is_removed_when_the_listing_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    listing = pack_buckets(entries_of(["a", "b", "c", "d"]), 4)
    next(listing)
    assert 1 == len(list(tmp_path.iterdir()))
    assert isinstance(listing, Generator)
    listing.close()
    assert [] == list(tmp_path.iterdir())


def test_buckets_of_real_files_read_back(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.txt", "b.txt", "c.txt")
    sources = run("files", paths=[f"{root}/*.txt"], buckets=2).sources()
    reader = run("read-files")
    contents = {row["content"] for source in sources for row in reader.rows(source.data)}
    assert {b"a.txt", b"b.txt", b"c.txt"} == contents
    assert 3 == sum(source.data.num_rows for source in sources)
