"""Changed pipelines: only the affected stages run again."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuned_stages
from number_runs import Item
from pipeline_runs import Passes
from strandline.cli.views.running.snapshot import Pace, take_snapshot
from strandline.cli.views.running.snapshot_json import parse_json, render_snapshot
from strandline.engine.call.stage.cuts import read_task
from strandline.engine.core.ports import RunProgress
from strandline.ledger.checks.verification import verify
from strandline.ledger.records.entries import Change
from strandline.ledger.store.recipes import RECIPES
from strandline.ledger.store.store import Store
from strandline.plan.receipt import READ_BACK
from strandline.run.revise.listing import Survey, describe_redo
from strandline.run.revise.starts.start import Start
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.outcome.exit_codes import ExitCode
from tuning import FILES, NAME, Tuning, add, below


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path)


def test_only_stages_after_the_cut_run_again(tuning: Tuning) -> None:
    tuning.run(add(1, keep=True), below(10))
    assert (FILES, 9) == (len(tuning.cuts), tuning.read().total())
    before = tuning.cuts
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(50))
    assert "all 3 sources are finished" in tuning.outcome.message
    assert (3, 0) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)
    assert (0, 0) == (tuning.count_rows("read-jsonl"), tuning.count_rows("add"))
    assert (60, 49) == (tuning.count_rows("below"), tuning.read().total())
    assert before == tuning.cuts
    tuning.check()
    tuning.run(add(1, keep=True), below(50))
    assert (0, 3) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)


def test_redone_sources_are_counted_during_the_run_and_at_its_end(tuning: Tuning) -> None:
    seen: list[RunProgress] = []
    tuning.run(add(1, keep=True), below(50), report=seen.append)
    assert (0, {0}) == (tuning.outcome.redone, {each.redone for each in seen})
    tuning.write(FILES, range(5))
    seen.clear()
    tuning.run(add(1, keep=True), below(10), report=seen.append)
    assert (FILES, FILES) == (tuning.outcome.redone, tuning.outcome.sources.redone)
    assert {0, FILES} == {each.redone for each in seen}
    told = render_snapshot(take_snapshot(seen[-1], 1.0, Pace()))
    assert (FILES, FILES) == (told["sources"]["redone"], parse_json(told).redone)
    sources = [render_snapshot(take_snapshot(each, 1.0, Pace()))["sources"] for each in seen]
    done = [each["finished"] + each["skipped"] for each in sources if "redone" in each]
    # The first count includes the new source, which was finished before the redo.
    assert done == sorted(done)
    assert 1 == done[0] <= done[-1] <= FILES + 1
    assert {FILES + 1} == {each["total"] for each in sources if "redone" in each}
    words = "from the output of 'add', because 'below' changed"
    assert (words, words) == (told["redoReason"], parse_json(told).redo_reason)
    assert "redoReason" not in render_snapshot(take_snapshot(seen[0], 1.0, Pace()))


def test_the_start_and_reason_of_a_redo_are_described() -> None:
    starts = Counter({Start("add", "cut"): 3, Start(): 2})
    words = "from the output of 'add' (3) and from the beginning (2), because 'add' and 'below'"
    assert f"{words} changed" == describe_redo(Survey(starts, Counter(add=4, below=1)))


def test_a_change_before_the_cut_starts_over_and_makes_new_cuts(tuning: Tuning) -> None:
    tuning.run(add(1, keep=True), below(10))
    before = tuning.cuts
    tuning.run(add(2, keep=True), below(10))
    assert (60, 8) == (tuning.count_rows("add"), tuning.read().total())
    assert len(tuning.cuts) == FILES
    assert not set(before) & set(tuning.cuts)
    tuning.check()


def test_statistics_of_new_sources_survive_a_redo_of_others(tuning: Tuning) -> None:
    """New and redone sources are in one attempt, and so in one shard of the statistics."""
    total: Item = {"use": "tuned_stages:Total", "name": "total"}
    tuning.run(add(1, keep=True), below(1000), total)
    tuning.write(FILES, range(100, 120))
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(50), total)
    assert [str(sum(range(1, 50))).encode()] == tuning.read_totals()
    tuning.write(FILES + 1, range(5))
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(40), total)
    assert [str(sum(range(1, 40)) + 15).encode()] == tuning.read_totals()


def test_the_nearest_cut_above_the_change_is_read(tuning: Tuning) -> None:
    chain = add(1, keep=True, name="one"), add(1, keep=True, name="two")
    tuning.run(*chain, below(10))
    tuning.run(chain[0], add(2, keep=True, name="two"), below(10))
    assert (0, 60, 60) == tuple(map(tuning.count_rows, ("one", "two", "below")))
    tuning.run(chain[0], add(2, keep=True, name="two"), below(11))
    assert (0, 0, 60) == tuple(map(tuning.count_rows, ("one", "two", "below")))
    assert 2 * FILES == len(tuning.cuts)
    tuning.check()


def test_new_and_changed_sources_begin_at_the_beginning(tuning: Tuning) -> None:
    tuning.run(add(1, keep=True), below(50))
    tuning.write(0, range(5))
    tuning.write(FILES, range(5))
    tuning.run(add(1, keep=True), below(10))
    assert (10, 50) == (tuning.count_rows("add"), tuning.count_rows("below"))
    assert (4, 0) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)
    assert 10 == tuning.read().total()
    tuning.check()


def hurt(packed: bytes) -> bytes:
    """Change one byte so that the bytes can still be read but contain other numbers."""
    for at in range(len(packed) - 1, 0, -1):
        other = packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]
        with suppress(pa.ArrowException, KeyError, ValueError, TypeError, OSError):
            tables = [pa.table(read_task(each).data) for each in (packed, other)]
            if tables[0] != tables[1] and tables[1]["n"].type == pa.int64():
                return other
    raise AssertionError("each change of a bit is noticed by itself")


@pytest.mark.parametrize("harm", ["lost", "shorter", "hurt"])
def test_sources_without_an_intact_cut_start_before_the_cut(tuning: Tuning, harm: str) -> None:
    tuning.run(add(1, keep=True, name="one"), add(1, keep=True, name="two"), below(10))
    cut = next(path for path in tuning.cuts if ".two." in path.name)
    if harm == "lost":
        cut.unlink()
    else:
        cut.write_bytes(cut.read_bytes()[:-1] if harm == "shorter" else hurt(cut.read_bytes()))
    code = tuning.run(add(1, keep=True, name="one"), add(1, keep=True, name="two"), below(11))
    assert ExitCode.COMPLETE is code
    assert (0, 20, 60) == tuple(map(tuning.count_rows, ("one", "two", "below")))
    assert 9 == tuning.read().total()
    assert 2 * FILES == len(tuning.cuts)
    tuning.check()


def test_a_source_that_loses_its_cut_is_redone_in_the_same_attempt(tuning: Tuning) -> None:
    """Sources with the lowest cuts come first. Otherwise this source would wait."""
    tuning.run(add(1, keep=True), below(10))
    lost, silent, _ = tuning.cuts
    lost.unlink()
    silent.write_bytes(hurt(silent.read_bytes()))
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(11))
    assert (3, 0) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)
    assert (40, 60) == (tuning.count_rows("add"), tuning.count_rows("below"))
    tuning.check()


def test_a_missing_folder_of_cuts_is_not_a_stage_failure(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.engine.flow.flow.BROKEN_AFTER", 2)
    tuning.run(add(1, keep=True), below(10))
    shutil.rmtree(tuning.passes.find_output(NAME) / "_strandline")
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(50))
    assert (60, 49, FILES) == (tuning.count_rows("add"), tuning.read().total(), len(tuning.cuts))
    tuning.check()


def test_a_source_whose_redo_fails_keeps_its_previous_output(tuning: Tuning) -> None:
    refuse: Item = {"use": "tuned_stages:Refuse", "name": "refuse"}
    tuning.run(add(1, keep=True), refuse, below(50))
    before = tuning.read()
    tuned_stages.BROKEN.add(1)
    assert ExitCode.SOURCES_FAILED is tuning.run(add(1, keep=True), refuse, below(10))
    standing = tuning.outcome.standing
    assert (2, 1, 0) == (standing.finished, standing.failed, standing.skipped)
    assert 20 == tuning.read().total()
    assert all(before[row] for row in tuning.read())
    (group,) = tuning.outcome.failure_groups
    assert "broken" in group.example.message
    tuning.check()
    with tuning.passes.opened(NAME) as store:
        assert 1 == verify(store, open_outputs(str(tuning.passes.find_output(NAME)))).older
    for _ in range(2):
        tuning.run(add(1, keep=True), refuse, below(10))
    assert (1, 2) == (tuning.outcome.standing.quarantined, tuning.outcome.standing.skipped)
    assert ExitCode.QUARANTINE_EXCEEDED is tuning.run(add(1, keep=True), refuse, below(10))
    assert 20 == tuning.read().total()
    tuned_stages.BROKEN.clear()
    # The previous recipe needs no work. A new recipe tries the failed source again.
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), refuse, below(50))
    assert before == tuning.read()
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), refuse, below(10))
    assert 9 == tuning.read().total()
    tuning.check()


def test_a_source_that_is_no_longer_listed_follows_the_removal_policy(tuning: Tuning) -> None:
    tuning.run(add(1, keep=True), below(50))
    (tuning.texts / "0.jsonl").unlink()
    tuning.run(add(1, keep=True), below(5))
    assert 20 == tuning.read().total()
    tuning.run(add(1, keep=True), below(5), listing={"onRemoved": "Delete"})
    assert (0, 2) == (tuning.read().total(), len(tuning.cuts))
    tuning.check()


@pytest.mark.parametrize("keep", [False, True])
def test_sources_that_share_storage_are_redone_as_one(tuning: Tuning, *, keep: bool) -> None:
    """A task of a group has the list of the group's members in addition to its data."""
    options: dict[str, Any] = {
        "sink": {"use": "parquet-partitions", "with": {"by": "in/[01]"}},
        "listing": {"onRemoved": "Delete"},
    }
    joined = add(1, keep=keep) | {"group": 1000}
    tuning.run(joined, below(1000), **options)
    assert ExitCode.COMPLETE is tuning.run(joined, below(30), **options)
    assert tuning.count_rows("add") == (0 if keep else 60)
    tuning.check()
    tuning.run(joined, below(30), **options, name="fresh")
    assert tuning.read("fresh") == tuning.read()
    assert 29 == tuning.read().total()


