"""Lists the compared engines: names, requirements, and supported cases. Imports no engine."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strandline_bench.engines.cases import EXAMPLES, Case

HOW_TO_INSTALL = "not installed; make rivals"


@dataclass(frozen=True, slots=True)
class Rival:
    """An engine in one configuration.

    Attributes:
        name: name on the command line.
        title: name in the table.
        module, function: function that runs a case; the module is in this package.
        needs: required packages.
        ray: the kind of Ray cluster that the engine needs: `plain`, `dashboard`, or empty.
        cases: cases on which the engine is measured.
        beaten_in: cases in which Strandline must be faster.
    """

    name: str
    title: str
    module: str
    function: str
    needs: tuple[str, ...] = ()
    ray: str = ""
    cases: tuple[str, ...] = ("tiny", "skewed", "blocks", *EXAMPLES, "ratio", "fanout")
    beaten_in: tuple[str, ...] = ()

    def is_installed(self) -> bool:
        """Return whether all required packages are installed."""
        return all(importlib.util.find_spec(name) is not None for name in self.needs)

    def load(self) -> Callable[[Case, Path, Callable[[], None]], None]:
        """Return the function that runs a case.

        The function takes a case, a folder, and a callback that starts the clock.
        """
        function = getattr(importlib.import_module(f"{__package__}.{self.module}"), self.function)
        assert callable(function)
        return function  # type: ignore[no-any-return]


_ALL = ("tiny", "skewed", "blocks", *EXAMPLES, "ratio", "fanout")
# A single process for all stages works best for short or uneven cases.
_LONG_OR_UNEVEN = ("skewed", *EXAMPLES, "ratio", "fanout")
OURS = Rival("ours", "ours", "ours", "run_untracked", ray="plain")
RIVALS = (
    OURS,
    Rival(
        "ours-ledger",
        "ours, with its ledger",
        "ours",
        "run_tracked",
        ray="plain",
        cases=("tiny", "skewed", *EXAMPLES),
    ),
    Rival(
        "ours-apart",
        "ours, each stage apart",
        "ours",
        "run_apart",
        ray="plain",
        cases=("tiny", "blocks", *EXAMPLES, "ratio", "fanout"),
    ),
    Rival("ours-inline", "ours, inline", "ours", "run_inline", cases=EXAMPLES),
    Rival("ours-forked", "ours, forked workers", "ours", "run_forked", cases=("tiny", *EXAMPLES)),
    Rival(
        "bare",
        "bare Ray actors, told their numbers",
        "bare",
        "run",
        ray="plain",
        cases=("tiny", "skewed", "blocks", "ratio"),
        beaten_in=("tiny", "skewed", "blocks", "ratio"),
    ),
    Rival(
        "ray-data",
        "Ray Data, cut as ours",
        "ray_data",
        "run_cut",
        needs=("pandas", "pyarrow"),
        ray="plain",
        beaten_in=_ALL,
    ),
    Rival(
        "ray-data-fused",
        "Ray Data, fused",
        "ray_data",
        "run_fused",
        needs=("pandas", "pyarrow"),
        ray="plain",
        beaten_in=_ALL,
    ),
    Rival(
        "xenna",
        "Cosmos-Xenna",
        "xenna",
        "run",
        needs=("cosmos_xenna",),
        ray="dashboard",
        beaten_in=_ALL,
    ),
    Rival(
        "datatrove",
        "datatrove, local executor",
        "datatrove",
        "run",
        needs=("datatrove",),
        beaten_in=_LONG_OR_UNEVEN,
    ),
    Rival(
        "processes",
        "multiprocessing, all stages in each process",
        "processes",
        "run_whole",
        beaten_in=_LONG_OR_UNEVEN,
    ),
    Rival(
        "processes-apart",
        "multiprocessing, a pool for each stage",
        "processes",
        "run_apart",
        cases=("ratio",),
        beaten_in=("ratio",),
    ),
)


def find_rival(name: str) -> Rival:
    """Return the engine with a name."""
    return next(rival for rival in RIVALS if rival.name == name)
