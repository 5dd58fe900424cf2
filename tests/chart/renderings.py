"""Renders the chart with each case of its folder `ci`, and reads the operator's flags.

The module must not depend on the checks of the results.
"""

from __future__ import annotations

from argparse import ArgumentParser
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm_program import CASES, CHART, Helm
from manifests import of_kind
from strandline_operator.settings import Settings, add_flags, read_settings

Json = dict[str, Any]
MINIMAL = CHART / "ci" / "minimal-values.yaml"
EVERYTHING = CHART / "ci" / "everything-on-values.yaml"
NAMESPACED = CHART / "ci" / "namespaced-values.yaml"
cases = pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem.removesuffix("-values"))


@cache  # safe, because no test changes the manifests
def render(helm: Helm, case: Path) -> list[Json]:
    """Return the manifests of a case."""
    return helm.render("--values", case)


def read_case(case: Path) -> Json:
    """Return the chart values of a case."""
    return yaml.safe_load(case.read_text(encoding="utf-8")) or {}


def flags_of(manifests: list[Json]) -> list[str]:
    """Return the flags of the operator's container."""
    (deployment,) = of_kind(manifests, "Deployment")
    found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def parse(flags: list[str]) -> Settings:
    """Return the settings that the operator reads from these flags."""
    parser = ArgumentParser()
    add_flags(parser)
    return read_settings(vars(parser.parse_args(flags)), {})
