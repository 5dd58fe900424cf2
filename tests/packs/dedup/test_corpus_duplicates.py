"""Duplicates of a whole corpus, found in passes, for any order and partition of rows."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_passes import list_duplicates
from stage_runs import Rows, StageRun, build
from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline.data.tables.file_references import FileReference
from strandline.plan.task import Lineage, Task
from strandline_packs.dedup.corpus.clusters import DROPPED, LINKS, link_rows, list_dropped
from strandline_packs.dedup.corpus.components import Components
from strandline_packs.dedup.corpus.row_buckets import BUCKETS, build_buckets
from strandline_packs.dedup.key_lists import digest_bytes
from strandline_packs.dedup.near.near_duplicates import AmbiguousKeyError
from strandline_packs.tables.shuffle.partition_files import (
    PartitionRules,
    read_partitions,
    write_partitions,
)

Corpus = Mapping[str, Sequence[bytes]]

CORPORA = st.dictionaries(
    st.text("abcé", min_size=1, max_size=4),
    st.lists(st.integers(0, 12), max_size=4, unique=True),
    max_size=12,
).map(lambda found: {key: [digest_bytes(bytes([n])) for n in of] for key, of in found.items()})


def find_naively(corpus: Corpus) -> dict[str, str]:
    """Return dropped and kept keys, found by merging clusters until none overlap."""
    clusters = [({key}, set(buckets)) for key, buckets in corpus.items()]
    grown: list[tuple[set[str], set[bytes]]] = []
    while clusters:
        keys, buckets = clusters.pop()
        touching = [other for other in clusters if other[1] & buckets]
        if touching:
            clusters = [other for other in clusters if not other[1] & buckets]
            for other in touching:
                keys, buckets = keys | other[0], buckets | other[1]
            clusters.append((keys, buckets))
        else:
            grown.append((keys, buckets))
    return {key: min(keys) for keys, _ in grown for key in keys if key != min(keys)}


def shuffle(folder: Path, tables: Iterable[pa.Table], count: int) -> list[FileReference]:
    """Return the files that a pass writes for some tables."""
    files = []
    for number, table in enumerate(tables):
        path = folder / f"{number}.parquet"
        with path.open("wb") as file:
            write_partitions(table, PartitionRules(count, "bucket"), file)
        files.append(FileReference(path.name, str(path)))
    return files


def find_by_passes(folder: Path, parts: Iterable[Corpus], count: int, seed: int) -> dict[str, str]:
    """Return the duplicates found by all passes."""
    tables = [build_buckets(list(part), list(part.values())) for part in parts]
    files = shuffle(folder, tables, count)
    links = [
        link_rows(read_partitions(files, range(number, number + 1), count))
        for number in range(count)
    ]
    links = [part.slice(at, 2) for part in links for at in range(0, part.num_rows, 2)]
    random.Random(seed).shuffle(links)
    found = [row for table in list_dropped(lambda: links) for row in table.to_pylist()]
    assert len(found) == len({row["key"] for row in found})
    return {row["key"]: row["stays"] for row in found}


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=8), max_size=6),
        )
    )
)
def test_law_clusters_equal_those_found_one_by_one(
    drawn: tuple[int, list[list[tuple[int, int]]]],
) -> None:
    count, portions = drawn
    naive = list(range(count))
    components = Components(count)
    for portion in portions:
        pairs = np.array(portion, np.int32).reshape(-1, 2)
        components.join(pairs[:, 0], pairs[:, 1])
        for one, other in portion:
            low, high = sorted((naive[one], naive[other]))
            naive = [low if root == high else root for root in naive]
        assert naive == components.find(np.arange(count, dtype=np.int32)).tolist()


@given(CORPORA, st.data())
def test_law_the_kept_set_does_not_depend_on_order_files_or_partitions(
    tmp_path_factory: pytest.TempPathFactory, corpus: Corpus, data: st.DataObject
) -> None:
    keys = data.draw(st.permutations(sorted(corpus)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(keys)), max_size=3)))
    edges = [0, *cuts, len(keys)]
    parts = [{key: corpus[key] for key in keys[start:end]} for start, end in pairwise(edges)]
    count, seed = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 99))
    folder = tmp_path_factory.mktemp("passes")
    assert find_naively(corpus) == find_by_passes(folder, parts, count, seed)


@given(
    st.lists(st.binary(min_size=16, max_size=16), max_size=30).map(sorted),
    st.integers(1, 9),
)
def test_law_a_row_is_in_one_partition_and_equal_digests_in_the_same(
    tmp_path_factory: pytest.TempPathFactory, digests: list[bytes], count: int
) -> None:
    table = pa.table({"n": range(len(digests)), "bucket": pa.array(digests, pa.binary(16))})
    files = shuffle(tmp_path_factory.mktemp("shuffle"), [table], count)
    parts = [read_partitions(files, range(number, number + 1), count) for number in range(count)]
    assert pa.concat_tables(parts).to_pylist() == table.to_pylist()  # in order of prefixes
    for one, other in pairwise(parts):
        assert not set(one["bucket"].to_pylist()) & set(other["bucket"].to_pylist())
    assert {table.schema} == {part.schema for part in parts}


def test_partitions_are_of_about_one_size(tmp_path: Path) -> None:
    corpus = {str(at): [digest_bytes(bytes([at // 256, at % 256]))] for at in range(4000)}
    tables = [build_buckets(list(corpus), list(corpus.values()))]
    files = shuffle(tmp_path, tables, 8)
    sizes = [read_partitions(files, range(number, number + 1), 8).num_rows for number in range(8)]
    assert sum(sizes) == 4000
    assert min(sizes) > 400


def test_equal_tables_are_written_as_equal_bytes() -> None:
    table = build_buckets(["a", "b", "c"], [[digest_bytes(b"1")], [], [digest_bytes(b"2")] * 2])
    assert table.schema == BUCKETS
    cut = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    written = []
    for each in (table, cut):
        file = io.BytesIO()
        write_partitions(each, PartitionRules(2, "bucket"), file)
        written.append(file.getvalue())
    assert written[0] == written[1]


def make_texts() -> list[dict[str, str]]:
    chance = random.Random(4)
    texts = []
    for cluster in range(6):
        words = [f"w{chance.randrange(3000)}" for _ in range(200)]
        for copy in range(cluster % 3 + 1):
            words[copy * 7] = f"changed{copy}"
            texts.append({"key": f"{cluster}-{copy}", "text": " ".join(words)})
    return texts


def run_passes(folder: Path, first: StageRun, rows: list[dict[str, Any]], count: int) -> list[str]:
    """Return the keys that remain after the stages of all passes."""
    dropping = StageRun("drop-listed", path=list_duplicates(folder, first, rows, count))
    return [row["key"] for row in dropping.rows(rows)]


@pytest.mark.parametrize("count", [1, 5])
def test_the_first_of_similar_texts_stays(tmp_path: Path, count: int) -> None:
    kept = run_passes(tmp_path, StageRun("sign-texts"), make_texts(), count)
    assert [f"{cluster}-0" for cluster in range(6)] == kept


def test_the_first_of_equal_rows_stays(tmp_path: Path) -> None:
    urls = ["https://b.example", "https://a.example", " https://b.example ", "", " ", None]
    rows = [{"key": str(at), "url": url} for at, url in enumerate(urls)]
    kept = run_passes(tmp_path, StageRun("digest-rows", columns=["url"]), rows, 3)
    assert ["0", "1", "3", "4", "5"] == kept


LINES = st.lists(st.text("ab \n\r", max_size=8), max_size=5)


@given(LINES)
def test_law_joined_paragraphs_equal_the_split_text(texts: list[str]) -> None:
    rows = [{"key": str(at), "text": text, "url": f"u{at}"} for at, text in enumerate(texts)]
    table = pa.Table.from_pylist(
        rows, pa.schema([(n, pa.string()) for n in ("key", "text", "url")])
    )
    split = StageRun("split-paragraphs").table(table)
    assert split is not None
    assert len(set(split["key"].to_pylist())) == split.num_rows
    found = StageRun("join-paragraphs").table(split)
    back = [] if found is None else found.drop_columns(["document"]).to_pylist()
    assert [row for row in rows if row["text"].strip()] == back


def test_repeated_paragraphs_are_removed_and_the_rest_stays(tmp_path: Path) -> None:
    rows = [
        {"key": "a", "text": "The tide turned.\n\nAll rights reserved."},
        {"key": "b", "text": "All rights reserved.\n\nNobody came."},
        {"key": "c", "text": "All rights  reserved."},
    ]
    split = StageRun("split-paragraphs").rows(rows)
    kept = set(run_passes(tmp_path, StageRun("digest-rows"), split, 2))
    assert ["a#0", "a#1", "a#2", "b#1", "b#2"] == sorted(kept)
    stage = StageRun("join-paragraphs")
    left = stage.rows([row for row in split if row["key"] in kept])
    assert [("a", rows[0]["text"]), ("b", "\nNobody came.")] == [
        (row["key"], row["text"]) for row in left
    ]
    assert [] == stage.rows([row for row in split if row["key"] == "b#1"])
    assert {"dropped: nothing left": 1} == stage.counters


def test_an_empty_list_is_written_without_duplicates(tmp_path: Path) -> None:
    rows = [*make_texts()[:1], {"key": "empty", "text": ""}, {"key": "marks", "text": "..."}]
    assert ["0-0", "empty", "marks"] == run_passes(tmp_path, StageRun("sign-texts"), rows, 2)
    (empty,) = tmp_path.glob("dropped-*")
    assert pq.read_table(empty).schema.names == DROPPED.names


def test_more_bands_find_looser_and_more_rows_closer_similarity(tmp_path: Path) -> None:
    texts = make_texts()[1:3] + make_texts()[3:6]

    def count_kept(name: str, **params: int) -> int:
        folder = tmp_path / name
        folder.mkdir()
        return len(run_passes(folder, StageRun("sign-texts", **params), texts, 2))

    loose, close = count_kept("loose", bands=64, rows=2), count_kept("close", bands=1, rows=128)
    assert loose < close == len(texts)


def test_a_key_of_two_rows_is_reported() -> None:
    table = build_buckets(["a", "b", "a"], [[digest_bytes(b"x")]] * 3)
    with pytest.raises(AmbiguousKeyError, match="two rows have the key 'a'; keys must be unique"):
        link_rows(table)


def test_files_with_another_number_of_partitions_are_reported(tmp_path: Path) -> None:
    table = build_buckets(["a"], [[digest_bytes(b"x")]])
    first = shuffle(tmp_path, [table], 2)
    other = tmp_path / "other"
    other.mkdir()
    second = shuffle(other, [table], 3)
    with pytest.raises(UnreadableFileError, match="it has 3 partitions, and others have 2"):
        read_partitions([*first, *second], range(1), 2)


def test_files_of_another_sink_are_reported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "a.parquet")
    source = StageRun("shuffle-partitions", paths=[f"{tmp_path}/*.parquet"])
    with pytest.raises(OSError, match=r"a\.parquet: the sink `shuffle` did not write this file"):
        source.sources()
    (tmp_path / "a.parquet").write_text("no Parquet")
    with pytest.raises(OSError, match=r"a\.parquet: .*Parquet"):
        source.sources()
    with pytest.raises(UnreadableFileError, match=r"a\.parquet: No such file"):
        read_partitions([FileReference("a.parquet", str(tmp_path / "b"))], range(1), 1)


def test_files_without_links_are_reported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "a.parquet")
    rows = [{"key": "a", "path": str(tmp_path / "a.parquet")}]
    with pytest.raises(MissingColumnError, match="no column 'id'; the columns are: key"):
        StageRun("cluster-duplicates").tables(rows)
    (tmp_path / "a.parquet").write_text("no Parquet")
    with pytest.raises(UnreadableFileError, match=r"a: .*Parquet"):
        StageRun("cluster-duplicates").tables(rows)


def test_a_column_without_digests_is_reported() -> None:
    with pytest.raises(TypeError, match="'bucket' holds string, not digests"):
        StageRun("shuffle").written(build([{"bucket": "x"}]))
    table = pa.table({name: ["x"] for name in BUCKETS.names})
    with pytest.raises(TypeError, match="'bucket' holds string, not digests of 16 bytes"):
        StageRun("link-duplicates").stage.process(Task(table))


def test_a_partitions_version_changes_with_any_of_its_files(tmp_path: Path) -> None:
    table = build_buckets(["a"], [[digest_bytes(b"x")]])
    shuffle(tmp_path, [table], 2)

    def list_versions() -> list[str]:
        return [
            source.version
            for source in StageRun("shuffle-partitions", paths=[f"{tmp_path}/*"]).sources()
        ]

    before = list_versions()
    assert before == list_versions()
    (tmp_path / "1.parquet").write_bytes((tmp_path / "0.parquet").read_bytes())
    assert not set(before) & set(list_versions())


def test_links_connect_clusters_of_a_partition_once() -> None:
    one, other = digest_bytes(b"1"), digest_bytes(b"2")
    links = link_rows(build_buckets(["a", "b", "c", "d"], [[one], [one, other], [other], []]))
    assert links.schema == LINKS
    assert {"a", "b", "c"} == set(links["key"].to_pylist())
    assert 1 == len(set(links["first"].to_pylist()))


def test_sinks_write_files_without_rows_only_on_request() -> None:
    empty = LINKS.empty_table()
    assert not StageRun("parquet").stage.writes_empty
    asked = StageRun("parquet", writeEmpty=True)
    assert asked.stage.writes_empty
    assert pq.read_table(pa.BufferReader(asked.written(empty))).schema.names == LINKS.names
    assert StageRun("shuffle").stage.writes_empty
    assert "write_empty" in type(asked.stage).added_params  # existing runs must resume


def test_a_list_of_several_files_is_one_list(tmp_path: Path) -> None:
    def write(*parts: list[str]) -> str:
        for number, keys in enumerate(parts):
            table = pa.table({"key": pa.array(keys, pa.string())})
            pq.write_table(table, tmp_path / f"{number}.parquet")
        stage = StageRun("drop-listed", path=f"{tmp_path}/*.parquet")
        assert ["a", "d"] == stage.column("key", ["a", "b", "c", "d"])
        digest: str = stage.stage.digest_inputs()["path"]
        return digest

    assert write(["b", "c"]) == write(["c"], ["b"], []) == write(["b"], ["c", "b"])
    stage = StageRun("drop-listed", path=f"{tmp_path}/")
    assert ["a"] == stage.column("key", ["a", "b"])


def test_a_pattern_without_a_list_can_be_planned_but_not_run(tmp_path: Path) -> None:
    for path in (f"{tmp_path}/*.parquet", f"{tmp_path}/later/**/*.parquet"):
        with pytest.raises(UnreadableFileError, match="the file does not exist"):
            StageRun("drop-listed", path=path)


def find_duplicates(rows: Rows, use: str, folder: Path, **values: Any) -> pa.Table:
    """Return the links of a corpus in which each row is a source."""
    parts = []
    for row in rows:
        stage = StageRun(use, **values)
        task = Task(pa.Table.from_pylist([row]), None, Lineage(b"", b"", row["file"]))
        parts.append(stage.stage.process(task).table)
    (folder / "buckets-1.parquet").write_bytes(
        StageRun("shuffle", partitions=1).written(pa.concat_tables(parts))
    )
    (source,) = StageRun("shuffle-partitions", paths=[f"{folder}/buckets-*"]).sources()
    links: pa.Table = StageRun("link-duplicates").table(StageRun("read-shuffle").table(source.data))
    return links


@pytest.mark.parametrize(
    ("use", "values"),
    [
        ("sign-texts", {}),
        ("digest-rows", {}),
        ("digest-sentences", {"span": 1}),
    ],
)
@pytest.mark.parametrize("text", ["Nothing of it is said elsewhere. Not at all.", ""])
def test_a_key_of_two_different_texts_is_reported_with_both_files(
    use: str, values: dict[str, Any], text: str, tmp_path: Path
) -> None:
    rows = [
        {"key": "a", "text": "The tide turned an hour ago. It comes back.", "file": "1.jsonl"},
        {"key": "b", "text": "The tide turned an hour ago. It comes back.", "file": "1.jsonl"},
        {"key": "b", "text": text, "file": "2.jsonl"},
    ]
    with pytest.raises(AmbiguousKeyError, match=r"key 'b', in 1\.jsonl and 2\.jsonl; keys must"):
        find_duplicates(rows, use, tmp_path, **values)
    links = find_duplicates(rows[:2], use, tmp_path, **values)
    assert {key.partition("#")[0] for key in links["key"].to_pylist()} == {"a", "b"}
