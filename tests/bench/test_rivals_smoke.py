"""Each compared engine does all of the work; speed is not tested."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline_bench.engines.cases import (
    Case,
    build_blocks,
    build_example,
    build_fanout,
    build_ratio,
    build_skewed,
    build_tiny,
)
from strandline_bench.engines.profiles.engine_profile import describe_stats
from strandline_bench.engines.records import Summary
from strandline_bench.engines.rivals.index import RIVALS, Rival, find_rival
from strandline_bench.engines.trial import run_trial
from strandline_bench.ground.local_ray import started_ray
from strandline_bench.ground.scale import run_apart

CPUS = 2
Build = Callable[[Path], Case]
BUILDERS: dict[str, Build] = {
    "tiny": lambda folder: build_tiny(70, folder, CPUS),
    "skewed": lambda folder: build_skewed(250, folder, CPUS, nap=0.0001),
    "blocks": lambda folder: build_blocks(5, folder, CPUS, size=10_000),
    "fanout": lambda folder: build_fanout(250, folder, CPUS, nap=0.0001),
}
EXAMPLE = "python-functions"


@pytest.fixture(scope="module")
def shared_ray() -> Iterator[None]:
    """Provide one Ray for all engines."""
    has_dashboard = find_rival("xenna").is_installed()
    if has_dashboard:
        from strandline_bench.engines.rivals.xenna import ENVIRONMENT  # noqa: PLC0415 - needs what may not be there

        os.environ.update(ENVIRONMENT)
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    with started_ray(folder, CPUS, 200_000_000, has_dashboard=has_dashboard):
        yield
    os.environ.pop("RAY_ADDRESS", None)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def small_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a pipeline with a fan-out, a filter, and output files."""
    folder = tmp_path_factory.mktemp("example")
    for number in range(4):
        text = f'def f{number}(a):\n    """Says what is done with an a."""\n    return a\n'
        (folder / f"m{number}.py").write_text("" if number == 2 else text * number)
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": EXAMPLE},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{folder}/*.py"]}},
            "stages": [
                {"use": "read-files"},
                {"use": "decode-python"},
                {"use": "extract-functions"},
            ],
            "sink": {"use": "jsonl"},
        },
    }
    manifest = folder / f"{EXAMPLE}.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


@pytest.fixture(scope="module")
def whole_example(small_example: Path, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Provide the example's output, from the simplest engine."""
    folder = tmp_path_factory.mktemp("whole")
    build = partial(build_example, small_example, ())
    summary = run_apart(build_and_run, find_rival("processes"), build, folder)["summary"]
    assert isinstance(summary, Summary)
    return summary


def build_named(name: str, folder: Path) -> Case:
    return BUILDERS[name](folder)


def build_and_run(rival: Rival, build: Build, folder: Path) -> dict[str, Any]:
    return run_trial(rival, build(folder), folder)


def run(rival: Rival, build: Build, folder: Path, request: pytest.FixtureRequest) -> Summary:
    if not rival.is_installed():
        pytest.skip(f"{rival.needs} are not installed")
    if rival.ray:
        request.getfixturevalue("shared_ray")
        measured = build_and_run(rival, build, folder)
    else:
        # Run in a new process: a fork beside Ray's threads may deadlock.
        measured = run_apart(build_and_run, rival, build, folder)
    assert measured["seconds"] > 0
    summary = measured["summary"]
    assert isinstance(summary, Summary)
    return summary


def list_trials() -> list[tuple[Rival, str]]:
    """Return two cases per engine, with several engines per case: all would take minutes."""
    trials = []
    for number, rival in enumerate(RIVALS):
        names = [name for name in BUILDERS if name in rival.cases]
        picked = dict.fromkeys(names[(number + step) % len(names)] for step in range(2) if names)
        trials += [(rival, name) for name in picked]
    return trials


@pytest.mark.filterwarnings("default")  # third-party warnings
@pytest.mark.parametrize(
    ("rival", "name"), list_trials(), ids=lambda value: getattr(value, "name", value)
)
def test_rival_does_all_of_the_work(
    rival: Rival, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    expected = BUILDERS[name](tmp_path).expected
    assert expected == run(rival, partial(build_named, name), tmp_path, request)


def test_each_case_is_tried_with_several_rivals() -> None:
    tried = [name for _, name in list_trials()]
    assert all(tried.count(name) > 1 for name in BUILDERS)


@pytest.mark.filterwarnings("default")  # third-party warnings
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_rival_writes_the_files_of_an_example(
    rival: Rival,
    small_example: Path,
    whole_example: Summary,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if EXAMPLE not in rival.cases:
        pytest.skip("it is not compared on this")
    assert whole_example.items == 2
    build = partial(build_example, small_example, ())
    assert run(rival, build, tmp_path, request) == whole_example


@pytest.mark.parametrize("name", ["processes", "processes-apart"])
def test_a_case_with_an_optimum_has_a_rate(name: str, tmp_path: Path) -> None:
    build = partial(build_ratio, 60, unit=0.0005)
    measured = run_apart(build_and_run, find_rival(name), build, tmp_path)
    assert measured["summary"] == build(tmp_path).expected
    assert 0 < measured["steady"] < 5
    assert measured["reached"] is None  # the run is shorter than the window


def test_profile_names_functions_and_not_folders(tmp_path: Path) -> None:
    import cProfile  # noqa: PLC0415 - the subject

    profile = cProfile.Profile()
    profile.runcall(yaml.safe_load, "a: [1, 2]")
    profile.dump_stats(tmp_path / "it.prof")
    # List all functions, because the first places depend on timing.
    text = describe_stats([tmp_path / "it.prof"], most=1_000)
    assert "ncalls  tottime" in text
    assert "site-packages" not in text
    # The first of the five preceding columns contains a slash for recursive functions.
    names = [line.split(maxsplit=5)[5] for line in text.splitlines() if "yaml/" in line]
    assert any(name.startswith("yaml/scanner.py") for name in names)
    assert any("/" in line.split()[0] for line in text.splitlines())
    assert [name for name in names if not name.startswith("yaml/")] == []


def test_the_profile_is_independent_of_memory_addresses(tmp_path: Path) -> None:
    import cProfile  # noqa: PLC0415 - the subject

    profile = cProfile.Profile()
    profile.runcall(Summary, 1, 2, 3)
    profile.dump_stats(tmp_path / "it.prof")
    text = describe_stats([tmp_path / "it.prof"])
    assert "method __new__ of type object}" in text
