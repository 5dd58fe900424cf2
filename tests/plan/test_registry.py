"""Resolution of `use:` to a class, and messages for unknown names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strandline.plan.stages import registry
from strandline.plan.stages.registry import UnknownStageError, find_stage, register
from strandline.plan.stages.stage import Stage
from strandline_packs.sinks.parquet_partitions import ParquetSink


def test_a_registered_name_is_found() -> None:
    assert find_stage("parquet") is ParquetSink


def test_a_users_own_class_is_found() -> None:
    assert find_stage("strandline_packs.sinks.parquet_partitions:ParquetSink") is ParquetSink


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        ("parqet", "unknown stage 'parqet'; did you mean 'parquet'?"),
        ("xyzzy", "unknown stage 'xyzzy'; see `strandline stages`"),
        ("nowhere:Stage", "the module 'nowhere' can't be imported (No module named 'nowhere')"),
        ("strandline_packs.sources.files:Nothing", "has no stage class 'Nothing'"),
        ("pathlib:Path", "'pathlib' has no stage class 'Path'"),
    ],
)
def test_an_unknown_stage_gives_a_helpful_message(use: str, sentence: str) -> None:
    with pytest.raises(UnknownStageError) as unknown:
        find_stage(use)

    assert sentence in str(unknown.value)


def test_a_broken_module_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_written.py").write_text("class Stage(:\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(UnknownStageError, match=r"'half_written' can't be imported .SyntaxError"):
        find_stage("half_written:Stage")


def test_a_name_can_be_registered_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class First(Stage):
        pass

    class Second(Stage):
        pass

    monkeypatch.setattr(registry, "_registered", {})
    register("own")(First)
    with pytest.raises(ValueError, match="two stages are registered as 'own'"):
        register("own")(Second)


def test_a_name_of_a_pack_cannot_be_registered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Impostor(Stage):
        pass

    monkeypatch.setattr(registry, "_registered", {})
    register("parquet")(Impostor)
    with pytest.raises(UnknownStageError, match="two stages are registered as 'parquet'"):
        find_stage("parquet")


def run_in_a_fresh_process(script: str) -> str:
    command = [sys.executable, "-c", f"import sys\n{script}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_only_a_named_stage_is_loaded() -> None:
    script = (
        "from strandline.plan.stages.registry import find_name, find_stage, list_registered\n"
        "import strandline.run.manifest.manifest\n"
        "find_stage('read-jsonl')\n"
        "print(*(name for name in sys.modules if name.startswith('strandline_packs.')))\n"
        "print(len(list_registered()), find_name(find_stage('parquet')))\n"
    )
    loaded, rest = run_in_a_fresh_process(script).splitlines()
    assert "strandline_packs.tables.read_jsonl" in loaded.split()
    for room in ("dedup", "images", "models", "text", "video", "web"):
        assert f"strandline_packs.{room}." not in loaded
    count, name = rest.split()
    assert int(count) > 60
    assert name == "parquet"
