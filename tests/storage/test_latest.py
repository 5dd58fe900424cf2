"""Readers get the pinned publication, else the linked one, else the newest, else none."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from publication_builders import (
    FILES,
    Crash,
    half_write,
    list_tree,
    make,
    resolved,
    spoil,
    watch_steps,
)
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import (
    ChoiceError,
    find_pinned,
    hold_links,
    name_latest,
    pin,
    resolve,
    unpin,
)
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import (
    MANIFEST,
    Publication,
    PublicationId,
    list_publication_ids,
)
from strandline_api.outcome.exit_codes import ExitCode

MOVED = ["latest.linked", "latest.renamed", "latest.synced"]


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    made = PipelineFolder.on_volume(tmp_path / "volume", "team", "clips")
    made.path.mkdir(parents=True)
    return made


def link(path: Path, target: str | Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def read_links(folder: PipelineFolder) -> tuple[str | None, str | None]:
    """Return the targets of `latest` and `pinned` as text, or None for a missing link."""
    latest, pinned = (
        os.readlink(each) if each.is_symlink() else None for each in (folder.latest, folder.pinned)
    )
    return latest, pinned


def test_there_may_be_no_publication(folder: PipelineFolder, tmp_path: Path) -> None:
    assert resolve(folder) is None
    assert resolve(PipelineFolder(tmp_path / "none")) is None
    (folder.path / "attempts/0001").mkdir(parents=True)
    assert resolve(folder) is None
    half_write(folder, 1, 1)
    link(folder.latest, "attempts/0001/p0001")
    assert resolve(folder) is None


def test_a_choice_precedes_the_link_and_the_link_precedes_the_newest(
    folder: PipelineFolder,
) -> None:
    make(folder, (1, 1), (1, 2), (2, 1))
    link(folder.latest, "attempts/0001/p0002")  # a manual rollback
    assert (1, 2) == resolved(folder)
    link(folder.pinned, "attempts/0001/p0001")
    assert (1, 1) == resolved(folder)
    folder.pinned.unlink()
    folder.latest.unlink()
    assert (2, 1) == resolved(folder)


def test_readers_get_the_name_of_the_publication(folder: PipelineFolder) -> None:
    assert name_latest(folder) == ""
    for attempt in (1, 2):
        publish(folder, attempt, {}, {})
    assert name_latest(folder) == "0002/p0001"
    folder.path.rename(folder.path.with_name("elsewhere"))
    assert name_latest(folder) == ""


def put_file(path: Path) -> None:
    path.write_text("attempts/0001/p0001")


def put_copy(path: Path) -> None:
    shutil.copytree(path.parent / "attempts/0001/p0001", path)


def put_nothing(path: Path) -> None:
    assert not path.exists()


def put_loop(path: Path) -> None:
    path.symlink_to("loop")
    (path.parent / "loop").symlink_to(path.name)


# Objects that are not a link to a complete publication: link targets, or functions that create
# them.
USELESS: dict[str, str | Callable[[Path], None]] = {
    "missing": put_nothing,
    "dangling": "attempts/0001/p0099",
    "a loop": put_loop,
    "to a half-written folder": "attempts/0001/p0003",
    "to an empty folder": "attempts/0001/p0004",
    "to a file": f"attempts/0001/p0002/{MANIFEST}",
    "to an attempt": "attempts/0001",
    "to the folder itself": ".",
    "to what is no attempt": "attempts/old/p0001",
    "to what has no number": "attempts/0001/px",
    "to another spelling": "attempts/00001/p0001",
    "to the root": "/",
    "outside": "../other/attempts/0001/p0001",
    "a file": put_file,
    "a folder": Path.mkdir,
    "a copy": put_copy,
}


@pytest.mark.parametrize("kind", USELESS)
@pytest.mark.parametrize("name", ["latest", "pinned"])
def test_links_without_a_complete_publication_are_ignored(
    name: str, kind: str, folder: PipelineFolder
) -> None:
    make(PipelineFolder(folder.path.parent / "other"), (1, 1))
    make(folder, (1, 1), (1, 2))
    half_write(folder, 1, 3)
    folder.publication(1, 4).mkdir()
    for copy in ("old/p0001", "0001/px", "00001/p0001"):
        shutil.copytree(folder.publication(1, 1), folder.attempts / copy)
    path = folder.path / name
    path.unlink(missing_ok=True)
    put = USELESS[kind]
    path.symlink_to(put) if isinstance(put, str) else put(path)
    if name == "pinned":
        link(folder.latest, "attempts/0001/p0001")
    before = list_tree(folder.path)
    assert ((1, 1) if name == "pinned" else (1, 2)) == resolved(folder)
    assert before == list_tree(folder.path)


@pytest.mark.parametrize("target", ["absolute", "by another link"])
def test_a_manual_link_may_be_absolute_or_indirect(target: str, folder: PipelineFolder) -> None:
    first, _ = make(folder, (1, 1), (1, 2))
    link(folder.path / "good", "attempts/0001/p0001")
    link(folder.latest, first.path if target == "absolute" else "good")
    assert first == resolve(folder)


def test_a_moved_or_linked_folder_stays_readable(folder: PipelineFolder, tmp_path: Path) -> None:
    make(folder, (1, 1), (1, 2), (1, 3))
    pin(folder, "0001/p0002")
    (tmp_path / "elsewhere").mkdir()
    moved = PipelineFolder(folder.path.rename(tmp_path / "elsewhere/clips"))
    assert (1, 2) == resolved(moved)
    assert moved.publication(1, 2) / MANIFEST == (moved.latest / MANIFEST).resolve()
    (tmp_path / "by-link").symlink_to(moved.path)
    seen = PipelineFolder(tmp_path / "by-link")
    assert (1, 2) == resolved(seen)
    unpin(seen)
    assert (1, 3) == resolved(moved)


def damage_size(published: Publication) -> None:
    (published.path / "metrics.json").write_bytes(b"{")


def remove_file(published: Publication) -> None:
    (published.path / "artifacts/empty").unlink()


def replace_file_by_link(published: Publication) -> None:
    (published.path / "metrics.json").rename(published.path / "moved")
    (published.path / "metrics.json").symlink_to("moved")


def replace_folder_by_link(published: Publication) -> None:
    (published.path / "artifacts").rename(published.path / "moved")
    (published.path / "artifacts").symlink_to("moved")


def replace_manifest_by_link(published: Publication) -> None:
    (published.path / MANIFEST).rename(published.path / "moved")
    (published.path / MANIFEST).symlink_to("moved")


def replace_manifest_by_folder(published: Publication) -> None:
    (published.path / MANIFEST).unlink()
    (published.path / MANIFEST).mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        *[spoil, damage_size, remove_file, replace_file_by_link, replace_folder_by_link],
        *[replace_manifest_by_link, replace_manifest_by_folder],
    ],
)
def test_a_damaged_publication_is_not_complete(
    damage: Callable[[Publication], None], folder: PipelineFolder
) -> None:
    first, second = make(folder, (1, 1), (1, 2))
    damage(second)
    assert first == resolve(folder)


def manifest(**changed: object) -> str:
    whole = {"format": 1, "attempt": 1, "publication": 2, "files": {}, "facts": {}}
    return json.dumps(whole | changed)


ENTRY = {"size": 0, "digest": "0" * 32}


@pytest.mark.parametrize(
    ("text", "is_complete"),
    [
        (manifest(), True),
        (manifest(format=2, more=[]), True),  # written by a later version
        (manifest(files={"artifacts/empty": ENTRY}), True),
        (manifest(files={"artifacts/other": ENTRY}), False),
        (manifest(files={"../p0001/metrics.json": ENTRY | {"size": 11}}), False),
        (manifest(files={"artifacts/empty": {"size": False, "digest": "0" * 32}}), False),
        (manifest(files={"artifacts/empty": {"size": 0}}), False),
        (manifest(files=[]), False),
        (manifest(facts=None), False),
        (manifest(format="1"), False),
        (manifest(format=0), False),
        *[(text, False) for text in ("", "null", "[]", "{}", "{", "\udcff", "[" * 100_000)],
    ],
)
def test_an_invalid_manifest_is_not_a_publication(
    text: str, is_complete: bool, folder: PipelineFolder
) -> None:
    _, second = make(folder, (1, 1), (1, 2))
    (second.path / MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert ((1, 2) if is_complete else (1, 1)) == resolved(folder)


def test_the_newest_is_found_by_number_not_by_spelling(folder: PipelineFolder) -> None:
    make(folder, (9_999, 2), (10_000, 1), (2, 9_999), (2, 10_000))
    folder.latest.unlink()
    assert (10_000, 1) == resolved(folder)
    shutil.rmtree(folder.attempt(10_000))
    shutil.rmtree(folder.attempt(9_999))
    assert (2, 10_000) == resolved(folder)


def test_a_choice_stays_during_publications_until_undone(
    folder: PipelineFolder,
) -> None:
    make(folder, (1, 1), (1, 2))
    assert (1, 1) == pin(folder, "0001/p0001").identity
    assert ("attempts/0001/p0001", "attempts/0001/p0001") == read_links(folder)
    make(folder, (1, 3), (2, 1))
    retain(folder, 1)
    assert ("attempts/0001/p0001", "attempts/0001/p0001") == read_links(folder)
    assert (1, 1) == resolved(folder)
    assert resolve(folder) == find_pinned(folder)
    newest = unpin(folder)
    assert newest == resolve(folder)
    assert ("attempts/0002/p0001", None) == read_links(folder)
    make(folder, (2, 2))
    assert ("attempts/0002/p0002", None) == read_links(folder)


def test_another_choice_replaces_the_first(folder: PipelineFolder) -> None:
    make(folder, (1, 1), (1, 2), (1, 3))
    pin(folder, "0001/p0001")
    pin(folder, "0001/p0002")
    assert ("attempts/0001/p0002", "attempts/0001/p0002") == read_links(folder)


def test_an_incomplete_choice_does_not_block_readers(folder: PipelineFolder) -> None:
    first, _ = make(folder, (1, 1), (1, 2))
    pin(folder, "0001/p0001")
    spoil(first)
    assert (1, 2) == resolved(folder)
    make(folder, (1, 3))
    assert ("attempts/0001/p0003", "attempts/0001/p0001") == read_links(folder)
    assert (1, 3) == resolved(folder)


@pytest.mark.parametrize(
    "name", ["0001/p0001", "attempts/0001/p0001", "/0001/p0001/", "{path}", "by-link"]
)
def test_a_choice_has_a_short_name_or_its_folder(
    name: str, folder: PipelineFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = make(folder, (1, 1), (1, 2))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "by-link").symlink_to(first.path)
    assert first == pin(folder, name.format(path=first.path))


@pytest.mark.parametrize(
    "name",
    [
        *["", "3", "p0001", "0001", "0001/p0003", "0001/p0009", "../0001/p0001", "1/1", "latest"],
        "{other}",
    ],
)
def test_a_missing_choice_is_refused_with_the_existing_ones(
    name: str, folder: PipelineFolder
) -> None:
    other = PipelineFolder(folder.path.parent / "other")
    name = name.format(other=make(other, (1, 1))[0].path)
    make(folder, (1, 1), (1, 2))
    half_write(folder, 1, 3)
    before = list_tree(folder.path)
    with pytest.raises(ChoiceError) as caught:
        pin(folder, name)
    assert f"{name!r} is not a complete publication; choose one of 0001/p0002, 0001/p0001" == str(
        caught.value
    )
    assert ExitCode.BAD_SPEC == caught.value.exit_code
    assert before == list_tree(folder.path)


def test_a_long_list_of_choices_is_truncated(folder: PipelineFolder) -> None:
    make(folder, *[(1, number) for number in range(1, 13)])
    with pytest.raises(ChoiceError, match=r"choose one of 0001/p0012, .*, 0001/p0003 and 2 older$"):
        pin(folder, "x")


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_can_be_chosen_without_publications(
    exists: bool, folder: PipelineFolder, tmp_path: Path
) -> None:
    chosen = folder if exists else PipelineFolder(tmp_path / "none")
    sentence = f"^'0001/p0001' can't be chosen: nothing is published in {chosen.path} yet$"
    with pytest.raises(ChoiceError, match=sentence):
        pin(chosen, "0001/p0001")
    assert unpin(chosen) is None
    assert exists is chosen.path.exists()
    assert (None, None) == read_links(chosen)


def test_undoing_without_a_choice_repairs_the_link(folder: PipelineFolder) -> None:
    make(folder, (1, 1), (1, 2))
    link(folder.latest, "attempts/0001/p0099")
    assert (1, 2) == getattr(unpin(folder), "identity", None)
    assert ("attempts/0001/p0002", None) == read_links(folder)


@pytest.mark.parametrize("name", ["latest", "pinned"])
@pytest.mark.parametrize("act", [lambda folder: pin(folder, "0001/p0001"), unpin])
def test_a_file_in_a_links_place_stops_a_choice_and_stays(
    act: Callable[[PipelineFolder], object], name: str, folder: PipelineFolder
) -> None:
    make(folder, (1, 1), (1, 2))
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).write_text("mine")
    before = list_tree(folder.path)
    with pytest.raises(VolumeError, match=f"^{folder.path / name}: this must be a symbolic link"):
        act(folder)
    assert before == list_tree(folder.path)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_crash_during_a_choice_leaves_the_old_or_new_choice(
    number: int, folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, (1, 1), (1, 2))
    steps = watch_steps(monkeypatch, crash_at=number)
    with pytest.raises(Crash):
        pin(folder, "0001/p0001")
    assert MOVED[:number] == steps.reached
    assert (1, 1) == resolved(folder)
    latest = os.readlink(folder.latest)
    assert f"attempts/0001/{'p0002' if number == 1 else 'p0001'}" == latest
    (folder.path / ".pinned.tmp").symlink_to("left by another crash")
    watch_steps(monkeypatch)
    publish(folder, 1, FILES, {})  # repairs the leftovers of the crash
    assert ("attempts/0001/p0001", "attempts/0001/p0001") == read_links(folder)
    assert {"attempts", "latest", "pinned"} == {path.name for path in folder.path.iterdir()}


def test_a_crash_during_an_undo_leaves_a_complete_publication(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, (1, 1), (1, 2))
    pin(folder, "0001/p0001")
    watch_steps(monkeypatch, crash_at=1)
    with pytest.raises(Crash):
        unpin(folder)
    assert (1, 1) == resolved(folder)
    assert (1, 2) == getattr(unpin(folder), "identity", None)
    assert (1, 2) == resolved(folder)


@pytest.mark.parametrize(
    "act", [lambda folder: retain(folder, 1), lambda folder: pin(folder, "0001/p0001"), unpin]
)
def test_links_and_removals_exclude_each_other(
    act: Callable[[PipelineFolder], object], folder: PipelineFolder
) -> None:
    make(folder, (1, 1), (1, 2))
    link(folder.latest, "attempts/0001/p0099")
    before = list_tree(folder.path)
    other = threading.Thread(target=act, args=(folder,))
    with hold_links(folder):
        other.start()
        other.join(0.2)  # a thread that does not wait would end in this time
        assert other.is_alive()
        assert before == list_tree(folder.path)
    other.join(30)
    assert not other.is_alive()
    assert before != list_tree(folder.path)


def test_a_reader_retries_if_its_findings_are_removed(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, (1, 1))
    folder.latest.unlink()
    lists: list[list[PublicationId]] = []

    def list_and_fall_behind(folder: PipelineFolder) -> list[PublicationId]:
        lists.append(list_publication_ids(folder))
        if len(lists) == 1:
            publish(folder, 1, {}, {})
            shutil.rmtree(folder.publication(1, 1))
        return lists[-1]

    monkeypatch.setattr(
        "strandline.storage.volume.published.list_publication_ids", list_and_fall_behind
    )
    assert (1, 2) == resolved(folder)
    assert [[(1, 1)]] == lists


def test_a_reader_always_finds_a_complete_publication(folder: PipelineFolder) -> None:
    make(folder, (1, 1))
    is_done = threading.Event()
    found: list[Publication | None] = []

    def read() -> None:
        while not is_done.is_set():
            found.append(resolve(folder))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(30):
            retain(folder, 1, publish(folder, 1, FILES, {}))
    finally:
        is_done.set()
        reader.join()
    assert None not in found
    assert found
