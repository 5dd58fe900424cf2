"""Classes of NeMo Curator as stages: a stand-in with the same interface, and installed ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stage_runs import StageRun
from standin_packages import forget, write_package
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.packages import list_missing
from strandline.plan.stages.registry import UnknownStageError, find_stage
from strandline.plan.task import Lineage, Task
from strandline_packs.text.filters.adapters import nemo_curator_stages

PACKAGE = "nemo_curator"
needs_curator = pytest.mark.skipif(bool(list_missing([PACKAGE])), reason="pip install nemo-curator")
LARGE = 2**53 + 1  # the first integer that a 64-bit float can't hold

CLASSES = """
from types import SimpleNamespace
from typing import Generic, TypeVar
import pyarrow as pa
X, Y = TypeVar("X"), TypeVar("Y")
__all__ = ["WordFilter", "Shout", "Longest"]

class DocumentBatch:
    def __init__(self, dataset_name, data, task_id=""):
        self.data, self.task_id, self.num_items = data, task_id, len(data)
    def to_pandas(self):
        return self.data.to_pandas() if isinstance(self.data, pa.Table) else self.data

class WordFilter:
    name = "word_count"
    def __init__(self, min_words=3):
        self.min_words = min_words
    def load_model(self):
        self.split = str.split
    def score_document(self, text):
        return len(self.split(text))
    def keep_document(self, score):
        return score >= self.min_words

class FastTextQualityFilter(WordFilter): ...

class Shout:
    def modify_document(self, text):
        return text.upper()

class ProcessingStage(Generic[X, Y]):
    resources = SimpleNamespace(requires_gpu=False)
    def inputs(self):
        return ["data"], ["text"]
    def setup(self):
        self.is_ready = True
    def process_batch(self, tasks):
        return [self.process(task) for task in tasks]

class Longest(ProcessingStage[DocumentBatch, DocumentBatch]):
    def __init__(self, letters):
        self.letters = letters
    def process(self, batch):
        assert self.is_ready
        frame = batch.to_pandas()
        frame = frame[frame.text.str.len() >= self.letters].sort_values("text")
        return DocumentBatch("", frame, batch.task_id) if self.letters < 9 else None

class Number(ProcessingStage[DocumentBatch, DocumentBatch]):
    def process(self, batch):
        frame = batch.to_pandas().copy()
        frame["id"] = [f"{batch.task_id}_{at}" for at in range(len(frame))]
        return DocumentBatch("", frame)

class Both(Longest):
    def decompose(self):
        return [Longest(self.letters), Number()]

class Classifier(Both):
    def decompose(self):
        Number.resources = SimpleNamespace(requires_gpu=True)
        return super().decompose()

class Writer(ProcessingStage[DocumentBatch, int]): ...
"""
FILES = {
    **{f"{at}__init__": "" for at in ("", "stages/", "stages/text/", "stages/text/filters/")},
    "tasks": "from nemo_curator.stages.text.filters.heuristic import DocumentBatch",
    "stages/text/filters/heuristic": CLASSES,
    "stages/text/filters/token": "def __getattr__(name): import no_such_library",
}
REAL = """
AlphaFilter BoilerPlateStringFilter BulletsFilter CommonEnglishWordsFilter EllipsisFilter
HTMLBoilerplateFilter LongWordFilter MeanWordLengthFilter NonAlphaNumericFilter UrlsFilter
NumberOfLinesOfCodeFilter NumbersFilter ParenthesesFilter PornographicUrlsFilter PunctuationFilter
RepeatedLinesFilter RepeatedLinesByCharFilter RepeatedParagraphsFilter SymbolsToWordsFilter
RepeatingDuplicateNGramsFilter WhiteSpaceFilter WordsWithoutAlphabetsFilter MarkdownRemover
BoilerPlateStringModifier NewlineNormalizer QuotationRemover UnicodeReformatter UrlRemover
"""


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a package with the same interface in place of NeMo Curator."""
    monkeypatch.syspath_prepend(tmp_path)
    yield write_package(tmp_path, PACKAGE, FILES)
    forget(PACKAGE)


def test_without_nemo_curator_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemo_curator_stages, "find_spec", lambda name: None)
    stage_class = find_stage("nemo_curator:WordCountFilter")
    stage = stage_class(stage_class.Params.model_validate({"anything": 1}))
    assert (PACKAGE,) == stage.packages
    assert ["text"] == list(stage.list_needed_columns())


@pytest.mark.usefixtures("standin")
def test_a_filter_drops_rows_by_its_name_and_adds_scores() -> None:
    rows = [{"body": text} for text in ("a b c", "a", None)]
    stage = StageRun("nemo_curator:WordFilter", column="body", minWords=2, scoreColumn="words")
    (row,) = stage.rows(rows)
    assert repr({"body": "a b c", "words": 3.0}) == repr(row)
    assert {"dropped: word_count": 2} == stage.counters
    assert rows[:1] == StageRun("nemo_curator:WordFilter", column="body").rows(rows)


