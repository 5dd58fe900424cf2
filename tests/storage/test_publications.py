"""A publication is complete or absent, and a crash never removes an existing publication."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from publication_builders import (
    FILES,
    Crash,
    complete_places,
    half_write,
    list_tree,
    make,
    resolved,
    watch_steps,
)
from strandline.storage import faults
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import resolve
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import MANIFEST

PUBLISHING = [
    "publication.begun",
    *["publication.written"] * len(FILES),
    "publication.synced",
    *["manifest.written", "manifest.synced", "manifest.renamed"],
    *["latest.linked", "latest.renamed", "latest.synced"],
]
REMOVING = ["retention.begun", "retention.hidden", "retention.removed"]


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    made = PipelineFolder.on_volume(tmp_path / "volume", "team", "clips")
    made.path.mkdir(parents=True)
    return made


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(faults, "_reached", Counter())
    return monkeypatch


def test_a_publication_is_a_folder_with_files_and_a_manifest(folder: PipelineFolder) -> None:
    facts: dict[str, Any] = {"attempt": {"cause": None}, "finished": [1, 2.5, True, "é"]}
    published = publish(folder, 3, FILES, facts)
    assert (3, 1, folder.path / "attempts/0003/p0001") == (
        published.attempt,
        published.number,
        published.path,
    )
    manifest = json.loads((published.path / MANIFEST).read_text(encoding="utf-8"))
    files = {
        name: {"size": len(content), "digest": blake2b(content, digest_size=16).hexdigest()}
        for name, content in FILES.items()
    }
    assert {
        "format": 1,
        "attempt": 3,
        "publication": 1,
        "files": files,
        "facts": facts,
    } == manifest
    held = {name: content for name, content in list_tree(published.path).items() if content}
    assert {name for name, content in FILES.items() if content} == held.keys() - {MANIFEST}
    assert FILES.items() >= {name: held[name] for name in held if name != MANIFEST}.items()
    assert published == resolve(folder)


def test_only_facts_may_be_published(folder: PipelineFolder) -> None:
    assert {"a": 1} == publish(folder, 1, {}, {"a": 1}).facts
    assert (1, 1) == resolved(folder)


def test_latest_is_a_relative_link(folder: PipelineFolder) -> None:
    make(folder, (1, 1), (1, 2))
    assert "attempts/0001/p0002" == os.readlink(folder.latest)


def test_all_is_durable_before_the_manifest_and_the_manifest_before_latest(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync = os.fsync

    def record(handle: int) -> None:
        fsync(handle)
        seen.append(os.path.relpath(os.readlink(f"/proc/self/fd/{handle}"), folder.path))

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(faults, "reach", seen.append)
    publish(folder, 1, FILES, {})
    path = "attempts/0001/p0001"
    assert PUBLISHING == [each for each in seen if each in faults.STEPS]
    until = seen.index
    names = {"attempts/0001", "attempts", "."}  # each new folder is synced, and its parent too
    assert names <= set(seen[: until("publication.begun")])
    content = {f"{path}/{name}" for name in FILES} | {path, f"{path}/artifacts"}
    assert content == set(seen[until("publication.begun") : until("publication.synced")]) - set(
        PUBLISHING
    )
    assert f"{path}/.{MANIFEST}.tmp" in seen[until("manifest.written") : until("manifest.synced")]
    assert path in seen[until("manifest.renamed") : until("latest.linked")]
    assert ["latest.renamed", ".", "latest.synced"] == seen[-3:]


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ([], 1),
        (["p0001/x", "p0002/x"], 3),  # incomplete publications
        (["p0002/manifest.json"], 3),
        ([".p0007.removed/x"], 8),  # an interrupted removal
        (["p0004"], 5),  # a file instead of a folder
        (["attempt.json", "px/x", "p0001.bak/x"], 1),
        (["p9999/x"], 10_000),
        (["p10000/x"], 10_001),
    ],
)
def test_a_publication_number_is_never_reused(
    before: list[str], number: int, folder: PipelineFolder
) -> None:
    home = folder.attempt(2)
    for name in before:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    assert (2, number) == publish(folder, 2, FILES, {}).identity
    assert all((home / name).exists() for name in before)
    assert (2, number) == resolved(folder)
    assert (3, 1) == publish(folder, 3, {}, {}).identity


@pytest.mark.parametrize("link", ["latest", "pinned"])
def test_a_number_named_by_a_dangling_link_is_not_used(link: str, folder: PipelineFolder) -> None:
    (folder.path / link).symlink_to("attempts/0002/p0005")
    assert [6, 7] == [publish(folder, 2, {}, {}).number for _ in range(2)]
    assert 1 == publish(folder, 1, {}, {}).number


@pytest.mark.parametrize(
    "name",
    [
        *["", "/", "/x", "x/", ".", "..", "../x", "x/..", "a/b/c", "a//b", ".x", "a/.x", "a\0b"],
        *[MANIFEST, "x" * 256, "é" * 128, "\udcff"],
    ],
)
def test_a_name_outside_the_folder_is_refused(name: str, folder: PipelineFolder) -> None:
    with pytest.raises(ValueError, match="can't be the name of a published file"):
        publish(folder, 1, {"fit": b"", name: b""}, {})
    assert {} == list_tree(folder.path)


@pytest.mark.parametrize(
    ("attempt", "files", "facts"),
    [
        (1, {"a": b"", "a/b": b""}, {}),
        (1, {f"{MANIFEST}/a": b""}, {}),
        (1, {}, {"rate": float("nan")}),
        (0, {}, {}),
    ],
)
def test_content_that_cannot_be_read_back_is_not_written(
    attempt: int, files: dict[str, bytes], facts: dict[str, Any], folder: PipelineFolder
) -> None:
    with pytest.raises(ValueError, match=r"file and a folder|JSON compliant|greater than or equal"):
        publish(folder, attempt, files, facts)
    assert {} == list_tree(folder.path)


def test_invalid_text_in_facts_keeps_the_manifest_readable(folder: PipelineFolder) -> None:
    publish(folder, 1, {}, {"key": "in/\udcff.txt", "\ud800": 1})
    found = resolve(folder)
    assert found is not None
    assert {"key": "in/?.txt", "?": 1} == found.facts


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
file_names = st.from_regex(r"([a-z][a-z.]{0,5}/)?[A-Z][a-zé\n ]{0,8}", fullmatch=True)


@settings(max_examples=scale_examples(40))
@given(
    files=st.dictionaries(file_names, st.binary(max_size=50), max_size=4),
    facts=st.dictionaries(st.text(max_size=5), json_values, max_size=3),
)
def test_publications_are_found_again(files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = PipelineFolder(Path(place))
        published = publish(folder, 1, files, facts)
        assert published == resolve(folder)
        assert facts == published.facts
        assert files == {name: (published.path / name).read_bytes() for name in published.files}


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", ["latest", "pinned"])
def test_files_and_folders_in_place_of_links_are_not_replaced(
    kind: str, name: str, folder: PipelineFolder
) -> None:
    make(folder, (1, 1))
    folder.latest.unlink()
    spot = folder.path / name
    spot.touch() if kind == "file" else (spot / "inner").mkdir(parents=True)
    before = list_tree(folder.path)
    if name == "pinned":
        assert (1, 2) == publish(folder, 1, {}, {}).identity  # only `latest` must be a link
        return
    sentence = f"^{spot}: this must be a symbolic link, but it is not; move it away and run the "
    sentence += "pipeline again$"
    with pytest.raises(VolumeError, match=sentence):
        publish(folder, 1, {}, {})
    assert before == list_tree(folder.path)
    assert (1, 1) == resolved(folder)


@pytest.mark.parametrize("name", ["attempts", "attempts/0001"])
def test_a_link_in_place_of_a_folder_is_not_written_through(
    name: str, folder: PipelineFolder, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "0001").mkdir(parents=True)
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).symlink_to(outside)
    with pytest.raises(VolumeError, match=f"{name}: this is a link, but a folder is needed"):
        publish(folder, 1, FILES, {})
    assert {"0001": None} == list_tree(outside)


@pytest.mark.parametrize("name", ["attempts", "attempts/0001"])
def test_a_file_in_place_of_a_folder_is_named(name: str, folder: PipelineFolder) -> None:
    (folder.path / name).parent.mkdir(exist_ok=True)
    (folder.path / name).touch()
    with pytest.raises(VolumeError, match="this is a file, but a folder is needed"):
        publish(folder, 1, FILES, {})


PUBLISH_AS_SOMEBODY = """
import os, sys
from pathlib import Path
from strandline.storage.errors import VolumeError
from strandline.storage.volume.latest import resolve
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.publications import publish
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
folder = PipelineFolder(Path(sys.argv[1]))
found = resolve(folder)
print(found and found.identity.name)
try:
    publish(folder, 2, {"a": b""}, {})
