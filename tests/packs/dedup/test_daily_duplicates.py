"""Daily duplicates: kept rows stay kept, whichever texts appear, change, and disappear."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpus_passes import list_duplicates
from stage_runs import Rows, StageRun
from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.stages.registry import find_stage
from strandline_packs.dedup.corpus.clusters import LINKS, link_rows
from strandline_packs.dedup.corpus.pass_files import KEPT, digest_kept
from strandline_packs.dedup.corpus.row_buckets import DIGEST, build_buckets, mark_keys
from strandline_packs.dedup.key_lists import digest_bytes

Corpus = Mapping[str, frozenset[int]]

Edits = dict[str, frozenset[int] | None]


def collect_days(edits: list[Edits]) -> list[Corpus]:
    """Return the corpus of each day, given its new, changed, and removed keys."""
    days: list[Corpus] = []
    for of_day in edits:
        whole = {**(days[-1] if days else {}), **of_day}
        days.append({key: buckets for key, buckets in whole.items() if buckets is not None})
    return days


# Few keys and buckets, so texts join, split, and return.
DAYS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.none() | st.frozensets(st.integers(0, 5), min_size=1, max_size=2),
        max_size=4,
    ),
    min_size=1,
    max_size=4,
).map(collect_days)
JOINED_LATER: list[Corpus] = collect_days(
    [{"b": frozenset({1}), "c": frozenset({2})}, {"a": frozenset({1, 2})}, {"b": None}]
)


def sign(corpus: Corpus, keys: Iterable[str]) -> pa.Table:
    """Return the rows that the first pass would write."""
    keys = list(keys)
    buckets = [[digest_bytes(bytes([n])) for n in sorted(corpus[key])] for key in keys]
    return pa.concat_tables([build_buckets(keys, buckets), mark_keys(keys, "file")])


class Days:
    """Passes over a corpus on consecutive days.

    Args:
        folder: an empty folder for data that one day passes to the next.
        parts: number of corpus files, and of bucket partitions.
        stays: whether kept rows stay kept.

    Attributes:
        gone: reported number of kept rows that were removed on the last day.
    """

    def __init__(self, folder: Path, parts: int, *, stays: bool = True) -> None:
        self._folder = folder
        self._parts = parts
        self._values = {} if stays else {"keptRowsStay": False}
        self.gone = 0
        self._index = folder / "kept"

    def run(self, corpus: Corpus, *, is_cut_short: bool = False) -> set[str]:
        """Return the keys that stay.

        Args:
            is_cut_short: whether the run ends before the index is written.
        """
        files = [sign(corpus, sorted(corpus)[at :: self._parts]) for at in range(self._parts)]
        whole = pa.concat_tables(files)
        heads = np.array([each[0] for each in whole["bucket"].to_pylist()], np.uint8)
        parts = [whole.filter(pa.array(heads % self._parts == at)) for at in range(self._parts)]
        links = [link_rows(part) for part in parts]
        path = self._write("links", pa.concat_tables([*links, LINKS.empty_table()]))
        options = {"maxRows": 2, "keptRows": f"{self._index}/", **self._values}
        stage = StageRun("cluster-duplicates", **options)
        dropped = pa.concat_tables(stage.tables([{"key": "links", "path": path}]))
        self.gone = stage.counters.get("rows that stayed before and go", 0)
        paths = [self._write(f"signed-{at}", table) for at, table in enumerate(files)]
        paths.append(self._write("dropped", dropped))
        if not is_cut_short:
            self._list_cut_files(paths)
        return set(corpus) - set(dropped["key"].to_pylist())

    def _list_cut_files(self, paths: list[str]) -> None:
        rows = [{"key": path, "path": path} for path in paths]
        tables = StageRun("list-kept", maxRows=2).tables(rows)
        self._index.mkdir(exist_ok=True)
        for old in self._index.iterdir():
            old.unlink()
        for number, table in enumerate(tables):
            assert table.num_rows <= 2
            pq.write_table(table, self._index / f"{number}.parquet")

    def _write(self, name: str, table: pa.Table) -> str:
        path = self._folder / f"{name}.parquet"
        pq.write_table(table, path)
        return str(path)


def find_clusters(corpus: Corpus) -> list[set[str]]:
    """Return the clusters of keys, found one by one."""
    clusters: list[set[str]] = []
    for key, buckets in corpus.items():
        touching = [each for each in clusters if any(corpus[other] & buckets for other in each)]
        clusters = [each for each in clusters if each not in touching]
        clusters.append({key}.union(*touching))
    return clusters


@example(JOINED_LATER, 1, 2)
@given(DAYS, st.integers(1, 3), st.integers(1, 3))
def test_law_kept_rows_stay_and_each_cluster_keeps_one(
    tmp_path_factory: pytest.TempPathFactory, days: list[Corpus], parts: int, others: int
) -> None:
    passes = Days(tmp_path_factory.mktemp("days"), parts)
    parted_otherwise = Days(tmp_path_factory.mktemp("others"), others)
    before: Corpus = {}
    out: set[str] = set()
    for corpus in days:
        standing = {key for key in out if corpus.get(key) == before[key]}
        out = passes.run(corpus)
        assert standing <= out
        for cluster in find_clusters(corpus):
            kept = cluster & out
            assert kept == (cluster & standing or {min(cluster)})
        assert out == parted_otherwise.run(corpus)
        before = corpus
    assert out == passes.run(before)  # on the same day again


@example(JOINED_LATER, 1)
@given(DAYS, st.integers(1, 3))
def test_law_removed_kept_rows_are_counted_if_the_first_key_stays(
    tmp_path_factory: pytest.TempPathFactory, days: list[Corpus], parts: int
) -> None:
    """Changed texts are different rows and count as new."""
    passes = Days(tmp_path_factory.mktemp("days"), parts, stays=False)
    before: Corpus = {}
    out: set[str] = set()
    for corpus in days:
        standing = {key for key in out if corpus.get(key) == before[key]}
        out = passes.run(corpus)
        assert out == {min(cluster) for cluster in find_clusters(corpus)}
        assert passes.gone == len(standing - out)
        before = corpus
    assert out == passes.run(before)
    assert passes.gone == 0


@given(DAYS, st.data())
def test_law_an_interrupted_day_has_no_effect(
    tmp_path_factory: pytest.TempPathFactory, days: list[Corpus], data: st.DataObject
) -> None:
    whole, cut = (Days(tmp_path_factory.mktemp("days"), 2) for _ in range(2))
    for corpus in days:
        for unfinished in data.draw(DAYS.map(lambda drawn: drawn[:2])):
            cut.run(unfinished, is_cut_short=True)
        assert whole.run(corpus) == cut.run(corpus)


SAID = "The harbour is quiet at low tide. Nets dry on the green. Nobody is about. It rains a bit."


@pytest.mark.parametrize(
    ("use", "values", "key"),
    [
        ("sign-texts", {}, ""),
        ("digest-rows", {"columns": ["text"]}, ""),
        ("digest-sentences", {"span": 4}, "#00000000"),
    ],
)
def test_a_copy_with_an_earlier_key_is_dropped_for_the_kept_row(
    tmp_path: Path, use: str, values: dict[str, Any], key: str
) -> None:
    def run(day: int, rows: Rows) -> dict[str, str]:
        folder = tmp_path / f"day-{day}"
        folder.mkdir()
        index = f"{tmp_path}/day-{day - 1}/kept-*"
        found = list_duplicates(folder, StageRun(use, **values), rows, 2, keptRows=index)
        files = [*folder.glob("buckets-*"), *folder.glob("dropped-*")]
        paths = [{"key": path.name, "path": str(path)} for path in files]
        for number, table in enumerate(StageRun("list-kept").tables(paths)):
            pq.write_table(table, folder / f"kept-{number}.parquet")
        tables = [pq.read_table(path) for path in folder.glob(Path(found).name)]
        return {row["key"]: row["stays"] for table in tables for row in table.to_pylist()}

    out, copy = {"key": "m", "text": SAID}, {"key": "a", "text": SAID}
    assert run(1, [out]) == {}
    assert run(2, [copy, out]) == {f"a{key}": f"m{key}"}
    assert run(3, [copy, {"key": "m", "text": "Something else."}]) == {}
    assert run(4, [copy, out]) == {f"m{key}": f"a{key}"}


def test_without_the_list_no_index_is_written(tmp_path: Path) -> None:
    pq.write_table(sign({"a": frozenset({1})}, "a"), tmp_path / "a.parquet")
    rows = [{"key": "a", "path": str(tmp_path / "a.parquet")}]
    with pytest.raises(
        MissingColumnError, match="the list of dropped rows is missing; add its file to"
    ):
        StageRun("list-kept").tables(rows)
    (tmp_path / "a.parquet").write_text("no Parquet")
    with pytest.raises(UnreadableFileError, match=r"a: .*Parquet"):
        StageRun("list-kept").tables(rows)


def write_index(path: Path, *numbers: int) -> None:
    ids = pa.array([digest_bytes(bytes([n])) for n in numbers], DIGEST)
    pq.write_table(pa.table([ids], schema=KEPT), path)


def test_an_index_depends_on_its_rows_not_its_files(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/*.parquet"
    assert digest_kept(pattern) == "no rows" == digest_kept(f"{tmp_path}/later/")
    write_index(tmp_path / "a.parquet", 1, 2, 3)
    whole = digest_kept(pattern)
    write_index(tmp_path / "a.parquet", 3)
    assert digest_kept(pattern) != whole
    write_index(tmp_path / "b.parquet", 2, 1)
    assert digest_kept(pattern) == whole
    write_index(tmp_path / "b.parquet", 2, 4)
    assert digest_kept(pattern) != whole


def test_an_index_that_changes_during_the_run_is_reported(tmp_path: Path) -> None:
    write_index(tmp_path / "a.parquet", 1)
    stage_class = find_stage("cluster-duplicates")
    params = stage_class.Params.model_validate({"keptRows": f"{tmp_path}/"})
    stage = stage_class(params)
    write_index(tmp_path / "a.parquet", 2)
    with pytest.raises(ChangedListError, match="the index has changed during the run"):
        stage.setup()


@pytest.mark.parametrize("name", ["key", "id"])
def test_an_invalid_index_is_reported_during_planning(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({name: ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: .*'id'"):
        StageRun("cluster-duplicates", keptRows=f"{tmp_path}/")


def test_runs_begun_without_an_index_resume() -> None:
    stage = StageRun("cluster-duplicates").stage
    assert stage.digest_inputs() == {}
    assert "kept_rows" in stage.added_params
