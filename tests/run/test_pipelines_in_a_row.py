"""Rows that a pipeline no longer outputs disappear from all of its readers, with any sink."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.attempt.phases.order import CLOSING
from strandline.run.attempt.phases.shared_files import tidy
from strandline.run.attempt.sources.partitions import ListingError
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

FIRST, SECOND = "first", "second"
STRAY = f"abc/abc{0:029x}/of-a-task-in-flight.jsonl"
SHARED = {"targetBytes": 1 << 20}
# For each kind: the sink of the first pipeline, and how the second pipeline reads its files.
HANDS: dict[str, tuple[Any, str, str, str]] = {
    "jsonl": ({"use": "jsonl"}, "jsonl-files", "read-jsonl", "**/*.jsonl"),
    "parquet": ({"use": "parquet"}, "parquet-row-groups", "read-parquet", "**/*.parquet"),
    "shared jsonl": ({"use": "jsonl", "with": SHARED}, "jsonl-files", "read-jsonl", "**/*.jsonl"),
    "shared parquet": (
        {"use": "parquet", "with": SHARED},
        "parquet-row-groups",
        "read-parquet",
        "shared/**/*.parquet",
    ),
}


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def write(passes: Passes, **texts: str) -> None:
    """Write files with one row per letter. Remove a file without letters."""
    folder = passes.folder / "in"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        path = folder / f"{name}.jsonl"
        if text:
            path.write_text("\n".join(json.dumps({"letter": letter}) for letter in text))
        else:
            path.unlink(missing_ok=True)


def run_first(
    passes: Passes, sink: Any, *, on_removed: str = "Delete", **spec: Any
) -> AttemptResult:
    paths = [f"{passes.folder}/in/*.jsonl"]
    source = {"use": "jsonl-files", "with": {"paths": paths, "onRemoved": on_removed}}
    return passes.run(FIRST, source=source, stages=[{"use": "read-jsonl"}], sink=sink, **spec)


def run_second(
    passes: Passes, hand: str, *more: str, sink: Any = None, **source: Any
) -> AttemptResult:
    _, use, reader, files = HANDS[hand]
    paths = [{"pipeline": FIRST, "files": files}, *more]
    return passes.run(
        SECOND,
        source={"use": use, "with": {"paths": paths} | source},
        stages=[{"use": reader}],
        sink=sink or {"use": "jsonl"},
    )


def read(passes: Passes) -> str:
    rows = passes.read_rows(SECOND, "letter")
    assert passes.find_problems(SECOND) == []
    return "".join(sorted(rows.elements()))


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("on_removed", ["Keep", "Delete"])
def test_a_changed_source_is_output_once(passes: Passes, hand: str, on_removed: str) -> None:
    write(passes, one="abc", two="de")
    run_first(passes, HANDS[hand][0])
    run_second(passes, hand, onRemoved=on_removed)
    assert read(passes) == "abcde"
    write(passes, one="abX")
    run_first(passes, HANDS[hand][0])
    assert run_second(passes, hand, onRemoved=on_removed).code is ExitCode.COMPLETE
    assert read(passes) == "Xabde"
    write(passes, two="")
    run_first(passes, HANDS[hand][0])
    run_second(passes, hand, onRemoved=on_removed)
    assert read(passes) == "Xab"


@pytest.mark.parametrize(
    "sink", [{"use": "parquet", "with": SHARED}, {"use": "jsonl", "with": SHARED}]
)
def test_shared_files_of_the_second_pipeline_lose_removed_rows(passes: Passes, sink: Any) -> None:
    write(passes, one="abc", two="de", three="f")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl", sink=sink)
    write(passes, one="X", two="")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl", sink=sink)
    assert read(passes) == "Xf"


@pytest.mark.parametrize("hand", HANDS)
def test_removing_the_last_output_removes_all_rows(passes: Passes, hand: str) -> None:
    """An empty listing is usually a mistake, but here a ledger confirms that no source exists."""
    write(passes, one="abc")
    run_first(passes, HANDS[hand][0])
    run_second(passes, hand)
    write(passes, one="")
    (passes.folder / "in/empty.jsonl").write_text("")
    run_first(passes, HANDS[hand][0])
    second = run_second(passes, hand)
    assert (second.code, second.standing.removed) == (ExitCode.COMPLETE, 1)
    assert read(passes) == ""


@given(
    st.sampled_from(sorted(HANDS)),
    st.lists(
        st.dictionaries(st.sampled_from(["one", "two", "three"]), st.text("abcd", max_size=3)),
        min_size=1,
        max_size=4,
    ),
)
def test_law_the_second_pipeline_has_the_rows_of_the_first(
    tmp_path_factory: pytest.TempPathFactory, hand: str, edits: list[dict[str, str]]
) -> None:
    passes = Passes(tmp_path_factory.mktemp("passes"))
    write(passes, always="z")
    for edit in edits:
        write(passes, **edit)
        run_first(passes, HANDS[hand][0])
        run_second(passes, hand)
        assert passes.read_rows(SECOND, "letter") == passes.read_rows(FIRST, "letter")
        assert passes.find_problems(SECOND) == []


def test_plain_input_files_keep_the_configured_policy(passes: Passes) -> None:
    own = passes.folder / "own"
    own.mkdir()
    for name in "xy":
        (own / f"{name}.jsonl").write_text(json.dumps({"letter": name}))
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl", f"{own}/*.jsonl")
    (own / "x.jsonl").unlink()
    write(passes, one="")
    run_first(passes, HANDS["jsonl"][0])
    second = run_second(passes, "jsonl", f"{own}/*.jsonl")
    assert second.standing.removed == 1
    assert read(passes) == "bxy"


def test_other_files_beside_outputs_are_skipped_and_counted(passes: Passes) -> None:
    write(passes, one="a")
    run_first(passes, HANDS["jsonl"][0])
    stray = passes.find_output(FIRST) / STRAY
    stray.parent.mkdir(parents=True)
    stray.write_text(json.dumps({"letter": "z"}))
    second = run_second(passes, "jsonl")
    assert read(passes) == "a"
    counters = second.counts["jsonl-files"].counters
    assert counters == {"left out: not an output of pipeline default/first": 1}


def test_plain_input_files_may_lie_in_an_output_folder(
    passes: Passes,
) -> None:
    write(passes, one="a", two="b")
    sink = {"use": "parquet", "with": {"path": str(passes.folder)}}
    run_first(passes, sink)
    source = {"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/in/*.jsonl"]}}
    stages, to = [{"use": "read-jsonl"}], {"use": "jsonl"}
    passes.run(SECOND, source=source, stages=stages, sink=to)
    write(passes, one="")
    second = passes.run(SECOND, source=source, stages=stages, sink=to)
    assert (second.standing.removed, read(passes)) == (0, "ab")
    all_there = {"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/**/two.jsonl"]}}
    passes.run("third", source=all_there, stages=stages, sink=to)
    assert passes.read_rows("third", "letter") == Counter("b")


def test_a_lost_output_does_not_count_as_removed(passes: Passes) -> None:
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl")
    lost = min(passes.find_output(FIRST).rglob("*.jsonl"))
    lost.unlink()
    second = run_second(passes, "jsonl")
    assert second.standing.removed == 0
    assert read(passes) == "ab"
    name = "not looked at: a missing output of pipeline default/first"
    assert second.counts["jsonl-files"].counters == {name: 1}


def test_a_folder_that_is_not_mounted_deletes_nothing(passes: Passes) -> None:
    write(passes, one="a")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl")
    output = passes.find_output(FIRST)
    output.rename(output.with_name("away"))
    output.mkdir()
    with pytest.raises(Exception, match="lists no sources"):
        run_second(passes, "jsonl")
    assert read(passes) == "a"


def test_an_unreadable_ledger_deletes_nothing(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl")
    write(passes, one="")
    run_first(passes, HANDS["jsonl"][0])

    def refuse(_: object) -> object:
        msg = "no answer"
        raise OSError(msg)

    monkeypatch.setattr("strandline.run.attempt.sources.published_outputs._list_files", refuse)
    second = run_second(passes, "jsonl")
    assert second.standing.removed == 0
    name = "not looked at: outputs of pipeline default/first"
    assert second.counts["jsonl-files"].counters == {name: 1}


def test_a_plain_folder_of_a_pipeline_is_read_as_its_name_is(passes: Passes) -> None:
    """On a cluster, the operator replaces pipeline names with folders."""
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    source = {"use": "jsonl-files", "with": {"paths": [f"{passes.find_output(FIRST)}/**/*.jsonl"]}}
    stages, sink = [{"use": "read-jsonl"}], {"use": "jsonl"}
    passes.run(SECOND, source=source, stages=stages, sink=sink)
    write(passes, one="X")
    run_first(passes, HANDS["jsonl"][0])
    passes.run(SECOND, source=source, stages=stages, sink=sink)
    assert read(passes) == "Xb"


def test_a_damaged_ledger_deletes_nothing(passes: Passes) -> None:
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    output = passes.find_output(FIRST)
    source = {"use": "jsonl-files", "with": {"paths": [f"{output}/**/*.jsonl"]}}
    stages, sink = [{"use": "read-jsonl"}], {"use": "jsonl"}
    passes.run(SECOND, source=source, stages=stages, sink=sink)
    (output.parent / "ledger/data.mdb").write_bytes(b"no ledger" * 1000)
    min(output.rglob("*.jsonl")).unlink()
    second = passes.run(SECOND, source=source, stages=stages, sink=sink)
    assert (second.standing.removed, read(passes)) == (0, "ab")


@pytest.mark.parametrize("hand", ["jsonl", "shared parquet"])
def test_outputs_in_a_store_are_listed_by_the_ledger(passes: Passes, hand: str) -> None:
    store = fsspec.filesystem("memory")
    url = f"memory://in-a-row/{passes.folder.name}"
    storage = {"output": {"url": url}}
    write(passes, one="ab", two="c")
    run_first(passes, HANDS[hand][0], storage=storage)
    run_second(passes, hand)
    assert read(passes) == "abc"
    write(passes, one="X")
    run_first(passes, HANDS[hand][0], storage=storage)
    for name in (STRAY, "shared/abc/stray.parquet"):
        store.pipe_file(f"{url}/{name}", b'{"letter": "z"}')
    run_second(passes, hand)
    assert read(passes) == "Xc"


def test_buckets_of_removed_sources_are_removed(passes: Passes) -> None:
    def run_packed() -> AttemptResult:
        return passes.run(
            SECOND,
            source={
                "use": "files",
                "with": {"paths": [{"pipeline": FIRST, "files": "**/*.jsonl"}], "buckets": 5},
            },
            stages=[{"use": "read-jsonl"}],
            sink={"use": "jsonl"},
        )

    write(passes, **{letter: letter for letter in "abcdefgh"})
    run_first(passes, HANDS["jsonl"][0])
    run_packed()
    assert read(passes) == "abcdefgh"
    write(passes, **dict.fromkeys("abcdefg", ""))
    run_first(passes, HANDS["jsonl"][0])
    assert run_packed().standing.removed > 0
    assert read(passes) == "h"


def test_a_shared_file_that_awaits_rewriting_is_not_read(
    passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = HANDS["shared jsonl"][0]
    write(passes, one="a", two="b")
    run_first(passes, sink)
    run_second(passes, "shared jsonl")
    with monkeypatch.context() as patch:  # end as if killed before the tidying
        closing = tuple(phase for phase in CLOSING if phase is not tidy)
        patch.setattr("strandline.run.attempt.attempt.CLOSING", closing)
        write(passes, one="")
        run_first(passes, sink)
    with pytest.raises(ListingError, match="has rows that pipeline default/first has removed"):
        run_second(passes, "shared jsonl")
    assert read(passes) == "ab"
    run_first(passes, sink)
    run_second(passes, "shared jsonl")
    assert read(passes) == "b"


def test_the_ledger_of_another_volume_is_not_read(passes: Passes) -> None:
    write(passes, one="a", two="b")
    run_first(passes, HANDS["jsonl"][0])
    run_second(passes, "jsonl")
    ledger = PipelineFolder.on_volume(passes.volume, "default", FIRST).ledger
    write(passes, one="")
    run_first(passes, HANDS["jsonl"][0])
    stray = passes.find_output(FIRST) / STRAY
    stray.parent.mkdir(parents=True)
    stray.write_text(json.dumps({"letter": "z"}))
    source = {"use": "jsonl-files", "with": {"paths": [f"{passes.find_output(FIRST)}/**/*.jsonl"]}}
    ledger.rename(ledger.with_name("elsewhere"))
    passes.run(SECOND, source=source, stages=[{"use": "read-jsonl"}], sink={"use": "jsonl"})
    # Without the ledger the set of outputs is unknown, but rows of missing files are removed.
    assert passes.read_rows(SECOND, "letter") == Counter("bz")
