"""Operators of Data-Juicer as stages: a stand-in with the same interface, and installed ones."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from stage_runs import StageRun
from standin_packages import forget, write_package
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.packages import list_missing, name_package
from strandline.plan.stages.registry import UnknownStageError, find_stage
from strandline_packs.text.filters.adapters import data_juicer_ops

PACKAGE = "data_juicer"
needs_data_juicer = pytest.mark.skipif(
    bool(list_missing([PACKAGE])), reason="pip install py-data-juicer aiohttp"
)
TEXTS = ["See https://a.example/x today, all of you", "no", None]

# The parts of Data-Juicer that a stage needs, reduced to a minimum.
BASE = """
import os


class Registry:
    modules = {}


OPERATORS = Registry()


class OP:
    _BASE_PARAMS = {"text_key": (str, "text"), "skip_op_error": (bool, False)}
    is_batched = False

    def __init__(self, *args, **kwargs):
        self.text_key = kwargs.get("text_key", "text")

    def is_batched_op(self):
        return self.is_batched


class Filter(OP):
    pass


class Mapper(OP):
    pass


class Deduplicator(OP):
    pass
"""
OPS = """
import os

from data_juicer.ops.base_op import OPERATORS, Deduplicator, Filter, Mapper


class LengthFilter(Filter):
    is_batched = True

    def __init__(self, min_len=3, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.min_len = min_len

    def compute_stats_batched(self, samples):
        for text, stats in zip(samples[self.text_key], samples["__dj__stats__"]):
            stats["text_len"] = len(text)
        return samples

    def process_batched(self, samples):
        return map(lambda stats: stats["text_len"] >= self.min_len, samples["__dj__stats__"])


class SuffixFilter(Filter):
    def __init__(self, suffix, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.suffix = suffix

    def compute_stats_single(self, sample):
        sample["__dj__meta__"]["dots"] = sample["name"].count(".")
        return sample

    def process_single(self, sample):
        return sample["name"].endswith(self.suffix)


class ShoutMapper(Mapper):
    def process_single(self, sample):
        return {self.text_key: sample[self.text_key].upper(), "letters": len(sample[self.text_key])}


class WordsMapper(Mapper):
    is_batched = True

    def process_batched(self, samples):
        words = [text.split() for text in samples[self.text_key]]
        return {
            key: sum(words, [])
            if key == self.text_key
            else [value for value, found in zip(values, words) for _ in found]
            for key, values in samples.items()
        }


class OfflineMapper(Mapper):
    def process_single(self, sample):
        return sample | {"offline": os.environ["UV_OFFLINE"] + os.environ["PIP_NO_INDEX"]}


class AllDeduplicator(Deduplicator):
    pass


class RayDeduplicator(Filter):
    pass


OPERATORS.modules.update(
    length_filter=LengthFilter,
    suffix_filter=SuffixFilter,
    shout_mapper=ShoutMapper,
    words_mapper=WordsMapper,
    offline_mapper=OfflineMapper,
    all_deduplicator=AllDeduplicator,
    ray_deduplicator=RayDeduplicator,
)
"""
FIELDS = """
class Fields:
    stats = "__dj__stats__"
    meta = "__dj__meta__"
"""


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a module with the same interface in place of Data-Juicer."""
    files = {"__init__": "", "ops/__init__": OPS, "ops/base_op": BASE, "utils/__init__": ""}
    monkeypatch.syspath_prepend(tmp_path)
    yield write_package(tmp_path, PACKAGE, files | {"utils/constant": FIELDS})
    forget(PACKAGE)


def test_without_data_juicer_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_juicer_ops, "find_spec", lambda name: None)
    stage_class = find_stage("data_juicer:words_num_filter")
    stage = stage_class(stage_class.Params.model_validate({"anything": 1}))
    assert (PACKAGE,) == stage.packages
    assert "py-data-juicer" == name_package(PACKAGE)
    assert ["text"] == list(stage.list_needed_columns())


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("name", ["length_filter", "LengthFilter"])
def test_a_filter_drops_and_counts_rows_and_keeps_measures(name: str) -> None:
    rows = [{"body": text} for text in TEXTS]
    stage = StageRun(f"data_juicer:{name}", column="body", minLen=3)
    assert rows[:1] == stage.rows(rows)
    assert {f"dropped: {name}": 2} == stage.counters
    stage = StageRun(f"data_juicer:{name}", column="body", min_len=0, keepStats=True)
    assert [41, 2, 0] == stage.column("body", TEXTS, "text_len")
    assert [] == stage.rows(pa.table({"body": pa.array([], pa.string())}))


@pytest.mark.usefixtures("standin")
def test_a_filter_of_samples_sees_all_columns_and_its_notes_are_kept() -> None:
    stage = StageRun("data_juicer:suffix_filter", column=None, suffix=".md")
    rows = [{"name": "a.b.md"}, {"name": "a.txt"}]
    assert [{"name": "a.b.md", "dots": 2}] == stage.rows(rows)
    assert [] == list(stage.stage.list_needed_columns())


@pytest.mark.usefixtures("standin")
def test_a_mapper_changes_and_adds_columns_and_keeps_types_and_the_rest() -> None:
    table = pa.table(
        {"text": pa.array(["ab", "c"], pa.large_string()), "n": pa.array([1, 2], "i1")}
    )
    found = StageRun("data_juicer:shout_mapper").table(table)
    assert found is not None
    assert {"text": ["AB", "C"], "n": [1, 2], "letters": [2, 1]} == found.to_pydict()
    assert table.schema == found.select(["text", "n"]).schema


@pytest.mark.usefixtures("standin")
def test_a_mapper_may_give_more_rows_or_fewer() -> None:
    stage = StageRun("data_juicer:words_mapper")
    rows = [{"text": "a b", "n": 1}, {"text": "", "n": 2}]
    assert [{"text": "a", "n": 1}, {"text": "b", "n": 1}] == stage.rows(rows)
    assert {} == stage.counters
    assert stage.table(rows[1:]) is None
    assert {"dropped: words_mapper": 1} == stage.counters


@pytest.mark.usefixtures("standin")
def test_nothing_is_installed_while_an_operator_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    (row,) = StageRun("data_juicer:offline_mapper").rows([{"text": "a"}])
    assert ("11", "0", None) == (
        row["offline"],
        os.environ["PIP_NO_INDEX"],
        os.environ.get("UV_OFFLINE"),
    )


@pytest.mark.usefixtures("standin")
def test_a_stage_can_be_sent_to_a_worker() -> None:
    stage_class = find_stage("data_juicer:LengthFilter")
    stage = stage_class(stage_class.Params.model_validate({"minLen": 7, "column": "body"}))
    again = pickle.loads(pickle.dumps(stage))  # noqa: S301 - our own
    assert stage.params.model_dump() == again.params.model_dump()
    again.setup()
    assert (7, "body") == (again._op.min_len, again._op.text_key)


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("length_filter", {"minWords": 3}, "LengthFilter has no parameter 'min_words'"),
        ("suffix_filter", {}, "SuffixFilter: missing a required argument: 'suffix'"),
        ("length_filter", {"textKey": "body"}, "use `column` instead"),
        ("length_filter", {"skip_op_error": True}, "would silently drop rows"),
        ("length_filter", {"stats_export_path": "x"}, "which the ledger does not record"),
    ],
)
def test_wrong_parameters_are_reported_during_planning(
    name: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_stage(f"data_juicer:{name}").Params.model_validate(values)


def test_unknown_operators_and_columns_are_named(standin: Path) -> None:
    for name in ("all_deduplicator", "ray_deduplicator", "RayDeduplicator"):
        with pytest.raises(
            UnknownStageError, match="no such filter or mapper; supported names: length"
        ):
            find_stage(f"data_juicer:{name}")
    with pytest.raises(MissingColumnError, match="no column 'text'"):
        StageRun("data_juicer:length_filter").rows([{"n": 1}])
    forget(PACKAGE)
    (standin / "ops/__init__.py").write_text("import no_such_library")
    with pytest.raises(UnknownStageError, match="Data-Juicer can't be imported: it needs the pack"):
        find_stage("data_juicer:length_filter")


@pytest.mark.slow
@needs_data_juicer
def test_real_filters_of_data_juicer_drop_and_measure() -> None:
    stage = StageRun("data_juicer:text_length_filter", minLen=3, keepStats=True)
    assert [{"text": TEXTS[0], "text_len": 41}] == stage.rows([{"text": text} for text in TEXTS])
    assert {"dropped: text_length_filter": 2} == stage.counters
    stage = StageRun("data_juicer:WordsNumFilter", column="body", minNum=3)
    assert TEXTS[:1] == stage.column("body", TEXTS)
    stage = StageRun(
        "data_juicer:specified_numeric_field_filter", column=None, field_key="n", min_value=2
    )
    assert [2, 3] == stage.column("n", [1, 2, 3])


@pytest.mark.slow
@needs_data_juicer
def test_real_mappers_of_data_juicer_change_texts_and_rows() -> None:
    stage = StageRun("data_juicer:clean_links_mapper")
    assert ["See  today, all of you", "no", None] == [
        text or None for text in stage.column("text", TEXTS)
    ]
    stage = StageRun("data_juicer:text_chunk_mapper", maxLen=5, splitPattern=None)
    rows = stage.rows([{"text": "abcdefgh", "n": 1}, {"text": "ij", "n": 2}])
    assert [("abcde", 1), ("fgh", 1), ("ij", 2)] == [(row["text"], row["n"]) for row in rows]


@pytest.mark.slow
@needs_data_juicer
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("words_num_filter", {"minWords": 3}, "WordsNumFilter has no parameter 'min_words'"),
        ("words_num_filter", {"textKey": "body"}, "use `column` instead"),
    ],
)
def test_wrong_parameters_of_real_operators_are_reported(
    name: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_stage(f"data_juicer:{name}").Params.model_validate(values)
