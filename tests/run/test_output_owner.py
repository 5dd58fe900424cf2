"""An output root has one owner. Another pipeline or ledger is refused with the owner's name."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from glob import glob
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.dataset as ds
import pytest

from place_builders import Letters, forget_place
from strandline.ledger.access.lease import OnChange
from strandline.ledger.checks.verification import verify
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.plan.errors import code_of
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.release.moving import move_outputs, seize_outputs
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.names import OWNER
from strandline.storage.outputs.ownership import (
    Owner,
    PlaceTakenError,
    UnreadablePlaceError,
    read_owner,
    take_over_location,
)
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the location to which both pipelines write."""
    if request.param == "folder":
        return str(tmp_path / "out")
    return f"memory://{tmp_path.name}/out"


@pytest.fixture
def first(tmp_path: Path) -> Letters:
    return Letters(tmp_path, "first")


@pytest.fixture
def second(tmp_path: Path) -> Letters:
    return Letters(tmp_path, "second")


def read_all(place: str) -> dict[str, bytes]:
    filesystem, root = fsspec.core.url_to_fs(place)
    return {str(path): filesystem.cat_file(path) for path in filesystem.find(root)}


def read_id(letters: Letters) -> str:
    with closing(Store(letters.folder.ledger, readonly=True)) as store:
        return str(store.read_meta("id"))


def test_a_place_belongs_to_who_came_first(first: Letters, second: Letters, place: str) -> None:
    first.run(url=place)
    before = read_all(place)
    with pytest.raises(PlaceTakenError) as caught:
        second.run(url=place)
    assert str(caught.value) == (
        f"the outputs at {place} belong to default/first (ledger {read_id(first)[:12]}), and would "
        "be overwritten; name another location, or, if that ledger no longer exists, take over "
        "this one with `strandline ledger own-outputs`"
    )
    assert ExitCode.BAD_SPEC == code_of(caught.value)
    assert before == read_all(place)
    assert 3 == first.run(url=place).standing.skipped


def test_a_refused_pipeline_has_begun_nothing(first: Letters, second: Letters, place: str) -> None:
    first.run(url=place)
    with pytest.raises(PlaceTakenError):
        second.run(url=place)
    assert not second.folder.attempts.exists()
    with closing(Store(second.folder.ledger, readonly=True)) as store:
        assert store.read_meta("lease") is None
    assert 3 == second.run(url=f"{place}-2").standing.finished  # a new URL is no pipeline change


def test_an_owners_file_is_plain_json(first: Letters, place: str) -> None:
    first.run(url=place)
    (content,) = [text for path, text in read_all(place).items() if path.endswith(OWNER)]
    assert {"ledger": read_id(first), "pipeline": "default/first"} == json.loads(content)


def test_a_run_without_a_ledger_overwrites_no_owned_outputs(first: Letters, place: str) -> None:
    first.run(url=place)
    with pytest.raises(PlaceTakenError, match="a run without a volume needs its own location"):
        run_attempt(AttemptConfig(first.plan(url=place), None, engine="inline"))
    for _ in range(2):  # a second run, because the first must not become an owner
        run_attempt(AttemptConfig(first.plan(url=f"{place}-free"), None, engine="inline"))


def test_an_owners_file_is_no_output(first: Letters, place: str) -> None:
    first.run(url=place)
    outputs = open_outputs(place)
    assert 3 == len(list(outputs.list_names()))
    with closing(Store(first.folder.ledger, readonly=True)) as store:
        assert [] == verify(store, outputs).problems


def test_readers_of_data_sets_skip_the_owners_file(first: Letters, tmp_path: Path) -> None:
    first.run(path=str(tmp_path / "out"), sink="text")
    assert 3 == ds.dataset(tmp_path / "out").count_rows()
    assert 3 == len([name for name in glob(f"{tmp_path}/out/**", recursive=True) if "." in name])


