"""Lists the compared products with their programs, environments, and settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from strandline_bench.ground.folders import ROOT

HOW_TO_INSTALL = "not installed; make products"
ENVIRONMENTS = ROOT / ".cache" / "products"


@dataclass(frozen=True, slots=True)
class Product:
    """A product in one configuration.

    Attributes:
        title: name in the table.
        program: module of `programs` that runs the product; empty for Strandline.
        package: package whose version is printed.
        jobs: jobs that the product supports without a GPU, in a documented way.
        environment: folder below `.cache/products`; empty for the benchmark's own environment.
        variables: environment variables of its process.
        options: options of `strandline run`, for Strandline.
        resumes: whether the product has a documented way to resume after a kill.
    """

    title: str
    program: str
    package: str
    jobs: tuple[str, ...]
    environment: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    resumes: bool = False

    @property
    def python(self) -> Path:
        """The Python interpreter of the product's environment."""
        if not self.environment:
            return Path(sys.executable)
        return ENVIRONMENTS / self.environment / "bin" / "python"

    def describe(self) -> str:
        """Return the product's title and version."""
        if not self.package:
            return self.title
        version = find_version(self.python, self.package)
        name, comma, how = self.title.partition(",")
        return f"{name} {version}{comma}{how}"

    def is_installed(self) -> bool:
        """Return whether the product's environment has the package."""
        return not self.package or bool(find_version(self.python, self.package))


@cache
def find_version(python: Path, package: str) -> str:
    """Return the version of a package in an environment, or an empty string if it is missing."""
    if not python.exists():
        return ""
    script = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run(  # noqa: S603 - ours
        [python, "-c", script], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


# Ray requires tokens by default, and Curator's processes can't join their local Ray instance with
# tokens.
_CURATOR = {"RAY_AUTH_MODE": "disabled"}
_OURS = ("filter", "words", "copy", "quality", "exact", "near", "pictures", "videos")
_JUICER = ("filter", "words", "quality", "exact", "near", "pictures")
_DAFT = ("filter", "words", "exact", "pictures", "videos")
PRODUCTS = (
    Product("ours", "", "", _OURS, resumes=True),
    Product("ours, on Ray", "", "", _OURS, options=("--engine", "ray"), resumes=True),
    Product("ours, inline", "", "", ("filter", "words"), options=("--engine", "inline")),
    Product("a pool of processes, by hand", "pool", "", ("filter", "words")),
    Product("Polars", "polars", "polars", ("filter", "words", "copy", "exact")),
    Product("DuckDB", "duckdb", "duckdb", ("filter", "words", "exact")),
    Product("datasets", "datasets", "datasets", ("filter", "words")),
    Product("Daft", "daft", "daft", _DAFT, "daft"),
    Product(
        "Daft, on Ray",
        "daft",
        "daft",
        _DAFT,
        "daft",
        {"DAFT_RUNNER": "ray"},
    ),
    Product("Ray Data", "ray_data", "ray", ("filter", "words", "videos")),
    Product(
        "datatrove",
        "datatrove",
        "datatrove",
        ("filter", "words", "quality", "near"),
        "datatrove",
        resumes=True,
    ),
    Product("Data-Juicer", "data_juicer", "py-data-juicer", _JUICER, "data-juicer", resumes=True),
    Product(
        "Data-Juicer, on Ray",
        "data_juicer",
        "py-data-juicer",
        ("filter", "words", "quality", "exact", "near"),
        "data-juicer",
        {"JUICER_EXECUTOR": "ray"},
    ),
    Product(
        "NeMo Curator",
        "curator",
        "nemo-curator",
        ("filter", "words", "quality"),
        "curator",
        _CURATOR,
        resumes=True,
    ),
    Product(
        "NeMo Curator, on Ray Data",
        "curator",
        "nemo-curator",
        ("filter", "words", "quality"),
        "curator",
        {**_CURATOR, "CURATOR_EXECUTOR": "ray-data"},
        resumes=True,
    ),
)
