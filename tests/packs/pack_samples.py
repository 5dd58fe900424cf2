"""Loads `stage_samples_PACK.py` from the packs' own folders of tests.

Such a module may have `REQUIRED` (parameters of stages with required parameters), `FILTERS`
(parameters of stages that drop rows by measures), and `COLUMNS` (four values for each further
column that the filters read).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

Samples = dict[str, Callable[[Path], dict[str, Any]]]


def _load() -> Iterator[ModuleType]:
    for path in sorted(Path(__file__).parent.glob("*/stage_samples_*.py")):
        spec = importlib.util.spec_from_file_location(f"{path.parent.name}_samples", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


_MODULES = tuple(_load())


def join_samples(name: str) -> Samples:
    """Return `REQUIRED` or `FILTERS` of all packs that have it."""
    return {use: make for each in _MODULES for use, make in getattr(each, name, {}).items()}


def list_columns() -> dict[str, list[Any]]:
    """Return the further columns of rows that filters are tried with."""
    return {
        column: values
        for each in _MODULES
        for column, values in getattr(each, "COLUMNS", {}).items()
    }
