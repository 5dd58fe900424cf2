"""Runs NeMo Curator's comparison of pairs within clusters on a CPU: `curator_pairwise.py IN OUT`.

NeMo Curator's stage needs CUDA: its modules import those of RAPIDS, and its function rejects
tensors outside of a GPU. This program puts stand-ins in place of these modules, and a tensor that
claims to be on a GPU. Ranking and comparison are NeMo Curator's own code, with pandas and PyTorch.

IN is a file of arrays `vectors` (float32), `cluster`, `distance`, `threshold`. OUT gets the indices
of the removed rows by ranking: `by_id`; `hard`, which prefers the greatest id at equal distances;
and `hard_first`, which prefers the smallest. `seconds` is the CPU time of `by_id`.
"""

from __future__ import annotations

import importlib
import sys
import time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import torch

_RAPIDS = {"cudf", "cuml", "cupy", "pylibcudf", "pylibraft", "raft_dask", "rmm"}


class _GpuTensor(torch.Tensor):  # type: ignore[misc]  # it comes without types
    is_cuda = True


def main(source: str, target: str) -> None:
    """Compare the vectors by three rankings."""
    _replace_modules()
    from nemo_curator.stages.deduplication.semantic import pairwise  # noqa: PLC0415 - needs stand-ins
    from nemo_curator.stages.deduplication.semantic.ranking import (  # noqa: PLC0415 - see above
        RankingStrategy,
    )

    data = np.load(source)
    stage = pairwise.PairwiseStage("id", "vector", "", "", which_to_keep="hard")
    begun = time.process_time()
    by_id = _remove(data, RankingStrategy.metadata_based(["id"]), pairwise)
    seconds = time.process_time() - begun
    hard = _remove(data, stage.ranking_strategy, pairwise)
    columns = stage.ranking_strategy.metadata_cols
    first = RankingStrategy.metadata_based(columns, ascending=[False, True])
    hard_first = _remove(data, first, pairwise)
    np.savez(target, by_id=by_id, hard=hard, hard_first=hard_first, seconds=seconds)


class _StandIn(ModuleType):
    """A module that has every name."""

    __path__: list[str] = []  # noqa: RUF012 - of a package

    def __getattr__(self, name: str) -> type:
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds stand-ins for the modules of RAPIDS."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return a spec for a module of RAPIDS."""
        return ModuleSpec(name, self) if name.split(".", maxsplit=1)[0] in _RAPIDS else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Create a stand-in."""
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing."""


def _replace_modules() -> None:
    sys.meta_path.insert(0, _Finder())
    # The package's own `__init__` would import k-means, which needs more of RAPIDS.
    deduplication = importlib.import_module("nemo_curator.stages.deduplication")
    package = ModuleType(f"{deduplication.__name__}.semantic")
    package.__path__ = [f"{path}/semantic" for path in deduplication.__path__]
    sys.modules[package.__name__] = package
    stand_in: Any = importlib.import_module("cupy")
    stand_in.asarray = lambda tensor: tensor.as_subclass(torch.Tensor).numpy()


def _remove(data: Any, ranking: Any, pairwise: Any) -> np.ndarray[Any, Any]:  # noqa: ANN401 - without types
    removed = []
    for cluster in np.unique(data["cluster"]):
        rows = np.flatnonzero(data["cluster"] == cluster)
        frame = pd.DataFrame({"id": rows, "cosine_dist_to_cent": data["distance"][rows]})
        ids = ranking.rank_cluster(frame)["id"].to_numpy()
        vectors = torch.from_numpy(data["vectors"][ids]).as_subclass(_GpuTensor)
        scores, _ = pairwise.pairwise_cosine_similarity_batched(vectors)
        removed.append(ids[scores >= data["threshold"]])
    return np.concatenate(removed)


if __name__ == "__main__":
    main(*sys.argv[1:])