def test_outputs_older_than_owners_files_belong_to_their_ledger(
    first: Letters, second: Letters, place: str
) -> None:
    first.run(url=place)
    forget_place(first.folder)
    filesystem, root = fsspec.core.url_to_fs(place)
    filesystem.rm_file(f"{root}/{OWNER}")
    assert 3 == first.run(url=place).standing.skipped
    with pytest.raises(PlaceTakenError):
        second.run(url=place)


def test_a_copy_of_a_ledger_owns_the_same_outputs(
    first: Letters, place: str, tmp_path: Path
) -> None:
    first.run(url=place)
    shutil.copytree(tmp_path / "volume", tmp_path / "copy", symlinks=True)
    first.volume = tmp_path / "copy"
    assert 3 == first.run(url=place).standing.skipped


def test_a_new_ledger_does_not_take_the_place_silently(first: Letters, place: str) -> None:
    first.run(url=place)
    former = read_owner(place)
    shutil.rmtree(first.folder.ledger)
    for on_change in OnChange:
        with pytest.raises(PlaceTakenError, match="belong to default/first"):
            first.run(url=place, on_change=on_change)
    assert former == seize_outputs(first.plan(url=place), first.folder)
    assert 3 == first.run(url=place).standing.finished
    assert seize_outputs(first.plan(url=place), first.folder) is None  # already the owner


def test_a_new_ledger_owns_the_outputs_beside_it(first: Letters) -> None:
    place = first.run().output
    shutil.rmtree(first.folder.ledger)
    assert 3 == first.run().standing.finished
    found = read_owner(place)
    assert found is not None
    assert read_id(first) == found.ledger


def test_a_new_ledger_does_not_own_outputs_of_another_pipeline(
    first: Letters, second: Letters
) -> None:
    second.run(path=str(first.folder.output))
    with pytest.raises(PlaceTakenError, match="belong to default/second"):
        first.run()


def test_a_taken_place_is_refused_to_its_former_owner(
    first: Letters, second: Letters, place: str
) -> None:
    first.run(url=place)
    with pytest.raises(PlaceTakenError):
        second.run(url=place)
    seize_outputs(second.plan(url=place), second.folder)
    second.run(url=place)
    with pytest.raises(PlaceTakenError, match="belong to default/second"):
        first.run(url=place)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"ledger": "a"'])
def test_an_unreadable_owners_file_is_refused(
    first: Letters, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / OWNER).write_bytes(content)
    with pytest.raises(
        PlaceTakenError, match="must name the owner of these outputs; remove the file"
    ):
        first.run(path=str(tmp_path / "out"))
    assert seize_outputs(first.plan(path=str(tmp_path / "out")), first.folder) is None
    assert 3 == first.run(path=str(tmp_path / "out")).standing.finished