@pytest.mark.usefixtures("standin")
def test_modifiers_and_stages_keep_types_and_integers_and_add_no_index() -> None:
    table = pa.table({"text": pa.array(["ab", None], pa.large_string()), "n": [1, 2]})
    found = StageRun("nemo_curator:Shout").table(table)
    assert pa.table({"text": ["AB", None], "n": [1, 2]}, table.schema) == found
    table = pa.table({"text": ["long", "b", "also"], "n": pa.array([LARGE, 1, None], pa.int64())})
    stage = StageRun("nemo_curator:Longest", letters=2)
    found = stage.table(table)
    assert found is not None
    assert {"text": ["also", "long"], "n": [None, LARGE]} == found.to_pydict()
    assert table.schema == found.schema
    assert {"dropped: Longest": 1} == stage.counters
    assert StageRun("nemo_curator:Longest", letters=8).table(table) is None
    stage = StageRun("nemo_curator:Longest", letters=9)
    assert stage.table(table) is None
    assert {"dropped: Longest": 3} == stage.counters
    assert stage.table(table[:0]) is not None
    assert ["text"] == list(stage.stage.list_needed_columns())


@pytest.mark.usefixtures("standin")
def test_a_composite_runs_its_stages_in_order_and_ids_differ_between_tasks() -> None:
    stage = StageRun("nemo_curator:Both", letters=2)
    assert [{"text": "long", "id": "_0"}] == stage.rows([{"text": "long"}, {"text": "b"}])
    number = StageRun("nemo_curator:text.filters.heuristic.Number").stage
    assert number.mixes_rows
    for token in (b"1", b"2"):
        task = Task(pa.table({"text": ["a"]}), lineage=Lineage(b"source", token, "key"))
        assert [f"{token.hex()}_0"] == number.process(task).table["id"].to_pylist()


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("WordFilter", {"words": 3}, "WordFilter: got an unexpected keyword argument 'words'"),
        ("Longest", {"letters": 1, "column": "body"}, "name columns by its own parameters"),
        ("Shout", {"scoreColumn": "n"}, "Shout is not a filter, so it has no `scoreColumn`"),
        ("Classifier", {"letters": 1}, "NeMo Curator's Classifier needs a GPU; only CPU stages"),
        ("FastTextQualityFilter", {}, "draws random numbers, so a repeated source"),
    ],
)
def test_wrong_parameters_are_reported_during_planning(
    name: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_stage(f"nemo_curator:{name}").Params.model_validate(values)


@pytest.mark.usefixtures("standin")
def test_unknown_classes_packages_and_columns_are_named() -> None:
    for name in ("Writer", "text.filters.heuristic.Writer", "text.no.Shout"):
        with pytest.raises(UnknownStageError, match="no such filter, modifier, or stage from Doc"):
            find_stage(f"nemo_curator:{name}")
    with pytest.raises(UnknownStageError, match=r"supported names: WordFilter, Shout, Longest"):
        find_stage("nemo_curator:Nothing")
    with pytest.raises(UnknownStageError, match=r"filters\.token can't be imported: it needs the"):
        find_stage("nemo_curator:TokenFilter")
    with pytest.raises(MissingColumnError, match="no column 'text'"):
        StageRun("nemo_curator:WordFilter").rows([{"n": 1}])


@pytest.mark.slow
@needs_curator
@pytest.mark.parametrize(
    ("use", "values"),
    [
        *((name, {}) for name in REAL.split()),
        ("WordCountFilter", {"min_words": 4}),
        ("Slicer", {"right": 9}),
        ("DocumentSplitter", {"separator": " "}),
        ("AddId", {"id_field": "id"}),
    ],
)
def test_results_equal_those_of_a_direct_call(use: str, values: dict[str, Any]) -> None:
    from nemo_curator.stages.text.filters import ScoreFilter  # noqa: PLC0415 - may not be there
    from nemo_curator.stages.text.modifiers import Modify  # noqa: PLC0415
    from nemo_curator.tasks import DocumentBatch  # noqa: PLC0415

    texts = [f"{'word ' * (at % 9)}{'**' * (at % 3)}{at} http://a.b/{at}" for at in range(200)]
    table = pa.table({"text": [*texts, "sÃ³"], "n": range(201)})
    step = nemo_curator_stages.find_class(use)(**values)
    if not hasattr(step, "process_batch"):
        step = (ScoreFilter if hasattr(step, "score_document") else Modify)(step)
    (direct,) = step.process_batch([DocumentBatch("rows", table)])
    rows = StageRun(f"nemo_curator:{use}", **values).rows(table)
    assert direct.to_pandas().to_dict("records") == rows
