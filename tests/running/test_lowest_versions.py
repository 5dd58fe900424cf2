"""The lowest allowed versions, as constraints for pip."""

from __future__ import annotations

import pytest

from lowest_versions import list_lowest, read_extras, read_requirements
from run_lowest import LEFT_EXTRAS, LEFT_TESTS, ROOMS, ROOT, list_extras, list_pins


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        (["ray>=2.50,<3", "ray[data]>=2.51,<3", "ray>=2.9"], ["ray==2.51"]),
        (["pip>=24.1", "rich>=13"], ["rich==13"]),
        (["backports.zstd>=1; python_version < '3.14'"], ["backports.zstd==1"]),
        ([], []),
    ],
)
def test_the_highest_of_the_lower_bounds_is_taken(
    requirements: list[str], expected: list[str]
) -> None:
    assert list_lowest(requirements) == expected


@pytest.mark.parametrize("requirement", ["rich", "rich<14", "rich==13", "rich~=13.0"])
def test_a_library_without_a_lower_bound_is_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="has no lower bound; write NAME>=VERSION"):
        list_lowest([requirement])


def test_every_extra_has_lower_bounds_and_is_tested() -> None:
    extras = read_extras()
    assert list_lowest(read_requirements(extras))
    tested = {extra for side in ROOMS for extra in list_extras(side)}
    assert tested == set(extras) - LEFT_EXTRAS
    assert "pydantic==2.11" in list_pins(list_extras("runtime"))


def test_excluded_test_files_exist() -> None:
    assert [path for path in LEFT_TESTS if not (ROOT / path).is_file()] == []
