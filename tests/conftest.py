"""What all floors of tests share: golden files, and random examples that can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"

# Examples are the same on every run and machine. `--hypothesis-profile=search` looks for new ones.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("cli/plan.txt", actual)` compares with `tests/golden/cli/plan.txt`."""

    def compare(relative_path: str, actual: str) -> None:
        path = GOLDEN / relative_path
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.is_file() else None
        assert expected == actual, f"{relative_path} differs; if it should: pytest --update-golden"

    return compare
