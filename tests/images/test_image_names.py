"""The tag depends on all inputs of the images, and on nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from images.names import CONTEXT, RECIPE, Images, find_images, hash_sources, list_sources

INSIDE = (
    "Dockerfile",
    ".dockerignore",
    "LICENSE",
    "README.md",
    "constraints.txt",
    "crds/strandline_api/names.py",
    "e2e/images/inside/bill.py",
    "operator/strandline_operator/render/pods/templates.py",
    "pipelines/strandline/py.typed",
    "pipelines/strandline_packs/py.typed",
    "pyproject.toml",
)
OUTSIDE = ("Makefile", "crds/generate.py", "e2e/images/build.py", "tests/test_x.py")
BYTECODE = "pipelines/strandline/__pycache__/x.cpython-311.pyc"


def lay_out(root: Path) -> Path:
    for name in (*INSIDE, *OUTSIDE, BYTECODE):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def read_tag(root: Path, base: str = "debian", machine: str = "x86_64") -> str:
    return find_images(root, Path("/cache"), base, machine).tag


def test_the_tag_is_independent_of_the_folder(tmp_path: Path) -> None:
    tags = {read_tag(lay_out(tmp_path / name)) for name in "ab"}

    assert len(tags) == 1
    assert len(tags.pop()) == 12


@pytest.mark.parametrize("name", INSIDE)
def test_a_changed_source_changes_the_tag(tmp_path: Path, name: str) -> None:
    before = read_tag(lay_out(tmp_path))

    (tmp_path / name).write_text("changed")

    assert read_tag(tmp_path) != before


@pytest.mark.parametrize("name", [*OUTSIDE, BYTECODE])
def test_a_file_outside_the_inputs_does_not_change_the_tag(tmp_path: Path, name: str) -> None:
    before = read_tag(lay_out(tmp_path))

    (tmp_path / name).write_text("changed")

    assert read_tag(tmp_path) == before


def test_a_renamed_source_changes_the_tag(tmp_path: Path) -> None:
    before = read_tag(lay_out(tmp_path))

    place = tmp_path / "crds/strandline_api/names.py"
    place.rename(place.with_name("named.py"))

    assert read_tag(tmp_path) != before


def test_bytes_that_move_from_one_file_to_the_next_change_the_hash(tmp_path: Path) -> None:
    (lay_out(tmp_path) / "LICENSE").write_text("ab")
    (tmp_path / "README.md").write_text("c")
    before = hash_sources(tmp_path, "debian", "x86_64")

    (tmp_path / "LICENSE").write_text("a")
    (tmp_path / "README.md").write_text("bc")

    assert hash_sources(tmp_path, "debian", "x86_64") != before


def test_another_base_or_machine_is_another_image(tmp_path: Path) -> None:
    lay_out(tmp_path)

    tags = {read_tag(tmp_path), read_tag(tmp_path, base="local"), read_tag(tmp_path, machine="arm")}

    assert len(tags) == 3


def test_sources_are_the_input_files(tmp_path: Path) -> None:
    assert [str(path) for path in list_sources(lay_out(tmp_path))] == sorted(INSIDE)


def test_names_and_archives() -> None:
    images = Images("0123456789ab", Path("/cache/strandline/images-0123456789ab"), "x", "y")

    assert images.format_name("operator") == "strandline/operator:0123456789ab"
    assert images.format_reference("runtime") == "docker.io/strandline/runtime:0123456789ab"
    assert images.find_archive("runtime") == images.folder / "runtime.tar"


def test_images_are_complete_when_both_archives_are_there(tmp_path: Path) -> None:
    images = Images("t", tmp_path, "x", "y")
    assert not images.complete
    (tmp_path / "operator.tar").touch()
    (tmp_path / "runtime.tar.new").touch()
    assert not images.complete
    (tmp_path / "runtime.tar").touch()
    assert images.complete


def test_images_match_their_sources(tmp_path: Path) -> None:
    images = find_images(lay_out(tmp_path), Path("/cache"), "local", "x86_64")
    assert images.match(tmp_path)
    (tmp_path / "LICENSE").write_text("changed")
    assert not images.match(tmp_path)


def test_every_input_path_exists() -> None:
    root = Path(__file__).parents[2]

    assert [place for place in (*RECIPE, *CONTEXT) if not (root / place).exists()] == []