def test_metadata_of_a_source_is_restored_from_a_cut(tuning: Tuning) -> None:
    def run(limit: int) -> int:
        source = {"use": "tuned_stages:Offsets"}
        stages = [{"use": "tuned_stages:Load"}, below(limit)]
        sink = {"use": "parquet"}
        tuning.passes.run(NAME, source=source, stages=stages, sink=sink, on_change="Redo")
        return tuning.read().total()

    assert (3, 2) == (run(1000), run(102))


def test_a_new_output_place_redoes_all_outputs(tuning: Tuning, tmp_path: Path) -> None:
    tuning.run(add(1, keep=True), below(50))
    sink = {"use": "parquet", "with": {"path": str(tmp_path / "elsewhere")}}
    tuning.run(add(1, keep=True), below(50), sink=sink)
    assert (3, 60) == (tuning.outcome.standing.finished, tuning.count_rows("add"))


def test_a_downstream_pipeline_sees_only_changed_outputs(tuning: Tuning) -> None:
    def run_behind() -> tuple[int, int]:
        source = {
            "use": "parquet-row-groups",
            "with": {"paths": [{"pipeline": NAME, "files": "**/*.parquet"}]},
        }
        outcome = tuning.passes.run(
            "behind", source=source, stages=[{"use": "read-parquet"}], sink={"use": "parquet"}
        )
        assert outcome.code is ExitCode.COMPLETE
        return outcome.standing.finished, outcome.standing.skipped

    tuning.run(add(1, keep=True), below(1000))
    assert (3, 0) == run_behind()
    names = {path.name for path in tuning.passes.find_output(NAME).glob("*/*/*.parquet")}
    tuning.run(add(1, keep=True), below(50))
    assert 3 == tuning.outcome.standing.finished
    now = {path.name for path in tuning.passes.find_output(NAME).glob("*/*/*.parquet")}
    assert (3, 2) == (len(now), len(now & names))
    tuning.check()
    assert (1, 2) == run_behind()
    assert 49 == tuning.read("behind").total()


