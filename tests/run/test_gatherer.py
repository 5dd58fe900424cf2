"""Gathering statistics during and after a run: when, in which thread, and the published result."""

from __future__ import annotations

import errno
import json
import operator
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from strandline.engine.core.ports import RunProgress
from strandline.ledger.access import heartbeat
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.lease import OnChange
from strandline.ledger.access.session import LedgerSession, opened_new, opened_to_read
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.merge import MergeError
from strandline.ledger.gather.state import GatherState, read_state
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.stage import StatefulFilter
from strandline.plan.task import Task
from strandline.python.pipeline import Pipeline
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.insight.records import TABLE
from strandline.run.release import gatherer as gatherer_module
from strandline.run.release.gatherer import Gatherer, gather_by_hand
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.volume.inflight import read_worked
from strandline.storage.volume.latest import resolve
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sources.files import Files
from strandline_packs.tables.read_files import ReadFiles

BROKEN: set[str] = set()
LINGER: dict[str, Callable[[], None]] = {}


class Letters(StatefulFilter):
    """Counts letters, and writes the counts to two files."""

    def setup(self) -> None:
        self.counts: dict[str, int] = {}

    def process(self, task: Task) -> Task:
        (content,) = task.table.column("content").to_pylist()
        for letter in content.decode():
            self.counts[letter] = self.counts.get(letter, 0) + 1
        if "!" in content.decode():
            raise ValueError("!")
        return task

    def flush(self) -> bytes | None:
        counts, self.counts = self.counts, {}
        return json.dumps(counts).encode() if counts else None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        LINGER.get("merge", lambda: None)()
        if "merge" in BROKEN:
            raise ValueError("no merging today")
        total: dict[str, int] = {}
        for path in paths:
            for letter, count in json.loads(path.read_bytes()).items():
                total[letter] = total.get(letter, 0) + count
        out.write_text(json.dumps(total))

    def artifacts(self, merged: Path, folder: Path) -> None:
        LINGER.get("artifacts", lambda: None)()
        if "artifacts" in BROKEN:
            raise ValueError("no artifacts today")
        if "disk" in BROKEN:
            raise OSError(errno.ENOSPC, "no space today")
        if "folder" in BROKEN:
            (folder / "below").mkdir()
        if "twice" in BROKEN:
            (folder / "letters.table.csv").touch()
        (folder / f"{merged.stem}.json").write_bytes(merged.read_bytes())
        (folder / "table.csv").write_text("letter,count\n")


class Kept(Letters):
    """`Letters`, with only the merged file as an artifact."""

    artifacts = StatefulFilter.artifacts


class Steps(Heartbeat):
    """Counts progress notes."""

    steps = 0

    def note_progress(self) -> None:
        self.steps += 1


class Ground:
    """A pipeline that counts the letters of texts."""

    def __init__(self, path: Path, *stages: StatefulFilter) -> None:
        self.path = path
        self.texts = path / "texts"
        self.texts.mkdir()
        for name in ("aa", "abb", "c"):
            self.write(name, name)
        self.plan = self.plan_of(*stages)
        self.folder = PipelineFolder.on_volume(path, "default", "letters")

    def plan_of(self, *stages: StatefulFilter, to: Path | None = None) -> PipelinePlan:
        source = Files(paths=[f"{self.texts}/*"], on_removed="Delete")
        sink = JsonlSink(path=str(to)) if to else JsonlSink()
        middle = [ReadFiles(), *(stages or (Letters(),))]
        return Pipeline("letters", source=source, stages=middle, sink=sink).plan

    def write(self, name: str, text: str) -> None:
        (self.texts / name).write_text(text)

    def run(self, **options: object) -> ExitCode:
        checkpoint = Checkpoint.model_validate(options)
        return run_attempt(
            AttemptConfig(self.plan, self.path, "inline", checkpoint=checkpoint)
        ).code

    def by_hand(self) -> tuple[dict[str, int], bool]:
        done = gather_by_hand(self.plan, self.folder, OnChange.FAIL, 3, lambda: 1e9)
        assert done.latest is None or done.latest == self.latest
        return done.pieces, done.is_new

    @property
    def latest(self) -> Path | None:
        published = resolve(self.folder)
        return published.path if published else None

    def read_state(self) -> GatherState:
        with opened_to_read(self.folder.ledger) as store:
            return read_state(store)

    @property
    def session(self) -> LedgerSession:
        """Return a session of the ledger under the lease of its last attempt."""
        with opened_to_read(self.folder.ledger) as store:
            lease = store.read_meta("lease")
        return LedgerSession(self.folder.ledger, int(lease["attempt"]), str(lease["uid"]))

    def gatherer(
        self, stages: Mapping[str, StatefulFilter], note: Callable[[str], None] = lambda _: None
    ) -> Gatherer:
        return Gatherer(self.folder, stages, self.session, Steps(float, float), note)

    def names(self) -> list[str]:
        assert self.latest is not None
        return sorted(path.name for path in (self.latest / "artifacts").glob("*"))

    def counts(self) -> dict[str, int]:
        assert self.latest is not None
        found: dict[str, int] = json.loads((self.latest / "artifacts/letters.json").read_bytes())
        return found


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    BROKEN.clear()
    return Ground(tmp_path)


