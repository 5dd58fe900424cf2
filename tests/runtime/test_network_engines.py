"""Networks over tokens in worker processes write the same bytes as in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from make_networks import write_both

from jobs import Job

EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
LEAST = 2.5


def name_files(network: Path) -> dict[str, str]:
    return {"model": f"{network}/model.onnx", "tokenizer": f"{network}/tokenizer.json"}


def write_manifest(folder: Path) -> Path:
    """Write a manifest that scores the example documents with one network, then labels them."""
    write_both(folder)
    scorer, classifier = name_files(folder / "educational"), name_files(folder / "quality")
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "networks"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{EXAMPLES}/documents/*"]}},
            "stages": [
                {"use": "read-files"},
                {"use": "parse-documents"},
                {"use": "score-text", "with": scorer | {"minScore": LEAST}},
                {"use": "classify-text", "with": classifier | {"labels": ["high"]}},
            ],
            "sink": {"use": "jsonl"},
        },
    }
    manifest = folder / "networks.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


# Both engines load a network in the same way, so Ray belongs to the second tier.
@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=pytest.mark.more)])
def test_workers_keep_the_same_texts_with_the_same_scores(engine: str, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path)
    whole = Job(manifest, "inline").run_whole(tmp_path / "inline")
    assert whole == Job(manifest, engine).run_whole(tmp_path / "workers")
    lines = [
        line
        for path in (tmp_path / "workers").rglob("output/**/*.jsonl")
        for line in path.read_text().splitlines()
    ]
    rows = [json.loads(line) for line in lines]
    assert {"gulls.html": 4.25, "log.txt": 2.5, "log-copy.txt": 2.5, "shore.jsonl#L1": 2.5} == {
        Path(row["key"]).name: row["score"] for row in rows
    }
    assert {"high"} == {row["label"] for row in rows}
    assert all(0.9 < row["label_probability"] < 1 for row in rows)
