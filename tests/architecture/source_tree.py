"""Lists the repository's files and modules for the architecture tests."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from garbage import spare_collector

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "crds/strandline_api",
    "operator/strandline_operator",
    "pipelines/strandline",
    "pipelines/strandline_packs",
)
# Packages that measure and test the product. They are not shipped.
TRIAL_PACKAGES = (
    "bench/strandline_bench",
    "e2e/images",
    "e2e/kuberay_standin",
    "e2e/proving_ground",
    "e2e/real_node",
    "e2e/scanning",
)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.ClassDef


class Module(NamedTuple):
    """A module of the repository: its path from the root, its text, and its syntax tree."""

    path: str
    text: str
    tree: ast.Module


@cache
def list_files() -> tuple[Path, ...]:
    """Return all tracked and unignored files, relative to the root."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in output.split("\0") if name)
    return tuple(path for path in paths if (ROOT / path).is_file())


@cache
def list_modules(*folders: str) -> tuple[Module, ...]:
    """Return the Python modules below some folders."""
    with spare_collector():
        return tuple(
            _read_module(path)
            for path in list_files()
            if path.suffix == ".py" and any(path.is_relative_to(folder) for folder in folders)
        )


@cache  # several tests list the same folders, and each tree is large
def _read_module(path: Path) -> Module:
    text = (ROOT / path).read_text(encoding="utf-8")
    return Module(path.as_posix(), text, ast.parse(text))


def walk_public(scope: Scope, name: str = "") -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Yield public classes, functions, and methods with dotted names, without nested functions."""
    for node in scope.body:
        if not isinstance(node, ast.ClassDef | Function) or node.name.startswith("_"):
            continue
        dotted = f"{name}.{node.name}".removeprefix(".")
        yield dotted, node
        if isinstance(node, ast.ClassDef):
            yield from walk_public(node, dotted)
