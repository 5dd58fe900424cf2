"""Which jobs a change asks for: no fewer than test what it touches."""

from __future__ import annotations

import pytest

from changed_jobs import (
    EVERY,
    JOBS,
    JOBS_OF_GROUPS,
    ROOT,
    RULES,
    choose_jobs,
    find_readers,
    read_groups,
)

GROUPS = {"pure": ["plan", "stages"], "runtime": ["cli"], "shape": ["architecture"]}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["docs/spot.md"], {"pages"}),
        (["README.md", "changelog.d/1.fixed.md", "mkdocs.yml"], {"pages"}),
        (["docs/pictures/draw.py", "tests/durations.json"], set()),
        (["docs/failures.md"], {"pages", "runtime"}),  # a test of a command reads it
        (["charts/strandline/values.yaml"], {"pages", "chart", "node"}),
        (["tests/stages/test_text.py"], {"pure", "lowest"}),
        (["tests/cli/test_run.py", "docs/spot.md"], {"runtime", "pages"}),
        (["tests/architecture/test_words.py"], set()),
        (["pipelines/strandline/plan/task.py"], EVERY - {"chart"}),
        (["operator/strandline_operator/__main__.py"], EVERY - {"runtime"}),
        (["crds/strandline_api/objects/pipeline.py"], EVERY),
        (["tests/fixtures/web_archive.py"], EVERY),
        (["tests/conftest.py"], EVERY),
        (["tests/unheard_of/test_x.py"], EVERY),
        (["pyproject.toml"], EVERY),
        (["unheard_of/x.md"], EVERY),
        (["docs/spot.md", ".github/workflows/ci.yaml"], EVERY),
        ([], set()),
    ],
)
def test_a_change_asks_for_what_it_touches(paths: list[str], expected: set[str]) -> None:
    readers = {"failures.md": {"cli"}}
    assert choose_jobs(paths, GROUPS, readers) == expected


def test_pages_are_tested_by_the_folders_that_name_them() -> None:
    readers = find_readers(["docs/kubernetes.md", "docs/failures.md", "pyproject.toml"])
    assert {"apiserver", "docs"} <= readers["kubernetes.md"]
    assert {"api", "cli", "operator"} <= readers["failures.md"]
    assert find_readers(["pyproject.toml"]) == {}


def test_every_folder_of_tests_is_in_one_group() -> None:
    listed = [folder for folders in read_groups().values() for folder in folders]
    there = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert sorted(listed) == sorted(there)
    assert read_groups().keys() == JOBS_OF_GROUPS.keys()


def test_what_rules_name_is_there() -> None:
    for beginning, jobs in RULES:
        assert (ROOT / beginning).exists(), beginning
        assert jobs <= set(JOBS)
