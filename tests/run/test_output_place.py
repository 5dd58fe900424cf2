"""The output location is part of a run's identity: recorded in the ledger and compared."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Never

import pytest

from place_builders import Letters, forget_place
from strandline.engine.ray.engine import RayEngine
from strandline.ledger.access import heartbeat
from strandline.ledger.access.lease import OnChange
from strandline.ledger.checks.verification import VerificationResult, verify
from strandline.ledger.errors import LedgerError
from strandline.ledger.location import LedgerLocation
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.release.moving import move_outputs
from strandline.storage.outputs.names import OWNER
from strandline.storage.outputs.ownership import read_owner
from strandline.storage.outputs.ports import OutputStore
from strandline_api.outcome.exit_codes import ExitCode

PATIENCE = 60.0


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Letters:
    """Return a pipeline over three files. Its runs start in an empty working directory."""
    start = tmp_path / "start"
    start.mkdir()
    monkeypatch.chdir(start)
    return Letters(tmp_path)


def test_a_relative_path_is_resolved_by_the_first_run(
    letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = letters.run(path="out")
    assert str(tmp_path / "start/out") == outcome.output
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(LedgerError) as caught:
        letters.run(path="out")
    assert f"outputs: {tmp_path}/start/out -> {tmp_path}/other/out" in str(caught.value)
    assert "`strandline ledger move-outputs`" in str(caught.value)
    assert not (tmp_path / "other/out").exists()


def test_another_url_is_another_pipeline(letters: Letters, tmp_path: Path) -> None:
    letters.run(url="memory://letters/old")
    with pytest.raises(LedgerError) as caught:
        letters.run(url="memory://letters/new")
    assert "outputs: memory://letters/old -> memory://letters/new" in str(caught.value)
    with pytest.raises(LedgerError) as caught:
        letters.run()
    own = tmp_path / "volume/default/letters/output"
    assert f"outputs: memory://letters/old -> {own}" in str(caught.value)


def test_a_moved_place_is_reported_with_other_changes(letters: Letters) -> None:
    letters.run(path="old")
    with pytest.raises(LedgerError) as caught:
        letters.run(path="new", sink="text", name="jsonl")
    lines = str(caught.value).splitlines()
    assert "outputs:" in "".join(lines)
    assert '  jsonl.use: "jsonl" -> "parquet"' in lines
    assert not [line for line in lines if "with.path" in line]  # reported as the location


def test_restart_processes_everything_at_the_new_place(letters: Letters, tmp_path: Path) -> None:
    letters.run(path="old")
    outcome = letters.run(path="new", on_change=OnChange.RESTART)
    assert (3, 0) == (outcome.standing.finished, outcome.standing.skipped)
    assert 3 == letters.count(tmp_path / "start/new")
    assert 3 == letters.count(tmp_path / "start/old")  # The old data set may still be in use.
    assert 3 == letters.run(path="new").standing.skipped


def test_continue_keeps_finished_outputs_in_place(letters: Letters, tmp_path: Path) -> None:
    letters.run(path="old")
    letters.add("d")
    outcome = letters.run(path="new", on_change=OnChange.CONTINUE)
    assert (1, 3) == (outcome.standing.finished, outcome.standing.skipped)
    assert 1 == letters.count(tmp_path / "start/new")
    assert 4 == letters.run(path="new").standing.skipped


@pytest.mark.parametrize(
    "spelling", ["out/", "./out", "../start/out", "{start}/out", "file://{start}/out", "{link}/out"]
)
def test_another_spelling_is_the_same_place(
    letters: Letters, tmp_path: Path, spelling: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "start")
    letters.run(path="out")
    again = spelling.format(start=tmp_path / "start", link=tmp_path / "link")
    assert 3 == letters.run(path=again).standing.skipped
    assert 3 == letters.run(url=again).standing.skipped


def test_a_trailing_slash_of_a_url_is_ignored(letters: Letters) -> None:
    letters.run(url="memory://letters/slashed")
    assert 3 == letters.run(url="memory://letters/slashed/").standing.skipped


def test_a_link_with_another_target_is_another_place(letters: Letters, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "start/out").symlink_to(tmp_path / "one")
    letters.run(path="out")
    (tmp_path / "start/out").unlink()
    (tmp_path / "start/out").symlink_to(tmp_path / "two")
    with pytest.raises(LedgerError, match=f"outputs: {tmp_path}/one -> {tmp_path}/two"):
        letters.run(path="out")


def test_a_volume_may_move_together_with_its_outputs(letters: Letters, tmp_path: Path) -> None:
    letters.run()
    letters.volume = letters.volume.rename(tmp_path / "elsewhere")
    outcome = letters.run()
    assert 3 == outcome.standing.skipped
    assert outcome.output.startswith(str(tmp_path / "elsewhere"))
    # The sink's `path` names the same folder.
    assert 3 == letters.run(path=outcome.output).standing.skipped


def test_an_older_ledger_records_its_place_when_it_resumes(letters: Letters) -> None:
    letters.run(url="memory://letters/before")
    forget_place(letters.folder)
    assert 3 == letters.run(url="memory://letters/before").standing.skipped
    with pytest.raises(LedgerError, match="outputs: memory://letters/before -> memory://letters/b"):
        letters.run(url="memory://letters/b")


def test_an_older_ledger_compares_the_path_as_spelled(letters: Letters) -> None:
    letters.run(path="out")
    forget_place(letters.folder)
    with pytest.raises(LedgerError, match=r'jsonl\.with\.path: "out" -> "new"'):
        letters.run(path="new")
    assert 3 == letters.run(path="out").standing.skipped


def test_workers_get_the_resolved_place(
    letters: Letters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []

    class CalledError(Exception):
        pass

    def look(
        engine: RayEngine, _: object, __: object, ledger: LedgerLocation | None, *___: object
    ) -> Never:
        told.extend([engine.outputs.url, ledger and ledger.outputs.url])
        raise CalledError

    monkeypatch.setattr(RayEngine, "run", look)
    for volume in (None, letters.volume):
        with pytest.raises(CalledError):
            run_attempt(AttemptConfig(letters.plan(path="out"), volume))
    out = str(tmp_path / "start/out")
    assert [out, None, out, out] == told


def test_a_run_without_a_ledger_reports_its_output_place(letters: Letters, tmp_path: Path) -> None:
    outcome = run_attempt(AttemptConfig(letters.plan(path="out"), None, engine="inline"))
    assert str(tmp_path / "start/out") == outcome.output


class TestMoving:
    """A data set that was moved intentionally."""

    def test_moved_outputs_are_verified(self, letters: Letters, tmp_path: Path) -> None:
        letters.run(path="old")
        (tmp_path / "start/old").rename(tmp_path / "start/new")
        moved = move_outputs(letters.plan(path="new"), letters.folder)
        assert (str(tmp_path / "start/old"), str(tmp_path / "start/new")) == moved[:2]
        assert (3, 3, []) == (moved.verdict.sources, moved.verdict.outputs, moved.verdict.problems)
        assert 3 == letters.run(path="new").standing.skipped
        with pytest.raises(LedgerError, match="outputs: "):
            letters.run(path="old")

    def test_incomplete_outputs_keep_their_old_place(
        self, letters: Letters, tmp_path: Path
    ) -> None:
        letters.run(path="old")
        (tmp_path / "start/old").rename(tmp_path / "start/new")
        one, two, _ = sorted((tmp_path / "start/new").rglob("*.jsonl"))
        one.unlink()
        two.write_bytes(bytes(two.stat().st_size))
        moved = move_outputs(letters.plan(path="new"), letters.folder)
        assert ["changed since it was written", "missing, or recorded twice"] == sorted(
            problem.partition(":")[0] for problem in moved.verdict.problems
        )
        with pytest.raises(LedgerError, match="outputs: "):
            letters.run(path="new")

    def test_a_move_can_skip_reading_the_bytes(self, letters: Letters, tmp_path: Path) -> None:
        letters.run(path="old")
        (tmp_path / "start/old").rename(tmp_path / "start/new")
        for path in (tmp_path / "start/new").rglob("*.jsonl"):
            path.write_bytes(bytes(path.stat().st_size))
        moved = move_outputs(letters.plan(path="new"), letters.folder, reads_bytes=False)
        assert [] == moved.verdict.problems
        assert 3 == letters.run(path="new").standing.skipped

    def test_a_move_refuses_other_changes(self, letters: Letters) -> None:
        letters.run(path="old")
        with pytest.raises(LedgerError, match=r"has other changes too:\n  jsonl\.use: ") as caught:
            move_outputs(letters.plan(path="new", sink="text", name="jsonl"), letters.folder)
        assert ExitCode.LEDGER_MISMATCH == caught.value.exit_code

    def test_outputs_of_an_older_ledger_can_be_moved(
        self, letters: Letters, tmp_path: Path
    ) -> None:
        letters.run(path="old")
        forget_place(letters.folder)
        (tmp_path / "start/old").rename(tmp_path / "start/new")
        moved = move_outputs(letters.plan(path="new"), letters.folder)
        assert "old" == moved.old  # as the user spelled the old path
        assert 3 == letters.run(path="new").standing.skipped

    def test_a_move_needs_a_ledger(self, letters: Letters) -> None:
        with pytest.raises(LedgerError, match="there is no ledger here"):
            move_outputs(letters.plan(path="new"), letters.folder)
        assert not letters.folder.path.exists()

    def test_law_the_lease_is_renewed_during_verification(
        self, letters: Letters, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise a driver on another host could take the lease during the verification."""
        monkeypatch.setattr(heartbeat, "TICK_SECONDS", 0.005)
        monkeypatch.setattr(heartbeat, "RENEWAL_SECONDS", 0.0)
        beats: list[float] = []
        real, renew_lease, has_beaten = verify, Store.renew_lease, threading.Event()

        def note(store: Store, time: float) -> None:
            renew_lease(store, time)
            beats.append(store.read_meta("lease")["time"])
            has_beaten.set()

        def read_long(store: Store, outputs: OutputStore, **choices: bool) -> VerificationResult:
            assert has_beaten.wait(PATIENCE)
            return real(store, outputs, **choices)

        letters.run(path="old")
        monkeypatch.setattr(Store, "renew_lease", note)
        monkeypatch.setattr("strandline.run.release.moving.verify", read_long)
        Path("old").rename("new")
        has_beaten.clear()
        assert [] == move_outputs(letters.plan(path="new"), letters.folder).verdict.problems
        assert beats

    def test_a_move_that_lost_its_lease_writes_nothing(
        self, letters: Letters, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another host may take over the ledger during the verification."""
        letters.run(path="old")

        def be_overtaken(store: Store, outputs: OutputStore, **choices: bool) -> VerificationResult:
            store.write(Change(meta={"lease": {"attempt": 9, "uid": "other", "ended": False}}))
            return real(store, outputs, **choices)

        real = verify
        monkeypatch.setattr("strandline.run.release.moving.verify", be_overtaken)
        Path("old").rename("new")
        (Path("new") / OWNER).unlink()
        with pytest.raises(LedgerError, match="has taken the ledger over"):
            move_outputs(letters.plan(path="new"), letters.folder)
        assert read_owner(str(Path("new").resolve())) is None
        with closing(Store(letters.folder.ledger, readonly=True)) as store:
            assert store.read_meta("outputs")["place"].endswith("/old")
