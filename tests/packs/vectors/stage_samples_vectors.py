"""Parameters of the pack's stages that have required parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from strandline_packs.vectors.centroids import build_table
from tiny_models import make_mean


def write_centers(folder: Path) -> dict[str, Any]:
    path = folder / "centers.parquet"
    pq.write_table(build_table(np.eye(2, dtype=np.float32)), path)
    return {"path": str(path)}


REQUIRED = {
    "assign-cluster": write_centers,
    "score-images": lambda folder: {"model": make_mean(folder / "mean.onnx")},
    "embed-images": lambda folder: {"model": make_mean(folder / "mean.onnx")},
}
