"""The examples of docs/models.md run unchanged, with a fake server."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from batch_vendors import OpenAi, serve_vendor
from document_blocks import ROOT, read_blocks, run_in, write_files
from fake_model import KEY, FakeModel, serve

PAGE = "docs/models.md"
SHOWN = "http://127.0.0.1:8000/v1"
TEXTS = ["the tide turns", "low water", "spring"]


def read_yaml(word: str) -> dict[str, Any]:
    """Return the YAML block of the page that contains a word."""
    (found,) = (each.code for each in read_blocks(PAGE) if word in each.code and each.file is None)
    return dict(yaml.safe_load(found))


def play(folder: Path, manifest: dict[str, Any], model: FakeModel) -> list[dict[str, Any]]:
    """Run a manifest, and return its output rows."""
    (folder / "in").mkdir()
    lines = [json.dumps({"text": text}) + "\n" for text in TEXTS]
    (folder / "in/rows.jsonl").write_text("".join(lines))
    with serve(model) as url:
        text = yaml.safe_dump(manifest).replace(SHOWN, url)
        (folder / "shown.yaml").write_text(text)
        for words in (["run", "--engine", "inline"], ["verify"], ["requests", "list"]):
            done = run_in(folder, sys.executable, "-m", "strandline", *words, "shown.yaml")
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    files = sorted((folder / "strandline-data").rglob("output/**/*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_the_rating_runs_as_it_is_shown(tmp_path: Path) -> None:
    model = FakeModel(answer=lambda _: '{"score": 4}', model="my-model")
    rows = play(tmp_path, read_yaml("You rate texts"), model)
    assert sorted(row["text"] for row in rows) == sorted(TEXTS)
    assert {row["answer_score"] for row in rows} == {4}
    words = (sys.executable, "-m", "strandline", "requests", "export", "shown.yaml")
    lines = [json.loads(line) for line in run_in(tmp_path, *words).stdout.splitlines()]
    assert len({line["request"] for line in lines}) == len(TEXTS) == len(lines)
    assert {(line["stage"], line["text"]) for line in lines} == {("ask-model", '{"score": 4}')}
    assert sorted(key for line in lines for key in line["keys"]) == [
        f"in/rows.jsonl#L{line}" for line in (1, 2, 3)
    ]


def test_the_servers_and_headers_are_written_as_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALLBACK_KEY", KEY)
    monkeypatch.setenv("BUDGET_TOKEN", "t-1")
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1] = read_yaml("fallback: true")
    model = FakeModel(model="my-model")
    assert len(play(tmp_path, manifest, model)) == 3  # the second server does not exist
    assert {(each["x-team"], each["x-budget"]) for each in model.headers} == {("corpus", "t-1")}


def test_the_embeddings_are_written_as_they_are_shown(tmp_path: Path) -> None:
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1] = read_yaml("vectorSize: 2")
    model = FakeModel(model="my-embedder")
    rows = play(tmp_path, manifest, model)
    assert {row["text"]: row["vector"][0] for row in rows} == {text: len(text) for text in TEXTS}
    assert [len(body["input"]) for body in model.bodies] == [3]


def test_the_batch_is_written_as_it_is_shown(tmp_path: Path) -> None:
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1] = read_yaml("batch: {pollSeconds: 60}")
    manifest["spec"]["stages"][1]["with"]["batch"] = {"pollSeconds": 0.05}
    vendor = OpenAi(FakeModel(model="my-model"))
    with serve_vendor(vendor) as url:
        manifest["spec"]["stages"][1]["with"]["url"] = url
        rows = play(tmp_path, manifest, FakeModel())
    assert {row["answer"] for row in rows} == {
        f"echo: Rate this text from 0 to 5: {text}" for text in TEXTS
    }
    assert len(vendor.batches) == 1


def test_the_conversation_runs_as_it_is_shown(tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        if "yes or no" in prompt:
            return "Yes."
        return "What turns?" if prompt.startswith("Ask") else "The tide."

    write_files(PAGE, tmp_path)
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1] = read_yaml("rollout: talks:make_pair")
    rows = play(tmp_path, manifest, FakeModel(answer=answer, model="my-model"))
    assert [row["answer_question"] for row in rows] == ["What turns?"] * 3
    assert [row["answer_answer"] for row in rows] == ["The tide."] * 3


def test_the_budget_is_written_as_it_is_shown(tmp_path: Path) -> None:
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1]["with"] |= read_yaml("budget: {cost: 20}")
    manifest["spec"]["stages"][1]["with"]["requestsPerMinute"] = 60_000
    model = FakeModel(answer=lambda _: '{"score": 4}', model="my-model")
    assert len(play(tmp_path, manifest, model)) == 3


def play_recipe(folder: Path, name: str, model: FakeModel) -> list[dict[str, Any]]:
    """Run an example unchanged, and return its output rows."""
    shutil.copytree(ROOT / "pipelines/examples", folder / "pipelines/examples")
    file = folder / f"pipelines/examples/{name}.yaml"
    with serve(model) as url:
        file.write_text(file.read_text().replace(SHOWN, url))
        for words in (["plan", "--sample", "3"], ["run", "--engine", "inline"], ["verify"]):
            done = run_in(folder, sys.executable, "-m", "strandline", *words, str(file))
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    files = (folder / "strandline-data").rglob(f"{name}/output/**/*.jsonl*")
    return [json.loads(line) for each in files for line in read_lines(each)]


def test_pairs_are_written_from_the_documents(tmp_path: Path) -> None:
    pair = {"question": "What turns?", "answer": "The tide."}
    model = FakeModel(answer=lambda _: json.dumps(pair), model="smollm2")
    rows = play_recipe(tmp_path, "question-pairs", model)
    assert len(rows) > 5
    assert {(row["pair_question"], row["pair_answer"]) for row in rows} == {tuple(pair.values())}
    assert set(model.asked.values()) == {1}, "what the plan has asked is asked once"


def test_documents_that_are_rated_low_are_left_out(tmp_path: Path) -> None:
    """The fake model rates documents that mention the tide as good."""
    model = FakeModel(
        answer=lambda prompt: json.dumps({"score": 4 if "tide" in prompt else 1}), model="smollm2"
    )
    rows = play_recipe(tmp_path, "rated-documents", model)
    assert 0 < len(rows) < model.asked.total()
    assert all("tide" in row["text"] and row["answer_score"] == 4 for row in rows)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, which may be compressed."""
    if path.suffix == ".zst":
        data: bytes = pa.input_stream(str(path), compression="zstd").read()
        return data.decode().splitlines()
    return path.read_text().splitlines()


def test_the_server_of_each_worker_is_written_as_it_is_shown(tmp_path: Path) -> None:
    shown = read_yaml("engine: vllm")
    manifest = read_yaml("You rate texts")
    manifest["spec"]["stages"][1] = shown
    (tmp_path / "shown.yaml").write_text(yaml.safe_dump(manifest))
    done = run_in(tmp_path, sys.executable, "-m", "strandline", "validate", "shown.yaml")
    assert done.returncode == 0, (done.stdout, done.stderr)
