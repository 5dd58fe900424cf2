"""The guide's daily job: rows stay published, wherever a day is interrupted."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from guide_passes import Document, read_guide, write_pages
from pipeline_runs import Passes
from strandline.ledger.errors import LedgerError
from strandline.plan.task import Task
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.dedup.corpus.list_kept import ListKept
from strandline_packs.dedup.drop_listed import DropListed

pytestmark = pytest.mark.first(reason="five passes in a row")

NAMES = ["pages", "signatures", "links", "daily-duplicates", "kept", "daily-pages"]
LAST = "daily-pages"
ONE, TWO, THREE = ("one " * 9 + "end", "two " * 9 + "end", "three " * 9 + "end")


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passes:
    monkeypatch.chdir(tmp_path)
    return Passes(tmp_path)


@pytest.fixture
def second_day(passes: Passes) -> Passes:
    """Publish `m` and `t`, then write copies of both and a new page. The new keys sort first."""
    write_pages(passes.folder, m=ONE, t=TWO)
    run_day(passes)
    assert read_keys(passes) == "mt"
    write_pages(passes.folder, a=ONE, b=TWO, c=THREE)
    return passes


def list_documents() -> list[Document]:
    documents = read_guide("near.yaml", "daily.yaml")
    return [each for name in NAMES for each in documents if each["metadata"]["name"] == name]


def run_day(passes: Passes, count: int = len(NAMES)) -> list[int]:
    """Run the first `count` passes of a day, and return how many sources each finished.

    Stop at the first failure.
    """
    finished = []
    for document in list_documents()[:count]:
        spec = document["spec"]
        name = document["metadata"]["name"]
        result = passes.run(name, spec.get("onChange", "Fail"), **spec)
        if result.code is not ExitCode.COMPLETE:
            break
        place = spec["sink"].get("with", {}).get("path")
        assert passes.find_problems(name, place) == []
        finished.append(result.standing.finished)
    return finished


def read_keys(passes: Passes) -> str:
    return "".join(sorted(passes.read_rows(LAST, "key").elements()))


def read_bytes(passes: Passes, key: str) -> bytes:
    """Return the content of a page's file."""
    files = [path.read_bytes() for path in passes.find_output(LAST).rglob("*.jsonl")]
    (found,) = [content for content in files if f'"key":"{key}"'.encode() in content]
    return found


def test_published_rows_stay_unchanged_and_their_copies_are_counted(second_day: Passes) -> None:
    before = read_bytes(second_day, "m")
    assert len(run_day(second_day)) == len(NAMES)
    assert read_keys(second_day) == "cmt"
    assert before == read_bytes(second_day, "m")
    assert second_day.read_rows("daily-duplicates", "stays") == Counter("mt")


def test_a_day_without_new_pages_does_no_work(second_day: Passes) -> None:
    run_day(second_day)
    # The last pass added a row to the index, so the clusters are computed once more.
    assert run_day(second_day) == [0, 0, 0, 1, 1, 0]
    assert run_day(second_day) == [0] * len(NAMES)
    assert read_keys(second_day) == "cmt"


def test_a_copy_replaces_a_removed_page(second_day: Passes) -> None:
    run_day(second_day)
    (second_day.folder / "pages-m.jsonl").unlink()
    run_day(second_day)
    assert read_keys(second_day) == "act"
    write_pages(second_day.folder, m=ONE)
    run_day(second_day)
    assert read_keys(second_day) == "act"


def test_a_page_that_becomes_a_copy_of_a_published_page_is_removed(passes: Passes) -> None:
    write_pages(passes.folder, a=ONE, m=TWO)
    run_day(passes)
    write_pages(passes.folder, a=TWO)
    run_day(passes)
    assert read_keys(passes) == "m"
    write_pages(passes.folder, a=THREE)
    run_day(passes)
    assert read_keys(passes) == "am"


def test_a_published_row_that_is_removed_is_counted_if_the_first_key_stays(
    second_day: Passes,
) -> None:
    """The result equals that of a full run. The index only reports which rows were published."""
    documents = {each["metadata"]["name"]: each["spec"] for each in list_documents()}
    spec = documents["daily-duplicates"]
    spec["stages"][0]["with"]["keptRowsStay"] = False
    # A change of `keptRowsStay` changes the recipe, so the passes run again.
    for name in ("pages", "signatures", "links"):
        second_day.run(name, **documents[name])
    result = second_day.run("daily-duplicates", "Restart", **spec)
    counters = result.counts["cluster-duplicates"].counters
    assert {"rows that stayed before and go": 2} == counters
    assert second_day.read_rows("daily-duplicates", "stays") == Counter("ab")
    second_day.run("kept", **documents["kept"])
    again = second_day.run("daily-duplicates", **spec)
    assert (0, ExitCode.COMPLETE) == (again.standing.finished, again.code)


@pytest.mark.parametrize("count", range(len(NAMES)))
def test_a_day_interrupted_between_two_passes_resumes(second_day: Passes, count: int) -> None:
    run_day(second_day, count)
    write_pages(second_day.folder, B=TWO, A=ONE, D=THREE)
    run_day(second_day)
    decided = count > NAMES.index("kept")
    assert read_keys(second_day) == ("cmt" if decided else "Dmt")


def break_off(patch: pytest.MonkeyPatch, stage: type[ListKept | DropListed], number: int) -> None:
    """Make a stage fail after it has processed its task with index `number`, counted from 0."""
    process, calls = stage.process, iter(range(99))

    def fail(self: ListKept | DropListed, task: Task) -> Iterator[Task] | Task | None:
        answer = process(self, task)  # type: ignore[arg-type]
        if next(calls) >= number:
            raise OSError("the node is gone")
        return answer

    patch.setattr(stage, "process", fail)


@pytest.mark.parametrize(
    ("stage", "number"), [(ListKept, 0), *((DropListed, number) for number in range(5))]
)
def test_a_day_interrupted_within_a_pass_resumes(
    second_day: Passes, stage: type[ListKept | DropListed], number: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        break_off(patch, stage, number)
        finished = run_day(second_day)
        assert len(finished) == (4 if stage is ListKept else 5)
    write_pages(second_day.folder, A=ONE, B=TWO)
    run_day(second_day)
    assert read_keys(second_day) == "cmt"


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_missing_index_fails_the_day_instead_of_starting_over(
    second_day: Passes, *, is_mounted: bool
) -> None:
    folder, away = second_day.folder / "kept-pages", second_day.folder / "away"
    folder.rename(away)
    if is_mounted:
        folder.mkdir()
    for _ in range(2):
        with pytest.raises(LedgerError, match="kept-pages -> missing there"):
            run_day(second_day)
        assert read_keys(second_day) == "mt"
    shutil.rmtree(folder, ignore_errors=True)
    away.rename(folder)
    run_day(second_day)
    assert read_keys(second_day) == "cmt"
