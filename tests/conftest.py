"""What all floors of tests share: golden files, one local Ray, and repeatable random examples."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray
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


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A small Ray in which every test of the session may start its actors."""
    folder = tempfile.mkdtemp(prefix="ray-")  # a short path: Ray puts sockets into it
    ray.init(
        num_cpus=2,
        object_store_memory=200_000_000,
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        _temp_dir=folder,
    )
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
