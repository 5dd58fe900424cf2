"""Modules that stand in for another library, with the parts of its interface that a stage needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def write_package(folder: Path, package: str, files: Mapping[str, str]) -> Path:
    """Write modules, given by path without `.py`, and return the package's folder."""
    for name, text in files.items():
        path = folder / package / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    forget(package)
    return folder / package


def forget(package: str) -> None:
    """Remove a package from the imported modules."""
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
