"""Runs jobs with Data-Juicer: a recipe for `dj-process`; JUICER_EXECUTOR names the executor.

A user's own operator is in a separate file, which the recipe names.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ray
import yaml
from data_juicer.tools.process_data import main

from strandline_bench.products.functions import CORES, LEAST_SIDE, run_program

OPERATORS = Path(__file__).with_name("operators")
BANDS, ROWS, WORDS = 14, 8, 5
Step = dict[str, dict[str, Any]]


def filter_documents(source: Path, target: Path) -> None:
    """Filter documents by a user's own operator."""
    _process(
        source,
        target,
        [{"keep_texts_filter": {}}],
        custom_operator_paths=[str(OPERATORS / "keep_texts_filter.py")],
    )


def filter_quality(source: Path, target: Path) -> None:
    """Apply the closest equivalent of Gopher's rules."""
    steps: list[Step] = [
        {"words_num_filter": {"min_num": 50, "max_num": 100_000}},
        {"alphanumeric_filter": {"min_ratio": 0.6}},
        {"special_characters_filter": {"max_ratio": 0.3}},
        {"character_repetition_filter": {"rep_len": 10, "max_ratio": 0.2}},
        {"word_repetition_filter": {"rep_len": 10, "max_ratio": 0.1}},
        {"maximum_line_length_filter": {"min_len": 10}},
    ]
    _process(source, target, steps)


def drop_equal(source: Path, target: Path) -> None:
    """Keep one copy of each text."""
    if _is_on_ray():
        # Start with a filter: without one, rows have no statistics, and writing Parquet fails.
        steps: list[Step] = [{"text_length_filter": {}}, {"ray_document_deduplicator": {}}]
    else:
        steps = [{"document_deduplicator": {}}]
    _process(source, target, steps)


def drop_near(source: Path, target: Path) -> None:
    """Drop near-duplicates by MinHash."""
    name = "ray_bts_minhash_deduplicator" if _is_on_ray() else "document_minhash_deduplicator"
    sizes = {"num_permutations": BANDS * ROWS, "num_bands": BANDS, "num_rows_per_band": ROWS}
    _process(source, target, [{name: {"window_size": WORDS, **sizes}}])


def measure_pictures(source: Path, target: Path) -> None:
    """Keep pictures above a minimum size, with their measures."""
    rows = target / "pictures.jsonl"
    with rows.open("w") as file:
        for path in sorted(source.iterdir()):
            file.write(json.dumps({"id": path.name, "text": "", "images": [str(path)]}) + "\n")
    step = {"image_shape_filter": {"min_width": LEAST_SIDE, "min_height": LEAST_SIDE}}
    _process(rows, target, [step], keep_stats_in_res_ds=True)


def _process(source: Path, target: Path, steps: list[Step], **settings: Any) -> None:  # noqa: ANN401 - of a recipe
    recipe = {
        "project_name": "texts",
        "dataset_path": str(source),
        "export_path": str(target / "kept" if _is_on_ray() else target / "kept.parquet"),
        "export_type": "parquet",
        "executor_type": "ray" if _is_on_ray() else "default",
        "np": CORES,
        "ds_cache_dir": str(target / "cache"),
        "work_dir": str(target / "work"),
        "use_checkpoint": bool(os.environ.get("JUICER_RESUMES")),
        "process": steps,
        **settings,
    }
    path = target / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    if _is_on_ray():
        # Start Ray first, as the guide does.
        variables = {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{OPERATORS}"}
        ray.init(num_cpus=CORES, include_dashboard=False, runtime_env={"env_vars": variables})
    sys.argv = ["dj-process", "--config", str(path)]
    main()


def _is_on_ray() -> bool:
    return os.environ.get("JUICER_EXECUTOR") == "ray"


if __name__ == "__main__":
    run_program(
        {
            "filter": filter_documents,
            "words": filter_documents,
            "quality": filter_quality,
            "exact": drop_equal,
            "near": drop_near,
            "pictures": measure_pictures,
        }
    )
