"""Tests of a file or of a Ray share a process, and the longest groups start first."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from durations import read_report
from group_order import find_group, order_groups

FILES = [
    "tests/runtime/crash/test_crash_matrix.py",
    "tests/runtime/test_kills.py",
    "tests/engines/test_conformance.py",
    "tests/apiserver/test_long.py",
    "tests/plan/test_short.py",
    "tests/plan/test_long.py",
]


def test_tests_with_a_ray_are_two_groups() -> None:
    assert [find_group(f"{name}::test_a[x::y]") for name in FILES] == [
        "ray-crashes",
        "ray",
        "ray",
        *FILES[3:],
    ]


def test_the_longest_group_starts_first_and_groups_with_servers_last() -> None:
    seconds = {FILES[0]: 300.0, FILES[1]: 200.0, FILES[2]: 50.0, FILES[3]: 400.0, FILES[5]: 9.0}
    ranks = order_groups((f"{name}::test_a" for name in FILES), seconds)
    assert sorted(ranks, key=ranks.__getitem__) == [
        "ray-crashes",
        "ray",
        FILES[5],
        FILES[4],
        FILES[3],
    ]


def test_a_new_file_counts_as_the_median_of_its_folder() -> None:
    seconds = {"tests/plan/a.py": 1.0, "tests/plan/b.py": 8.0, "tests/plan/c.py": 9.0}
    known = {**seconds, "tests/packs/known.py": 7.0}
    names = ["tests/packs/known.py", "tests/plan/new.py", "tests/laws/new.py"]
    ranks = order_groups((f"{name}::test_a" for name in names), known)
    assert sorted(ranks, key=ranks.__getitem__) == [names[1], names[0], names[2]]


@given(
    st.lists(st.sampled_from(FILES), max_size=20),
    st.dictionaries(st.sampled_from(FILES), st.floats(0, 1000)),
)
def test_law_every_group_has_a_unique_rank(files: list[str], seconds: dict[str, float]) -> None:
    """A group's rank is unique, and does not depend on the order of tests or on known durations."""
    tests = [f"{name}::test_{number}" for number, name in enumerate(files)]
    ranks = order_groups(tests, seconds)
    assert sorted(ranks.values()) == list(range(len({find_group(test) for test in tests})))
    assert ranks == order_groups(tests[::-1], seconds)


def test_durations_are_added_up_by_file(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    name = "tests.running.test_group_order"
    report.write_text(
        f'<testsuites><testsuite><testcase classname="{name}" name="a" time="1.5"/>'
        f'<testcase classname="{name}.SomeClass" name="b" time="2.04"/>'
        '<testcase classname="tests.running.test_untested" name="c" time="0.2"/>'
        "</testsuite></testsuites>"
    )
    assert read_report(report) == {"tests/running/test_group_order.py": 3.5}
