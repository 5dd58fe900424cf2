"""Retention keeps the newest publications, and publications that a link or the caller names."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from shutil import rmtree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from publication_builders import FILES, complete_places, half_write, list_tree, make, resolved
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import pin
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import MANIFEST, read_publication


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    made = PipelineFolder.on_volume(tmp_path / "volume", "team", "clips")
    made.path.mkdir(parents=True)
    return made


@pytest.mark.parametrize(
    ("keep_last", "left"),
    [
        (1, [(10_000, 1)]),
        (2, [(9_999, 2), (10_000, 1)]),
        (3, [(9_999, 1), (9_999, 2), (10_000, 1)]),
        (4, [(2, 10_000), (9_999, 1), (9_999, 2), (10_000, 1)]),
        (9, [(2, 9_999), (2, 10_000), (9_999, 1), (9_999, 2), (10_000, 1)]),
    ],
)
def test_the_newest_publications_stay(
    keep_last: int, left: list[tuple[int, int]], folder: PipelineFolder
) -> None:
    make(folder, (2, 9_999), (2, 10_000), (9_999, 1), (9_999, 2), (10_000, 1))
    assert 5 - len(left) == retain(folder, keep_last)
    assert left == complete_places(folder)
    assert 0 == retain(folder, keep_last)


@pytest.mark.parametrize("keep_last", [0, -1])
def test_at_least_one_publication_must_stay(keep_last: int, folder: PipelineFolder) -> None:
    make(folder, (1, 1))
    with pytest.raises(ValueError, match="at least 1 publication must be kept"):
        retain(folder, keep_last)
    assert [(1, 1)] == complete_places(folder)


def test_publications_named_by_latest_a_choice_or_the_caller_stay(folder: PipelineFolder) -> None:
    _, second, *_ = make(folder, *[(1, number) for number in range(1, 7)])
    pin(folder, "0001/p0003")
    folder.latest.unlink()
    folder.latest.symlink_to("attempts/0001/p0004")  # a manual rollback
    assert 2 == retain(folder, 1, keep=second)
    assert [(1, 2), (1, 3), (1, 4), (1, 6)] == complete_places(folder)


def test_a_damaged_target_of_latest_stays_too(folder: PipelineFolder) -> None:
    first, _ = make(folder, (1, 1), (1, 2))
    (first.path / "metrics.json").unlink()
    folder.latest.unlink()
    folder.latest.symlink_to("attempts/0001/p0001")
    assert 0 == retain(folder, 1)
    assert first.path.is_dir()


def test_incomplete_publications_are_removed_after_a_newer_complete_one(
    folder: PipelineFolder,
) -> None:
    old = half_write(folder, 1, 1)
    assert 0 == retain(folder, 3)
    make(folder, (1, 2))
    new = half_write(folder, 1, 3)
    newer = half_write(folder, 2, 1)
    assert 1 == retain(folder, 3)
    assert [False, True, True] == [path.exists() for path in (old, new, newer)]


def test_retention_without_publications_removes_nothing(
    folder: PipelineFolder, tmp_path: Path
) -> None:
    assert 0 == retain(folder, 1)
    assert 0 == retain(PipelineFolder(tmp_path / "none"), 1)
    assert {} == list_tree(folder.path)


STRANGERS = [
    *["attempt.json", "attempts/0001/attempt.json", "attempts/0001/notes/x", "attempts/0001/px/x"],
    *["attempts/0001/p00x/x", "attempts/0001/p001/x", "attempts/0001/p00001/x", "attempts/old/x"],
    *["attempts/00x/p0001/x", "attempts/001/p0001/x", "attempts/00001/p0001/x", "ledger/data.mdb"],
    *["attempts/0001/.p0001.removed.bak/x", "attempts/0001/.px.removed/x", "attempts/0001/p0009"],
    *["attempts/0000/p0001/x", "attempts/0001/p0000/x", "attempts/old/.p0001.removed/x"],
]


@pytest.mark.parametrize("name", STRANGERS)
def test_other_files_stay(name: str, folder: PipelineFolder) -> None:
    make(folder, (2, 1), (2, 2))
    path = folder.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"kept")
    assert 1 == retain(folder, 1)
    assert b"kept" == path.read_bytes()


@pytest.mark.parametrize(
    "name", ["attempts/0001", "attempts/0002/p0001", "attempts/0002/.p0001.removed"]
)
def test_retention_follows_no_link(name: str, folder: PipelineFolder, tmp_path: Path) -> None:
    other = PipelineFolder(tmp_path / "other")
    make(other, (1, 1), (1, 2))
    half_write(other, 1, 3)
    before = list_tree(other.path)
    make(folder, (2, 2), (2, 3))
    targets = {"attempts/0001": other.attempt(1)}
    (folder.path / name).symlink_to(targets.get(name, other.publication(1, 1)))
    assert 1 == retain(folder, 1)
    assert before == list_tree(other.path)
    assert (folder.path / name).is_symlink()


def test_a_link_inside_a_publication_is_removed_without_its_target(
    folder: PipelineFolder, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    first, _ = make(folder, (1, 1), (1, 2))
    (first.path / "more").symlink_to(tmp_path / "outside")
    assert 1 == retain(folder, 1)
    assert (tmp_path / "outside/kept").exists()


def test_a_publication_is_renamed_before_its_files_are_removed(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = make(folder, (1, 1), (1, 2))
    removed: list[tuple[str, bool]] = []

    def remove(path: Path) -> None:
        removed.append((path.name, first.path.exists()))
        assert FILES.keys() <= list_tree(path).keys()
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", remove)
    retain(folder, 1)
    assert [(".p0001.removed", False)] == removed


states = st.lists(
    st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=7
)  # number of the attempt, and whether the publication is complete


@settings(max_examples=scale_examples(60))
@given(states=states, keep_last=st.integers(1, 4), chosen=st.none() | st.integers(0, 6))
def test_retention_keeps_the_newest_and_the_resolved_publication(
    states: list[tuple[int, bool]], keep_last: int, chosen: int | None
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = PipelineFolder(Path(place))
        for attempt, is_complete in states:
            published = publish(folder, attempt, {}, {})
            if not is_complete:
                (published.path / MANIFEST).unlink()
        before = complete_places(folder)
        if before and chosen is not None:
            pin(folder, before[chosen % len(before)].name)
        target = resolved(folder)
        retain(folder, keep_last)
        left = complete_places(folder)
        assert target == resolved(folder)
        assert before[-keep_last:] == left[-keep_last:]
        assert set(left) <= {*before[-keep_last:], target}


def test_an_unreadable_publication_is_not_treated_as_incomplete(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make(folder, (1, 1), (1, 2))
    read_bytes = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path.parent == first.path:
            raise OSError(5, "Input/output error")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(VolumeError, match="reports an input/output error"):
        retain(folder, 3)
    with pytest.raises(VolumeError, match=f"^{first.path}: "):
        read_publication(folder, first.identity)
    assert read_publication(folder, second.identity) == second
    monkeypatch.undo()
    assert [(1, 1), (1, 2)] == complete_places(folder)
