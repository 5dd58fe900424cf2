"""The comparison with other products names stages that exist, and the versions of benchmarks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from strandline.plan.stages.registry import list_registered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/comparison.md").read_text("utf-8")


def test_the_column_strandline_names_stages() -> None:
    tables = PAGE.partition("## Operation")[0]
    cells = [line.split("|")[2] for line in tables.splitlines() if line.startswith("| ")]
    names = set(re.findall(r"`([^`]+)`", "".join(cells)))
    assert len(names) > 40
    assert names <= {*list_registered()}


def test_the_versions_are_those_of_the_benchmarks() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    for product in ("curator", "daft", "data-juicer", "datatrove"):
        (version,) = re.findall(r"==([0-9.]+)", "\n".join(groups[f"product-{product}"]))
        assert re.search(rf"(?i){product} {re.escape(version)}", PAGE)
