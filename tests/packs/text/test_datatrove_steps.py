"""Steps of datatrove as stages; tests that run steps are skipped if datatrove is not installed."""

import pickle
import subprocess
import sys

import pyarrow as pa
import pytest

from stage_runs import StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.packages import list_missing
from strandline.plan.stages.registry import UnknownStageError, find_stage
from strandline_packs.text.filters.adapters import datatrove_steps

# Starts processes, or loads another library.
pytestmark = pytest.mark.slow

needs_datatrove = pytest.mark.skipif(bool(list_missing(["datatrove"])), reason="make rivals")


def test_without_datatrove_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datatrove_steps, "find_spec", lambda name: None)
    stage_class = find_stage("datatrove:GopherQualityFilter")
    stage = stage_class(stage_class.Params.model_validate({"anything": 1}))
    assert ("datatrove",) == stage.packages
    assert ["text"] == list(stage.list_needed_columns())


@pytest.mark.parametrize("package", ["datatrove", "data_juicer", "nemo_curator"])
def test_adapters_do_not_import_their_packages(package: str) -> None:
    program = (
        "import sys; from strandline.plan.stages.registry import list_registered\n"
        f"list_registered(); sys.exit({package!r} in sys.modules)"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


@needs_datatrove
def test_a_filter_drops_and_counts_by_its_reasons(run: type[StageRun]) -> None:
    stage = run("datatrove:FineWebQualityFilter", column="body", shortLineLength=3)
    rows = [
        {"n": 1, "body": "One line that ends in a stop."},
        {"n": 2, "body": "One that does not"},
        {"n": 3, "body": ""},
        {"n": 4, "body": ""},
    ]
    assert rows[:1] == stage.rows(rows)
    assert {"dropped: line_punct_ratio": 1, "dropped: empty": 2} == stage.counters
    assert [] == stage.rows(rows[1:2])
    assert 2 == stage.counters["dropped: line_punct_ratio"]


@needs_datatrove
def test_drops_without_a_reason_have_the_steps_name(run: type[StageRun]) -> None:
    stage = run("datatrove:C4ParagraphFilter")
    assert stage.table([{"text": "short"}]) is None
    assert {"dropped: < 3 paragraphs": 1} == stage.counters
    stage = run("datatrove:RegexFilter", regex_exp="bad")
    assert ["good"] == stage.column("text", ["good", "a bad one"])
    assert {"dropped: RegexFilter": 1} == stage.counters


@needs_datatrove
def test_a_formatter_changes_the_text_and_keeps_the_type(run: type[StageRun]) -> None:
    stage = run("datatrove:SymbolLinesFormatter", replaceChar="", symbols_to_remove=["|"])
    table = pa.table({"text": pa.array(["a\n|\nb"], pa.large_string()), "n": [1]})
    found = stage.table(table)
    assert found is not None
    assert [{"text": "a\nb", "n": 1}] == found.to_pylist()
    assert table.schema == found.schema


@needs_datatrove
def test_a_stage_can_be_sent_to_a_worker() -> None:
    stage_class = find_stage("datatrove:GopherQualityFilter")
    stage = stage_class(stage_class.Params.model_validate({"minDocWords": 7, "column": "body"}))
    again = pickle.loads(pickle.dumps(stage))  # noqa: S301 - our own
    assert stage.params.model_dump() == again.params.model_dump()
    again.setup()
    assert 7 == again._step.min_doc_words


@needs_datatrove
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("GopherQualityFilter", {"minWords": 3}, "unexpected keyword argument 'min_words'"),
        ("RegexFilter", {}, "missing a required argument: 'regex_exp'"),
        ("URLFilter", {"exclusion_writer": "x"}, "which the ledger does not record"),
    ],
)
def test_wrong_parameters_are_reported_during_planning(
    name: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_stage(f"datatrove:{name}").Params.model_validate(values)


@needs_datatrove
def test_unknown_steps_and_columns_are_named(run: type[StageRun]) -> None:
    with pytest.raises(
        UnknownStageError, match=r"no such filter or formatter; supported names: .*URL"
    ):
        find_stage("datatrove:JsonlReader")
    with pytest.raises(MissingColumnError, match="no column 'text'"):
        run("datatrove:GopherQualityFilter").rows([{"n": 1}])