except VolumeError as error:
    print(error)
"""


def test_without_write_access_nothing_changes_and_reading_works() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = PipelineFolder(Path(place))
        make(folder, (1, 1))
        before = list_tree(folder.path)
        for path in (folder.attempt(1), folder.attempts, folder.path):
            path.chmod(0o555)
        command = [sys.executable, "-c", PUBLISH_AS_SOMEBODY, place]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        folder.path.chmod(0o755)
        assert told.splitlines() == [
            "0001/p0001",
            f"{place}: no permission to write; check the owner and mode of the folder",
        ]
        assert before == list_tree(folder.path)


@pytest.mark.parametrize("action", ["enospc", "eio"])
@pytest.mark.parametrize("step", sorted({*PUBLISHING, *REMOVING}))
def test_an_error_at_any_step_keeps_earlier_publications(
    step: str, action: str, folder: PipelineFolder, armed: pytest.MonkeyPatch
) -> None:
    make(folder, (1, 1), (1, 2))
    armed.setenv("STRANDLINE_FAULT", f"{step}:{action}")
    with pytest.raises(VolumeError, match=f"^{folder.path}"):
        retain(folder, 1, publish(folder, 2, FILES, {}))
    is_moved = step in {"latest.renamed", "latest.synced", *REMOVING}
    assert ((2, 1) if is_moved else (1, 2)) == resolved(folder)
    assert (1, 2) in complete_places(folder)
    retain(folder, 1, publish(folder, 2, FILES, {}))
    assert [(2, 2)] == complete_places(folder)
    assert_nothing_is_left_over(folder)


def assert_nothing_is_left_over(folder: PipelineFolder) -> None:
    names = {Path(name).name for name in list_tree(folder.path)}
    assert not {name for name in names if name.startswith(".")}
    assert len(complete_places(folder)) == len(list(folder.attempts.glob("*/p*")))


# Creates old publications, incomplete publications between and after them, and an interrupted
# removal.
def prepare_crash(folder: PipelineFolder) -> None:
    make(folder, (1, 1), (1, 2), (2, 1))
    half_write(folder, 1, 3)
    half_write(folder, 2, 2)
    (folder.attempt(1) / ".p0009.removed/artifacts").mkdir(parents=True)
    (folder.attempt(1) / "attempt.json").touch()


def publish_and_retain(folder: PipelineFolder) -> None:
    retain(folder, 2, publish(folder, 2, FILES, {}))


def count_steps(path: Path) -> int:
    folder = PipelineFolder(path)
    prepare_crash(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        steps = watch_steps(monkeypatch)
        publish_and_retain(folder)
    assert steps.reached == PUBLISHING + REMOVING * 4
    assert [(2, 1), (2, 3)] == complete_places(folder)
    assert_nothing_is_left_over(folder)
    return len(steps.reached)


STEPS_COUNTED = len(PUBLISHING) + 4 * len(REMOVING)


def test_the_crashes_cover_every_step(tmp_path: Path) -> None:
    assert STEPS_COUNTED == count_steps(tmp_path)


@pytest.mark.parametrize("number", range(1, STEPS_COUNTED + 1))
def test_a_crash_anywhere_keeps_latest_complete_and_is_cleaned_up(
    number: int, folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_crash(folder)
    watch_steps(monkeypatch, crash_at=number)
    with pytest.raises(Crash):
        publish_and_retain(folder)
    check_latest(folder)
    for again in range(1, 4):  # a second crash, during the cleanup
        watch_steps(monkeypatch, crash_at=number + again)
        try:
            publish_and_retain(folder)
        except Crash:
            check_latest(folder)
    watch_steps(monkeypatch)
    publish_and_retain(folder)
    check_latest(folder)
    assert 2 == len(complete_places(folder))
    assert resolved(folder) == complete_places(folder)[-1]
    assert (folder.attempt(1) / "attempt.json").exists()
    assert_nothing_is_left_over(folder)


@pytest.mark.parametrize("number", range(1, len(PUBLISHING) + 1))
def test_a_crash_of_the_first_publication_leaves_it_complete_or_invisible(
    number: int, folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = watch_steps(monkeypatch, crash_at=number)
    with pytest.raises(Crash):
        publish(folder, 1, FILES, {})
    is_complete = "manifest.renamed" in steps.reached
    assert ((1, 1) if is_complete else None) == resolved(folder)
    assert not folder.latest.is_symlink() or is_complete


def check_latest(folder: PipelineFolder) -> None:
    """Check that `latest` leads to a complete publication, and that readers get the same one."""
    target = folder.path / os.readlink(folder.latest)
    found = resolve(folder)
    assert found is not None
    assert target == found.path
    assert found.identity in complete_places(folder)
    for name, content in FILES.items():
        assert content == (found.path / name).read_bytes()