def test_data_that_cannot_be_kept_fails_its_source_with_a_clear_error(tuning: Tuning) -> None:
    odd = {"use": "tuned_stages:Oddity", "keep": True}
    assert ExitCode.SOURCES_FAILED is tuning.run(odd)
    (group,) = tuning.outcome.failure_groups
    assert group.example.message == "a task can't be kept: it is dict, not a table, bytes or text"


def test_payloads_and_metadata_are_restored_unchanged(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / name).write_bytes(name.encode() * 3)
    passes = Passes(tmp_path)

    def run(upper: bool) -> list[str]:
        spec: dict[str, Any] = {
            "source": {"use": "files", "with": {"paths": [f"{tmp_path}/in/*"]}},
            "stages": [
                {"use": "failing_stages:OpenFile", "keep": True},
                {"use": "tuned_stages:Shout", "with": {"upper": upper}},
            ],
            "sink": {"use": "jsonl"},
        }
        passes.run(NAME, on_change="Redo", **spec)
        written = [path.read_text() for path in passes.find_output(NAME).rglob("*.jsonl")]
        return sorted(json.loads(line)["text"] for line in written)

    assert ["aaa", "bbb"] == run(upper=False)
    (tmp_path / "in" / "a").chmod(0)
    assert ["AAA", "BBB"] == run(upper=True)