def test_gathered_statistics_are_published_with_the_run(ground: Ground) -> None:
    assert ExitCode.COMPLETE == ground.run()
    assert {"a": 3, "b": 2, "c": 1} == ground.counts()
    assert ["letters.json", "letters.table.csv"] == ground.names()
    published = resolve(ground.folder)
    assert published is not None
    assert {
        "metrics.json",
        "recipe.json",
        "artifacts/letters.json",
        "artifacts/letters.table.csv",
    } == set(published.files)


def test_without_artifacts_of_its_own_a_stage_shows_its_merged_file(tmp_path: Path) -> None:
    ground = Ground(tmp_path, Kept())
    ground.run()
    assert ["kept.merged"] == ground.names()


def test_statistics_follow_changed_and_removed_sources(ground: Ground) -> None:
    ground.run()
    ground.write("abb", "xyzxyz")
    (ground.texts / "c").unlink()
    ground.run()
    assert {"a": 2, "x": 2, "y": 2, "z": 2} == ground.counts()


def test_a_failed_source_counts_once_it_succeeds(ground: Ground) -> None:
    ground.write("abb", "abb!")
    assert ExitCode.SOURCES_FAILED == ground.run()
    assert {"a": 2, "c": 1} == ground.counts()
    ground.write("abb", "abbb")
    assert ExitCode.COMPLETE == ground.run()
    assert {"a": 3, "b": 3, "c": 1} == ground.counts()


@pytest.mark.parametrize("what", ["merge", "artifacts"])
def test_a_stage_that_can_not_merge_fails_the_run_when_all_else_is_done(
    ground: Ground, what: str
) -> None:
    BROKEN.add(what)
    with pytest.raises(MergeError, match=f"stage 'letters' can't .*{what}"):
        ground.run()
    assert ground.latest is not None
    assert [] == ground.names()
    BROKEN.clear()
    assert ExitCode.COMPLETE == ground.run()
    assert {"a": 3, "b": 2, "c": 1} == ground.counts()


@pytest.mark.parametrize(
    ("what", "message"),
    [("folder", "below is a folder; only"), ("twice", "two of its files would be published")],
)
def test_artifacts_that_can_not_be_published_are_an_error_of_the_stage(
    ground: Ground, what: str, message: str
) -> None:
    BROKEN.add(what)
    with pytest.raises(MergeError, match=f"'letters' can't write its artifacts: .*{message}"):
        ground.run()
    assert ground.latest is not None


def test_a_full_disk_is_not_the_stages_fault(ground: Ground) -> None:
    BROKEN.add("disk")
    with pytest.raises(VolumeError, match="no space is left on the volume"):
        ground.run()


