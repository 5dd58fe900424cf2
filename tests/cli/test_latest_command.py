"""`strandline latest`: the folder for readers, and how to choose another publication."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli_project import Call, Project, read_errors
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.publications import publish
from strandline.storage.volume.published import Publication


@pytest.fixture
def published(project: Project) -> list[Publication]:
    """Make three publications in two attempts. The last publication is `latest`."""
    folder = PipelineFolder(project.folder)
    return [
        publish(folder, attempt, {"metrics.json": b"{}"}, {"finished": finished})
        for attempt, finished in ((1, 10), (1, 20), (2, 30))
    ]


def latest(call: Call, *words: str) -> str:
    result = call("latest", "pipeline.yaml", *words)
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def describe(published: Publication, finished: int, *, pinned: bool) -> dict[str, object]:
    return {
        "latest": str(published.path),
        "attempt": published.attempt,
        "publication": published.number,
        "pinned": pinned,
        "facts": {"finished": finished},
    }


def test_only_the_absolute_path_is_printed(
    published: list[Publication], project: Project, call: Call
) -> None:
    assert f"{project.folder}/attempts/0002/p0001\n" == latest(call)
    assert published[2].path.is_absolute()


def test_scripts_get_the_facts_too(published: list[Publication], call: Call) -> None:
    assert describe(published[2], 30, pinned=False) == json.loads(latest(call, "--json"))


def test_a_choice_stays_until_it_is_undone(
    published: list[Publication], project: Project, call: Call
) -> None:
    assert f"{published[0].path}\n" == latest(call, "--set", "0001/p0001")
    publish(PipelineFolder(project.folder), 2, {}, {})
    assert describe(published[0], 10, pinned=True) == json.loads(latest(call, "--json"))
    assert "attempts/0001/p0001" == os.readlink(project.folder / "latest")
    told = json.loads(latest(call, "--json", "--set", str(published[1].path)))
    assert describe(published[1], 20, pinned=True) == told
    assert f"{project.folder}/attempts/0002/p0002\n" == latest(call, "--unset")
    assert "attempts/0002/p0002" == os.readlink(project.folder / "latest")
    assert json.loads(latest(call, "--json"))["pinned"] is False


def test_a_manual_link_is_not_a_choice(
    published: list[Publication], project: Project, call: Call
) -> None:
    (project.folder / "latest").unlink()
    (project.folder / "latest").symlink_to("attempts/0001/p0002")
    assert describe(published[1], 20, pinned=False) == json.loads(latest(call, "--json"))


@pytest.mark.parametrize("words", [(), ("--json",), ("--unset",)])
def test_missing_publications_are_reported(
    words: tuple[str, ...], project: Project, call: Call
) -> None:
    result = call("latest", "pipeline.yaml", *words)
    assert (1, "") == (result.exit_code, result.stdout)
    assert f"{project.folder}: nothing is published there yet" == read_errors(result)
    assert not project.folder.exists()


def test_another_volume_has_its_own_publications(
    published: list[Publication], project: Project, call: Call, tmp_path: Path
) -> None:
    result = call("latest", "pipeline.yaml", "--volume", "elsewhere")
    assert 1 == result.exit_code
    other = publish(PipelineFolder(tmp_path / "elsewhere/default/notes"), 7, {}, {})
    assert f"{other.path}\n" == latest(call, "--volume", "elsewhere")
    assert f"{published[2].path}\n" == latest(call)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ("--set", "0001/p0009"),
            64,
            "'0001/p0009' is not a complete publication; choose one of 0002/p0001, 0001/p0002, "
            "0001/p0001",
        ),
        (
            ("--set", "0001/p0001", "--unset"),
            64,
            "--set and --unset are mutually exclusive; see `strandline latest --help`",
        ),
        (("--set", "", "--unset"), 64, "--set and --unset are mutually exclusive; see"),
    ],
)
def test_a_bad_choice_gets_one_sentence(
    words: tuple[str, ...],
    code: int,
    sentence: str,
    published: list[Publication],
    project: Project,
    call: Call,
) -> None:
    result = call("latest", "pipeline.yaml", *words)
    assert (code, "") == (result.exit_code, result.stdout)
    assert read_errors(result).startswith(sentence)
    assert 1 == len(result.stderr.splitlines())
    assert not (project.folder / "pinned").exists()


def test_a_file_in_the_links_place_is_named(
    published: list[Publication], project: Project, call: Call
) -> None:
    (project.folder / "latest").unlink()
    (project.folder / "latest").write_text("mine")
    assert f"{published[2].path}\n" == latest(call)
    result = call("latest", "pipeline.yaml", "--set", "0001/p0001")
    assert 73 == result.exit_code
    assert read_errors(result) == (
        f"{project.folder}/latest: this must be a symbolic link, but it is not; move it away and "
        "run the pipeline again"
    )
    assert "mine" == (project.folder / "latest").read_text()


def test_a_bad_manifest_gets_its_own_sentence(project: Project, call: Call) -> None:
    project.write("kind: Other")
    assert 64 == call("latest", "pipeline.yaml").exit_code
