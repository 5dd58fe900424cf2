"""The suite covers every engine of the product and every scenario, or documents the exception."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import test_casualties
import test_relays
import test_same_flow
import test_same_results
from conformance import REFERENCE, RESTRICTIONS, every
from conformance_scenarios import SCENARIOS, casualties, pieces, stopped
from strandline.run.attempt.engines import ENGINES

HERE = Path(__file__).parent
# Only this module may name engines. Other modules take the engines from the product.
LIST = "conformance.py"
NAMES = {scenario.__name__ for scenario in SCENARIOS}


def read_params(mark: pytest.MarkDecorator) -> list[tuple[Any, ...]]:
    """Return the values of each parameter set of a parametrized test."""
    return [param.values for param in mark.args[1]]


def test_the_shared_parametrization_has_every_engine() -> None:
    assert [engine for (engine,) in read_params(every)] == list(ENGINES)


def test_each_scenario_runs_on_each_engine_or_has_a_restriction() -> None:
    pairs = {
        (scenario.__name__, engine)
        for scenario, engine in read_params(test_same_results.each_comparison)
    }
    compared = {scenario.__name__ for scenario in SCENARIOS} - {
        scenario.__name__ for scenario in test_same_results.OWN_TESTS
    }
    pairs |= {(name, REFERENCE) for name in compared}
    for scenario, mark in (
        (pieces, every),
        (stopped, test_same_flow.stopping),
        (casualties, test_casualties.replacing),
    ):
        pairs |= {(scenario.__name__, engine) for (engine,) in read_params(mark)}
    missing = {(name, engine) for name in NAMES for engine in ENGINES} - pairs
    assert missing == RESTRICTIONS.keys()


def test_each_relay_step_runs_on_each_engine() -> None:
    relays = [param.values[0] for param in test_relays.list_relays()]  # type: ignore[attr-defined]
    for step in range(len(test_relays.STEPS)):
        assert {relay[step] for relay in relays} == set(ENGINES)


def test_restrictions_name_engines_and_scenarios_of_the_product() -> None:
    assert {engine for _, engine in RESTRICTIONS} <= set(ENGINES)
    assert {name for name, _ in RESTRICTIONS} <= NAMES


def test_no_other_module_names_an_engine() -> None:
    found = [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in HERE.glob("*.py")
        if path.name != LIST
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in ENGINES
    ]
    assert found == []