def test_final_gathering_renews_the_lease_and_shows_progress(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is renewed however long a merge or the creation of artifacts takes."""
    monkeypatch.setattr(heartbeat, "TICK_SECONDS", 0.005)
    monkeypatch.setattr(heartbeat, "RENEWAL_SECONDS", 0.0)
    seen: list[tuple[float, float]] = []

    def look() -> tuple[float, float]:
        """Return when the ledger was last written and when progress was last shown."""
        worked = read_worked(ground.folder.attempt(1) / TABLE) or 0.0
        return (ground.folder.ledger / "data.mdb").stat().st_mtime, worked

    def linger() -> None:
        """Use the CPU until both times have changed."""
        before = look()
        seen.append(before)
        give_up = time.monotonic() + 30
        while any(map(operator.eq, before, look())) and time.monotonic() < give_up:
            sum(range(10_000))
        seen.append(look())

    monkeypatch.setitem(LINGER, "merge", linger)
    monkeypatch.setitem(LINGER, "artifacts", linger)
    ground.run()
    for before, after in zip(seen[::2], seen[1::2], strict=True):
        assert all(map(operator.gt, after, before))
    assert len(seen) >= 4


def test_each_piece_and_each_merge_is_a_step(ground: Ground) -> None:
    ground.run()
    heartbeat = Steps(lambda: 0.0, lambda: 0.0)
    stages = {"letters": Letters(), "other": Kept()}  # two stages, so everything is merged again
    Gatherer(ground.folder, stages, ground.session, heartbeat).gather(is_whole=True)
    assert 3 + 1 <= heartbeat.steps


def test_missing_space_for_the_end_is_reported_once_in_advance(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(gatherer_module, "explain_shortage", lambda folder: f"{folder}: no room")
    ground.run()
    with_none = ground.gatherer({}, said.append)
    assert with_none.is_ready()
    gatherer = ground.gatherer({"letters": Letters()}, said.append)
    for _ in range(2):
        wait_for(gatherer)
    assert [f"{ground.folder.shards}: no room"] == said


def test_law_space_is_checked_once_per_gathering(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's loop calls `is_ready` often, but the space is checked only once."""
    looks: list[Path] = []
    ground.run()
    monkeypatch.setattr(gatherer_module, "explain_shortage", looks.append)
    may_end = threading.Event()
    monkeypatch.setitem(LINGER, "merge", may_end.wait)
    stages = {"letters": Letters(), "other": Kept()}  # two stages, so everything is merged again
    gatherer = ground.gatherer(stages)
    for _ in range(5):
        assert not gatherer.is_ready()
    may_end.set()
    wait_for(gatherer)
    assert [ground.folder.shards] == looks


def test_a_stopped_gatherer_leaves_sealing_to_the_next_attempt(ground: Ground) -> None:
    seen: list[RunProgress] = []
    config = AttemptConfig(ground.plan, ground.path, "inline")
    outcome = run_attempt(config, lambda: len(seen) > 4, seen.append)
    assert ExitCode.INTERRUPTED == outcome.code
    assert not ground.read_state().is_sealed
    ground.run()
    assert ground.read_state().is_sealed
    assert {"a": 3, "b": 2, "c": 1} == ground.counts()


def test_finished_sources_are_published_in_the_middle_of_a_run(ground: Ground) -> None:
    published: list[dict[str, int]] = []

    def look(_: RunProgress) -> None:
        if ground.latest is not None and ground.names():
            published.append(ground.counts())

    checkpoint = Checkpoint(interval="1ms")
    run_attempt(
        AttemptConfig(ground.plan, ground.path, "inline", checkpoint=checkpoint), report=look
    )
    totals = [sum(counts.values()) for counts in published]
    assert totals == sorted(totals)
    assert 6 == sum(ground.counts().values())


def test_a_failed_merge_in_the_middle_of_a_run_is_reported_in_the_run(ground: Ground) -> None:
    seen: list[RunProgress] = []
    BROKEN.add("merge")
    config = AttemptConfig(
        ground.plan, ground.path, "inline", checkpoint=Checkpoint(interval="1ms")
    )
    with pytest.raises(MergeError):
        run_attempt(config, report=seen.append)
    assert any("no merging today" in note for note in seen[-1].notes)


def test_a_thread_gathers_beside_a_run(ground: Ground) -> None:
    ground.run()
    ground.write("d", "d")
    gatherer = ground.gatherer({"letters": Letters()})
    assert not gatherer.is_ready()
    wait_for(gatherer)
    assert gatherer.failure is None
    gatherer.close()


def test_failures_in_the_thread_are_noted_or_raised(ground: Ground) -> None:
    ground.run()
    notes: list[str] = []
    gatherer = ground.gatherer({"other": Letters()}, notes.append)
    BROKEN.add("merge")
    gatherer.gather(is_whole=False)
    assert notes == []  # the stage has no data
    gatherer = ground.gatherer({"letters": Letters()}, notes.append)
    wait_for(gatherer)
    assert ["stage 'letters' can't merge its gathered pieces: ValueError: no merging today"] == (
        notes
    )
    another = LedgerSession(ground.folder.ledger, 9, "another")
    lost = Gatherer(ground.folder, {"letters": Letters()}, another, Steps(float, float))
    with pytest.raises(LedgerError, match="has taken the ledger over"):
        wait_for(lost)


def test_a_run_without_a_ledger_leaves_artifacts_beside_its_output(ground: Ground) -> None:
    out = ground.path / "out"
    ground.write("abb", "abb!")
    outcome = run_attempt(AttemptConfig(ground.plan_of(to=out), None, "inline"))
    assert (2, 1) == (outcome.standing.finished, outcome.standing.failed)
    beside = ground.path / "out-artifacts"
    assert {"a": 2, "c": 1} == json.loads((beside / "letters.json").read_bytes())
    assert {"out", "out-artifacts", "texts"} == {path.name for path in ground.path.iterdir()}


def test_by_hand_the_rest_of_a_killed_run_is_gathered_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Gatherer, "gather", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            ground.run()
    assert ground.latest is None
    assert ({"letters": 3}, True) == ground.by_hand()
    assert {"a": 3, "b": 2, "c": 1} == ground.counts()
    assert ({"letters": 3}, False) == ground.by_hand()
    assert ExitCode.COMPLETE == ground.run()
    assert ({"letters": 3}, False) == ground.by_hand()


def test_by_hand_metrics_and_facts_of_the_run_are_kept(ground: Ground) -> None:
    BROKEN.add("artifacts")
    with pytest.raises(MergeError):
        ground.run()
    BROKEN.clear()
    before = resolve(ground.folder)
    assert ({"letters": 3}, True) == ground.by_hand()
    after = resolve(ground.folder)
    assert before is not None
    assert after is not None
    assert before.files["metrics.json"] == after.files["metrics.json"]
    assert before.facts["sources"] == after.facts["sources"]


def test_by_hand_another_pipeline_is_refused(ground: Ground) -> None:
    ground.run()
    ground.plan = ground.plan_of(Kept())
    with pytest.raises(LedgerError, match="not the one that wrote this ledger"):
        ground.by_hand()


def test_by_hand_a_pipeline_to_be_restarted_is_refused(ground: Ground) -> None:
    ground.run()
    plan = ground.plan_of(Kept())
    with pytest.raises(LedgerError, match=r"has changed, .* gathered again; run"):
        gather_by_hand(plan, ground.folder, OnChange.RESTART, 3, lambda: 1e9)
    assert ["letters.json", "letters.table.csv"] == ground.names()


def test_by_hand_a_ledger_without_attempts_has_nothing_to_gather(ground: Ground) -> None:
    make_folder(ground.folder.ledger)
    with opened_new(ground.folder.ledger):
        pass
    assert ({}, False) == ground.by_hand()


def test_by_hand_gathering_is_refused_while_the_last_attempt_still_writes(ground: Ground) -> None:
    ground.run()
    session = ground.session
    ground.by_hand()
    with session.open(), pytest.raises(LedgerError, match="has taken the ledger over"):
        session.renew(2.0)


def test_by_hand_a_ledger_is_required(ground: Ground) -> None:
    with pytest.raises(LedgerError, match="there is no ledger here"):
        ground.by_hand()
    assert not ground.folder.path.exists()


def wait_for(gatherer: Gatherer) -> None:
    """Wait until the gathering thread is done, however long that takes."""
    while not gatherer.is_ready():
        pass


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