def test_an_added_stage_reads_the_files_of_the_sink(tuning: Tuning) -> None:
    tuning.run(add(1), below(50))
    more: Item = {"use": "keep-rows", "name": "odd", "with": {"where": "n != 7"}}
    assert ExitCode.COMPLETE is tuning.run(add(1), below(50), more)
    assert (0, 0, 49) == tuple(map(tuning.count_rows, ("add", "below", "odd")))
    assert 48 == tuning.read().total()
    tuning.check()
    # Add a stage at the end, and then also change the first stage.
    tuning.run(add(1), below(50), more, more | {"name": "odder", "with": {"where": "n != 9"}})
    assert (0, 48, 47) == (*map(tuning.count_rows, ("odd", "odder")), tuning.read().total())
    tuning.run(add(1), below(40), more, more | {"name": "odder", "with": {"where": "n != 9"}})
    assert (60, 37) == (tuning.count_rows("add"), tuning.read().total())
    tuning.check()


@pytest.mark.parametrize(
    ("stage", "sink"),
    [
        (below(45, name="late"), {"use": "parquet"}),  # the stage does not declare its columns
        ({"use": "keep-rows", "with": {"where": "n != 7"}}, {"use": "jsonl"}),
    ],
)
def test_rows_that_files_do_not_preserve_are_recomputed(
    tuning: Tuning, stage: Item, sink: Item
) -> None:
    tuning.run(add(1), below(50), sink=sink)
    assert ExitCode.COMPLETE is tuning.run(add(1), below(50), stage, sink=sink)
    assert 60 == tuning.count_rows("add")
    tuning.check()


def test_mended_rows_are_included_in_a_redo(tuning: Tuning) -> None:
    refuse: Item = {"use": "tuned_stages:Refuse", "name": "refuse", "onError": "deadLetter"}
    chain = add(1, keep=True, name="one"), refuse, add(1, keep=True, name="two")
    tuned_stages.BROKEN.update([3, 23, 43])
    tuning.run(*chain, below(1000))
    assert (57, 2 * FILES) == (tuning.read_alive().total(), len(tuning.cuts))
    tuned_stages.BROKEN.clear()
    assert ExitCode.COMPLETE is tuning.run(*chain, below(1000), dead_letters="refuse")
    assert (60, FILES) == (tuning.read_alive().total(), len(tuning.cuts))
    assert ExitCode.COMPLETE is tuning.run(*chain, below(50))
    assert (0, 60, 48) == (
        tuning.count_rows("one"),
        tuning.count_rows("refuse"),
        tuning.read_alive().total(),
    )
    tuning.check()


def test_an_added_column_equals_a_fresh_run_byte_for_byte(tuning: Tuning) -> None:
    def read(name: str) -> list[bytes]:
        paths = tuning.passes.find_output(name).rglob("*.parquet")
        return [path.read_bytes() for path in sorted(paths, key=lambda path: path.parent.name)]

    more: Item = {"use": "tuned_stages:Square"}
    tuning.run(add(1), below(50))
    tuning.run(add(1), below(50), more)
    assert (0, 49) == (tuning.count_rows("add"), tuning.count_rows("square"))
    tuning.run(add(1), below(50), more, name="fresh")
    assert read(NAME) == read("fresh")


