"""pip's requirements inside a build, and library files that are removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images.inside.environment import (
    drop_surplus,
    find_packages,
    has_own_index,
    main,
    read_requirements,
)

ROOT = Path(__file__).parents[2]
PYPROJECT = """
[project]
dependencies = ["b>=1", "a"]
[project.optional-dependencies]
x = ["c[d]>=2", "a"]
y = ["e"]
"""


RUNTIME_EXTRAS = ["runtime", "cluster", "stores", "fields", "images", "statistics"]
RUNTIME_EXTRAS += ["text", "video"]


def read_pins() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    return {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}


def test_requirements_come_from_the_project_and_the_extras() -> None:
    assert read_requirements(PYPROJECT, ["x"]) == ["a", "b>=1", "c[d]>=2"]
    assert read_requirements(PYPROJECT, []) == ["a", "b>=1"]


def test_a_missing_extra_is_an_error() -> None:
    with pytest.raises(KeyError, match="z"):
        read_requirements(PYPROJECT, ["z"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("global.cert", False),
        (":env:.timeout", False),
        ("global.index-url", True),
        (":env:.extra-index-url", True),
        (":env:.no-index", True),
        ("user.proxy", True),
    ],
)
def test_packages_of_another_index_are_left_to_pip(name: str, *, expected: bool) -> None:
    assert has_own_index(f"global.retries='3'\n{name}='anything'\n") is expected


def test_an_unknown_step_is_reported() -> None:
    with pytest.raises(SystemExit, match="there is no step fly"):
        main(["fly"])


@pytest.mark.parametrize("extras", [["operator"], ["runtime", "cluster"]])
def test_all_requirements_are_pinned(extras: list[str]) -> None:
    needed = read_requirements((ROOT / "pyproject.toml").read_text(), extras)
    names = {re.split(r"[\[<>=!]", line)[0].lower() for line in needed}

    assert names - read_pins() == set()


def find_by_extra(requirement: Requirement) -> set[str]:
    """Return requirements of an extra that pip before 23.3 misses because of its spelling."""
    asked = distribution(requirement.name).metadata.get_all("Provides-Extra") or []
    unheard = requirement.extras - set(asked)
    each = [Requirement(text) for text in distribution(requirement.name).requires or ()]
    return {
        canonicalize_name(one.name)
        for one in each
        for extra in map(canonicalize_name, unheard)
        if one.marker and one.marker.evaluate({"extra": extra})
    }


def list_asked_with_extras() -> Iterator[Requirement]:
    """Return all extras that pinned libraries require, over all of their own extras."""
    pins = read_pins()
    for library in distributions():
        if canonicalize_name(library.metadata["Name"]) in pins:
            asked = map(Requirement, library.requires or ())
            needed = [one for one in asked if not one.marker or one.marker.evaluate({"extra": ""})]
            yield from (one for one in needed if one.extras)


def test_requirements_of_extras_that_an_old_pip_misses_are_listed_by_name() -> None:
    """Debian 12 has pip 23.0. jusText requires lxml[html_clean], and lxml declares html-clean."""
    named = {
        canonicalize_name(Requirement(line).name)
        for line in read_requirements((ROOT / "pyproject.toml").read_text(), RUNTIME_EXTRAS)
    }
    missing = {name for one in list_asked_with_extras() for name in find_by_extra(one)}
    assert missing
    assert missing - named == set()


def test_requirements_of_rays_job_server_are_pinned() -> None:
    assert {"aiohttp-cors", "grpcio", "opencensus", "py-spy", "smart-open"} <= read_pins()


def test_only_surplus_is_removed(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    stays = ["numpy/core.py", "numpy/testing/x.py", "pyarrow/lib.so", "ray/core/x", "other/tests/x"]
    goes = ["numpy/ma/tests/x.py", "pyarrow/include/a.h", "pyarrow/lib.pxd", "ray/jars/r.jar"]
    for name in stays + goes:
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).touch()

    drop_surplus(find_packages(tmp_path))

    left = [str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()]
    assert sorted(left) == sorted(stays)
