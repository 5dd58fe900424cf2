"""Strandline's manifests for each job, as a user would write and apply them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.products.functions import FRAME_RATE, FRAME_WIDTH, LEAST_SIDE, is_kept

_HERE = "strandline_bench.products.manifests"
PARTITIONS = 4
Step = dict[str, Any]


class KeepTexts(Stage):
    """A stage that runs the user's function."""

    def process(self, task: Task) -> Task:
        """Return the rows that the function keeps."""
        texts = task.table["text"].to_pylist()
        return task.replace(task.table.filter(pa.array([is_kept(text) for text in texts])))


class KeepLarge(Stage):
    """Keeps pictures above a minimum size."""

    def process(self, task: Task) -> Task:
        """Return the rows of pictures whose sides are long enough."""
        table = task.table.select(["key", "width", "height"])
        sides = pc.min_element_wise(table["width"], table["height"])
        return task.replace(table.filter(pc.greater_equal(sides, LEAST_SIDE)))


class MeasureLight(Stage):
    """Measures the brightness of each frame, and writes a row per frame."""

    def process(self, task: Task) -> Task:
        """Return the clip, time, and brightness of the frames."""
        rows = []
        for clip in task.table.select(["clip", "frames", "frame_times"]).to_pylist():
            for second, frame in zip(clip["frame_times"], clip["frames"], strict=True):
                light = float(np.frombuffer(frame["rgb"], np.uint8).mean())
                rows.append({"clip": clip["clip"], "second": second, "light": light})
        return task.replace(pa.Table.from_pylist(rows))


def write_manifest(job: str, folder: Path, target: Path) -> Path:
    """Write the pipelines of a job, and return the file.

    Args:
        folder: folder with the job's input in `in`.
        target: folder for all output.
    """
    path = folder / f"{job}.yaml"
    path.write_text(yaml.safe_dump_all(_MAKERS[job](folder / "in", target)))
    return path


def _filter(source: Path, target: Path) -> list[Step]:
    return [_read_lines(source, target, [{"use": f"{_HERE}:KeepTexts"}])]


def _copy(source: Path, target: Path) -> list[Step]:
    return [_read_lines(source, target, [])]


def _quality(source: Path, target: Path) -> list[Step]:
    return [_read_lines(source, target, [{"use": "gopher-repetition"}, {"use": "gopher-quality"}])]


def _exact(source: Path, target: Path) -> list[Step]:
    sign = {"use": "digest-rows", "with": {"columns": ["text"], "normalise": "none"}}
    return _drop_duplicates(source, target, sign)


def _near(source: Path, target: Path) -> list[Step]:
    sign = {"use": "sign-texts", "with": {"words": 5, "bands": 14, "rows": 8}}
    return _drop_duplicates(source, target, sign)


def _pictures(source: Path, target: Path) -> list[Step]:
    listed = {"use": "files", "with": {"paths": [f"{source}/*"], "buckets": 8}}
    stages = [{"use": "read-files"}, {"use": "decode-images"}]
    sink = _to_parquet(target)
    sink["with"]["targetBytes"] = 128 << 20  # every picture is a separate task; see docs/outputs.md
    return [_build("kept", listed, [*stages, {"use": f"{_HERE}:KeepLarge"}], sink)]


def _videos(source: Path, target: Path) -> list[Step]:
    listed = {"use": "files", "with": {"paths": [f"{source}/*"]}}
    split = {"use": "split-video", "with": {"by": "length"}}
    decode = {"use": "decode-frames", "with": {"rate": FRAME_RATE, "longest": FRAME_WIDTH}}
    measure = {"use": f"{_HERE}:MeasureLight"}
    return [_build("kept", listed, [split, decode, measure], _to_parquet(target))]


def _read_lines(source: Path, target: Path, stages: list[Step]) -> Step:
    listed = {"use": "files", "with": {"paths": [f"{source}/*.jsonl"]}}
    return _build("kept", listed, [{"use": "read-jsonl"}, *stages], _to_parquet(target))


def _drop_duplicates(source: Path, target: Path, sign: Step) -> list[Step]:
    """Return the passes of docs/duplicates.md: sign, link, cluster, drop."""
    lines = {"use": "jsonl-files", "with": {"paths": [f"{source}/*.jsonl"]}}
    read = {"use": "read-jsonl"}
    pairs = {"use": "shuffle", "with": {"partitions": PARTITIONS}}
    links = {"use": "parquet", "with": {"writeEmpty": True}}
    partitions = {"use": "shuffle-partitions", "with": {"paths": [_take("signatures")]}}
    linked = {"use": "files", "with": {"paths": [_take("links")], "buckets": 1}}
    drop = {"use": "drop-listed", "with": {"path": _take("duplicates")}}
    link = [{"use": "read-shuffle"}, {"use": "link-duplicates"}]
    return [
        _build("signatures", lines, [read, sign], pairs),
        _build("links", partitions, link, links),
        _build("duplicates", linked, [{"use": "cluster-duplicates"}], links),
        _build("kept", lines, [read, drop], _to_parquet(target)),
    ]


def _take(pipeline: str) -> Step:
    return {"pipeline": pipeline, "files": "**/*.parquet"}


def _to_parquet(target: Path) -> Step:
    return {"use": "parquet", "with": {"path": str(target / "kept")}}


def _build(name: str, source: Step, stages: list[Step], sink: Step) -> Step:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {"source": source, "stages": stages, "sink": sink},
    }


_MAKERS = {
    "filter": _filter,
    "words": _filter,
    "copy": _copy,
    "quality": _quality,
    "exact": _exact,
    "near": _near,
    "pictures": _pictures,
    "videos": _videos,
}