def test_a_schema_is_inferred_again_if_the_reader_has_changed(
    tuning: Tuning,
) -> None:
    def run(sources: int) -> list[str]:
        source = {"use": "files", "with": {"paths": [f"{tuning.texts}/*.jsonl"]}}
        reader = {"use": "read-jsonl", "with": {"schema": {"infer": sources}}, "keep": True}
        tuning.outcome = tuning.passes.run(
            NAME, source=source, stages=[reader], sink={"use": "parquet"}, on_change="Redo"
        )
        paths = tuning.passes.find_output(NAME).rglob("*.parquet")
        return sorted({str(pq.read_schema(path).field("n").type) for path in paths})

    tuning.write(2, [0.5, 1.5])
    assert ["int64"] == run(1)
    assert 1 == tuning.outcome.standing.failed
    assert ["double"] == run(3)
    assert (3, 0) == (tuning.outcome.standing.finished, tuning.outcome.standing.failed)
    assert ["double"] == run(3)
    tuning.check()


def test_a_ledger_of_an_older_release_has_the_recipe_of_its_last_attempt(
    tuning: Tuning, tmp_path: Path
) -> None:
    sink = {"use": "parquet", "with": {"path": str(tmp_path / "out")}}
    tuning.run(add(1), below(50), sink=sink)
    store = Store(PipelineFolder.on_volume(tuning.passes.volume, "default", NAME).ledger)
    with closing(store):
        parts = store.read_meta("fingerprint")["parts"]
        assert "parquet.with.path" in parts
        store.write(Change(meta={RECIPES: None}))
    tuning.run(add(1), below(50), sink=sink)
    assert (0, 3) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)
    tuning.run(add(1), below(40), sink=sink)
    assert (3, 0) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)


def test_a_longer_list_does_not_make_a_recipe_older(tuning: Tuning) -> None:
    """The outputs of the first run still count after a change that was reverted."""
    paths = [f"{tuning.texts}/*.jsonl"]
    tuning.run(below(50), listing={"paths": paths})
    tuning.write(FILES, range(60, 80))
    tuning.run(below(40), listing={"paths": paths}, on_change="Continue")
    (tuning.texts / "more").mkdir()
    (tuning.texts / "more/4.jsonl").write_text('{"n": 1}\n')
    tuning.run(below(50), listing={"paths": [*paths, f"{tuning.texts}/more/*"]})
    assert (2, FILES) == (tuning.outcome.standing.finished, tuning.outcome.standing.skipped)
    with tuning.passes.opened(NAME) as store:
        assert 0 == verify(store, open_outputs(str(tuning.passes.find_output(NAME)))).older


HALVES: Item = {"use": "tuned_stages:Halves"}
FIVES: Item = {"use": "tuned_stages:DropMultiples"}
DIE: Item = {"use": "tuned_stages:DieOn", "onError": "deadLetter"}
JOIN: Item = {"use": "tuned_stages:Join", "group": 4}


@pytest.mark.parametrize(
    "above",
    [
        [HALVES | {"keep": True}],
        [HALVES, add(1, keep=True, name="plus")],
        [HALVES, FIVES | {"keep": True}],
        [HALVES, DIE | {"keep": True}],
        [HALVES, FIVES, DIE, add(1, keep=True, name="plus")],
        [add(1, name="minus"), HALVES, add(1, keep=True, name="plus")],
    ],
)
def test_groups_after_a_cut_use_the_slots_of_a_fresh_run(tuning: Tuning, above: list[Item]) -> None:
    """Slots of filtered or failed tasks stay empty. Later slots keep their numbers."""
    tuning.reader = {"use": "tuned_stages:OpenNumbers"}
    tuning.run(*above, add(5), JOIN)
    assert ExitCode.COMPLETE is tuning.run(*above, add(1000), JOIN)
    assert READ_BACK in tuning.outcome.counts
    tuning.check()
    tuning.run(*above, add(1000), JOIN, name="fresh")
    assert tuning.read("fresh") == tuning.read()
