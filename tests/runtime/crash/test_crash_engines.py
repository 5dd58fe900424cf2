"""A fault at any named step of a run with several processes loses only the work in flight.

`make crash` also runs the errors omitted here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matrix import ENGINES, SEPARATE, Case, Ground, list_telling_cases

CASES = [case for engine in ENGINES if SEPARATE[engine] for case in list_telling_cases(engine)]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = Ground(tmp_path_factory.mktemp("engines") / "ground")
    yield ground
    ground.close()


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_costs_only_the_work_in_flight(case: Case, ground: Ground) -> None:
    finding = ground.carry_out(case)

    assert finding.faults == [], finding.log
