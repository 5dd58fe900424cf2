"""Which class a `use:` means, and what is said where it means none."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline.plan.registry import UnknownStageError, find_stage, register
from strandline.plan.stage import Stage
from strandline.stages.sinks.parquet_partitions import ParquetSink


def test_a_registered_name_is_found() -> None:
    assert find_stage("parquet") is ParquetSink


def test_a_class_of_ones_own_is_found() -> None:
    assert find_stage("strandline.stages.sinks.parquet_partitions:ParquetSink") is ParquetSink


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        ("parqet", "no stage is called 'parqet'; did you mean 'parquet'?"),
        ("xyzzy", "no stage is called 'xyzzy'; see `strandline stages`"),
        ("nowhere:Stage", "the module 'nowhere' can't be imported (No module named 'nowhere')"),
        ("strandline.stages.sources.files:Nothing", "has no stage class 'Nothing'"),
        ("pathlib:Path", "'pathlib' has no stage class 'Path'"),
    ],
)
def test_what_is_no_stage_is_said_in_a_sentence(use: str, sentence: str) -> None:
    with pytest.raises(UnknownStageError) as unknown:
        find_stage(use)

    assert sentence in str(unknown.value)


def test_a_module_that_breaks_is_said_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_written.py").write_text("class Stage(:\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(UnknownStageError, match=r"'half_written' can't be imported .SyntaxError"):
        find_stage("half_written:Stage")


def test_a_name_is_given_once() -> None:
    class Impostor(Stage):
        pass

    with pytest.raises(ValueError, match="two stages are registered as 'parquet'"):
        register("parquet")(Impostor)
