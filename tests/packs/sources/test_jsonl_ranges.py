"""JSON Lines by byte ranges, in bounded tasks, and with columns from folder names."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.stages.ends import Source
from strandline.plan.task import Task
from strandline_packs.sources.jsonl_source import JsonlFiles
from strandline_packs.sources.warc_source import WarcFiles
from strandline_packs.tables.read_jsonl import ReadJsonl


def read(stage: ReadJsonl, sources: Iterator[Source]) -> list[dict[str, Any]]:
    tasks = [task for source in sources for task in stage.process(Task(source.data))]
    return [row for task in tasks for row in task.table.to_pylist()]


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=12)


@given(values=texts, length=st.integers(1, 80), ending=st.sampled_from(["\n", "\r\n", "\n\n"]))
@settings(max_examples=scale_examples(60))
def test_law_ranges_give_the_rows_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], length: int, ending: str
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    lines = [json.dumps({"n": n, "text": text}) for n, text in enumerate(values)]
    path.write_bytes(ending.join(lines).encode())
    whole = read(ReadJsonl(), JsonlFiles(paths=[str(path)]).list_sources())
    cut = read(ReadJsonl(), JsonlFiles(paths=[str(path)], range_bytes=length).list_sources())

    assert [row["n"] for row in cut] == [row["n"] for row in whole] == list(range(len(values)))
    assert [row["text"] for row in cut] == values
    content = path.read_bytes()
    for row in cut:  # a key is the line's offset
        at = int(row["key"].rpartition("#B")[2])
        assert json.loads(content[at:].splitlines()[0])["n"] == row["n"]


def test_each_range_is_a_source_and_compressed_files_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n' * 10)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n' * 10))
    stage = JsonlFiles(paths=[f"{tmp_path}/*"], range_bytes=40)
    keys = sorted(source.key.removeprefix(f"{tmp_path}/") for source in stage.list_sources())
    assert keys == [
        "a.jsonl#bytes=0-39",
        "a.jsonl#bytes=40-79",
        "a.jsonl#bytes=80-119",
        "b.jsonl.gz",
    ]
    assert len(read(ReadJsonl(), stage.list_sources())) == 20


def test_a_range_within_a_long_line_has_no_rows_and_does_not_fail(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "x" * 500}) + "\n")
    stage = JsonlFiles(paths=[f"{tmp_path}/*"], range_bytes=100)
    assert len(list(stage.list_sources())) == 6
    assert len(read(ReadJsonl(), stage.list_sources())) == 1


def test_a_bad_line_of_a_range_is_named_by_its_byte(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n": 1}\n' * 5 + b"oops\n" + b'{"n": 1}\n' * 5)
    sources = list(JsonlFiles(paths=[f"{tmp_path}/*"], range_bytes=20).list_sources())
    with pytest.raises(UnreadableFileError, match=r"a\.jsonl#B45: not a JSON object"):
        read(ReadJsonl(), iter(sources))
    dropping = ReadJsonl(bad_lines="drop")
    assert len(read(dropping, iter(sources))) == 10
    assert dropping.counters == {"dropped: not a JSON object": 1}


def test_tasks_are_bounded_by_bytes_and_by_rows_and_come_one_by_one(tmp_path: Path) -> None:
    rows = [{"n": n, "text": "x" * (1000 if n % 2 else 10)} for n in range(40)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "oops\n")
    (source,) = JsonlFiles(paths=[str(path)]).list_sources()

    tasks = ReadJsonl(max_task_bytes=3000, max_rows=15).process(Task(source.data))

    first = next(tasks)  # the bad line further down is not read yet
    assert first.table.num_rows == 6
    sizes = [task.table.num_rows for task in _take_until_failure(tasks)]
    assert set(sizes) <= {5, 6}
    short = ReadJsonl(max_rows=15, bad_lines="drop").process(Task(source.data))
    assert [task.table.num_rows for task in short] == [15, 15, 10]


def _take_until_failure(tasks: Iterator[Task]) -> Iterator[Task]:
    with pytest.raises(UnreadableFileError, match="#L41: not a JSON object"):
        yield from tasks


def test_a_line_that_is_too_large_is_named_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": "' + b"x" * 5000 + b'"}\n{"n": 3}\n')
    (source,) = JsonlFiles(paths=[str(path)]).list_sources()
    failing = ReadJsonl(max_line_bytes=1000)
    with pytest.raises(
        UnreadableFileError, match=r"#L2: the line has 5,010 bytes, more than maxLi"
    ):
        list(failing.process(Task(source.data)))
    dropping = ReadJsonl(max_line_bytes=1000, bad_lines="drop")
    assert [row["n"] for row in read(dropping, iter([source]))] == [1, 3]
    assert dropping.counters == {"dropped: line larger than maxLineBytes": 1}


@pytest.mark.parametrize("kind", [JsonlFiles, WarcFiles])
def test_the_cost_of_a_kill_is_reported_for_large_files(
    kind: type[JsonlFiles | WarcFiles], tmp_path: Path
) -> None:
    with (tmp_path / "large.warc").open("wb") as file:
        file.truncate((1 << 30) + 1)
    (tmp_path / "small.warc").write_bytes(b"x")
    stage = kind(paths=[f"{tmp_path}/*"])
    assert len(list(stage.list_sources())) == 2
    ((name, number),) = stage.counters.items()
    assert number == 1
    assert "a killed run repeats the whole file; `rangeBytes` splits" in name
    cut = kind(paths=[f"{tmp_path}/*"], range_bytes=1 << 29)
    assert len(list(cut.list_sources())) == 4
    assert cut.counters == {}


def write_partitions(folder: Path) -> str:
    for name, row in (
        ("year=2024/lang=en", {"n": 1}),
        ("year=2025/lang=__HIVE_DEFAULT_PARTITION__", {"n": 2}),
        ("year=2025/lang=a%2Fb", {"n": 3}),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "part.jsonl").write_text(json.dumps(row) + "\n")
    return f"{folder}/**"


def test_folders_become_columns_on_request(tmp_path: Path) -> None:
    sources = JsonlFiles(paths=[write_partitions(tmp_path)])
    rows = read(ReadJsonl(partitioning="hive"), sources.list_sources())
    assert sorted((row["n"], row["year"], row["lang"]) for row in rows if row["lang"]) == [
        (1, "2024", "en"),
        (3, "2025", "a/b"),
    ]
    assert [(row["n"], row["year"]) for row in rows if row["lang"] is None] == [(2, "2025")]
    plain = read(ReadJsonl(), sources.list_sources())
    assert {frozenset(row) for row in plain} == {frozenset({"key", "n"})}


@pytest.mark.parametrize("column", ["n", "key"])
def test_a_column_in_a_file_and_in_its_folders_name_is_refused(tmp_path: Path, column: str) -> None:
    path = tmp_path / f"{column}=5" / "a.jsonl"
    path.parent.mkdir()
    path.write_text('{"n": 1}\n')
    sources = JsonlFiles(paths=[str(path)]).list_sources()
    with pytest.raises(
        UnreadableFileError, match=f"column '{column}' is in the name of its folder as well"
    ):
        read(ReadJsonl(partitioning="hive"), sources)