def test_two_pipelines_that_start_at_once_are_distinguished(
    first: Letters, second: Letters, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second pipeline writes after the first pipeline has found the location empty."""
    monkeypatch.setattr("strandline.run.attempt.folder.takeover.read_owner", lambda _: None)
    reads: list[str] = []

    def come_between(at: str) -> Any:
        reads.append(at)
        if len(reads) == 1:
            monkeypatch.setattr("strandline.storage.outputs.ownership.read_owner", read_owner)
            second.run(url=place)
            return None
        return read_owner(at)

    monkeypatch.setattr("strandline.storage.outputs.ownership.read_owner", come_between)
    with pytest.raises(PlaceTakenError, match="belong to default/second"):
        first.run(url=place)
    with closing(Store(first.folder.ledger, readonly=True)) as store:
        assert store.read_meta("lease")["ended"]


class TestOutputsThatAreGone:
    """The outputs are missing but their path exists, as after a mount of another disk or claim."""

    @pytest.fixture
    def emptied(self, first: Letters, place: str) -> str:
        first.run(url=place)
        filesystem, root = fsspec.core.url_to_fs(place)
        filesystem.rm(root, recursive=True)
        return place

    def test_a_run_does_not_accept_an_empty_place(self, first: Letters, emptied: str) -> None:
        with pytest.raises(LedgerError) as caught:
            first.run(url=emptied)
        assert (f"outputs: {emptied} -> missing there, including {OWNER}") in str(caught.value)

    def test_restart_makes_the_outputs_again(self, first: Letters, emptied: str) -> None:
        outcome = first.run(url=emptied, on_change=OnChange.RESTART)
        assert 3 == outcome.standing.finished
        assert 3 == first.run(url=emptied).standing.skipped

    def test_a_restart_that_fails_at_the_place_starts_again(
        self, first: Letters, emptied: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With an owner's file, the empty location would count as complete outputs."""

        def fail(*_: object, **__: object) -> None:
            raise VolumeError("out: full")

        with monkeypatch.context() as patch:
            patch.setattr("strandline.run.attempt.folder.takeover.claim_location", fail)
            with pytest.raises(VolumeError):
                first.run(url=emptied, on_change=OnChange.RESTART)
        assert 3 == first.run(url=emptied).standing.finished

    def test_continue_accepts_missing_outputs(self, first: Letters, emptied: str) -> None:
        assert 3 == first.run(url=emptied, on_change=OnChange.CONTINUE).standing.skipped
        assert 3 == first.run(url=emptied).standing.skipped

    def test_outputs_that_came_back_are_verified(self, first: Letters, place: str) -> None:
        first.run(url=place)
        filesystem, root = fsspec.core.url_to_fs(place)
        filesystem.rm_file(f"{root}/{OWNER}")
        with pytest.raises(LedgerError, match="missing there"):
            first.run(url=place)
        assert [] == move_outputs(first.plan(url=place), first.folder).verdict.problems
        assert 3 == first.run(url=place).standing.skipped


class TestMoving:
    """The old location after a move, and the allowed new locations."""

    def test_the_old_place_is_free_after_a_move(
        self, first: Letters, second: Letters, tmp_path: Path
    ) -> None:
        old, new = tmp_path / "old", tmp_path / "new"
        first.run(path=str(old))
        shutil.copytree(old, new)
        move_outputs(first.plan(path=str(new)), first.folder)
        assert read_owner(str(old)) is None
        assert 3 == second.run(path=str(old)).standing.finished
        assert 3 == first.run(path=str(new)).standing.skipped

    def test_an_old_place_taken_by_another_pipeline_keeps_its_owner(
        self, first: Letters, second: Letters, tmp_path: Path
    ) -> None:
        old, new = tmp_path / "old", tmp_path / "new"
        first.run(path=str(old))
        shutil.copytree(old, new)
        (new / OWNER).unlink()
        seized = Owner("2" * 32, "default/second")
        take_over_location(str(old), seized)
        assert [] == move_outputs(first.plan(path=str(new)), first.folder).verdict.problems
        assert read_owner(str(old)) == seized

    def test_an_unreachable_old_place_does_not_block_a_move(
        self, first: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def be_silent(place: str, owner: Owner) -> None:
            raise UnreadablePlaceError(f"{place}: can't be read")

        first.run(path=str(tmp_path / "old"))
        shutil.copytree(tmp_path / "old", tmp_path / "new")
        monkeypatch.setattr("strandline.run.release.moving.release_location", be_silent)
        plan = first.plan(path=str(tmp_path / "new"))
        assert [] == move_outputs(plan, first.folder).verdict.problems
        assert 3 == first.run(path=str(tmp_path / "new")).standing.skipped

    def test_outputs_do_not_move_to_a_place_of_another_pipeline(
        self, first: Letters, second: Letters, tmp_path: Path
    ) -> None:
        first.run(path=str(tmp_path / "old"))
        second.run(path=str(tmp_path / "new"))
        with pytest.raises(PlaceTakenError, match="belong to default/second"):
            move_outputs(first.plan(path=str(tmp_path / "new")), first.folder)

    def test_unverified_outputs_are_not_taken(self, first: Letters, tmp_path: Path) -> None:
        first.run(path=str(tmp_path / "old"))
        move_outputs(first.plan(path=str(tmp_path / "new")), first.folder)
        assert read_owner(str(tmp_path / "new")) is None
        assert read_owner(str(tmp_path / "old")) is not None
