"""Common setup of all tests: golden files, and reproducible random examples."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from durations import read_longest
from garbage import spare_collector
from group_order import find_group, needs_server, order_groups
from run_summary import pytest_terminal_summary
from tier_selection import SelectionReport, add_option, select_tests

# This variable sets the width of tables, and must not come from the caller.
os.environ.pop("COLUMNS", None)

# Google's file system reads this when it is first loaded, by any test. Otherwise it queries an
# external service for the kind of each bucket, and hangs.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"

# A shell's background jobs ignore Ctrl-C, and so would all processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["pytest_terminal_summary"]
pytest_plugins = ["pytester"]
HERE = Path(__file__).parent
GOLDEN = HERE / "golden"

# Examples are the same on every run and machine, except that `make laws` draws new ones.
EXAMPLES = {"quick": 5, "usual": 25, "hundred": 100, "many": 1000}
for profile, count in EXAMPLES.items():
    settings.register_profile(
        profile,
        deadline=None,
        derandomize=profile != "many",
        max_examples=count,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("usual")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew instead of comparing"
    )
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SelectionReport(), "tier-selection")


LONGEST_ID = 16


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their parameter: gzip includes the time, so processes would differ."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_ID else None


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Keeps the tests of a group in one process because they share fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        return find_group(nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the session's tests from garbage collection, because they stay to its end."""
    with spare_collector():
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    """Use this scheduling regardless of `--dist`; groups start in the order of their tests."""
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the selected tier, and order them by the ranks of their groups.

    A run without worker processes keeps the order of the files. Within a group, tests that need a
    server come last.
    """
    select_tests(config, items)
    if hasattr(config, "workerinput"):
        ranks = order_groups((item.nodeid for item in items), read_longest())
        items.sort(key=lambda item: (ranks[find_group(item.nodeid)], needs_server(item.nodeid)))


@pytest.fixture(autouse=True)
def empty_memory() -> Generator[None]:
    """Empty fsspec's memory:// after each test, because all tests of a process share it."""
    yield
    if memory := sys.modules.get("fsspec.implementations.memory"):
        memory.MemoryFileSystem.store.clear()
        memory.MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a golden file: `golden("cli/plan.txt", actual)`."""

    def compare(relative_path: str, actual: str) -> None:
        path = GOLDEN / relative_path
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.is_file() else None
        assert expected == actual, f"{relative_path} differs; if it should: pytest --update-golden"

    return compare
