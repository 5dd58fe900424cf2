"""Groups are selected by paths, and CI has a time budget for them."""

from __future__ import annotations

import pytest

from changed_jobs import (
    EVERY,
    GROUPS_OF_FOLDERS,
    MINUTES,
    MINUTES_OF_ONE_SIDE,
    ROOT,
    RULES,
    RUNTIME,
    choose_budget,
    choose_groups,
    find_readers,
    read_groups,
)
from tiers import FOLDERS_OF_MORE, Tier


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["docs/spot.md"], set()),
        (["README.md", "changelog.d/1.fixed.md", "mkdocs.yml", "tests/durations.json"], set()),
        (["docs/kubernetes.md"], {"server"}),  # tests with an API server run the page's commands
        (["charts/strandline/values.yaml"], {"chart", "gitops", "node"}),
        (["operator/strandline_operator/__main__.py"], {"server", "chart", "gitops", "node"}),
        (["pipelines/strandline/plan/task.py"], RUNTIME),
        (["pipelines/strandline/cli/app/options.py"], {"commands", "wheel"}),
        (["pipelines/strandline/storage/layout.py"], {"stores", "commands", "engines"}),
        (["bench/run.py"], {"bench"}),
        (["tests/cli/test_run.py", "docs/spot.md"], {"commands"}),
        (["tests/runtime/test_kills.py"], {"engines"}),
        (["tests/apiserver/waiting.py"], {"server"}),
        (["e2e/s3/go.mod"], {"stores", "node"}),
        (["e2e/unheard_of/go.mod"], {"node"}),
        (["crds/strandline_api/objects/pipeline.py"], EVERY),
        (["tests/fixtures/web_archive.py"], EVERY),
        (["tests/running/changed_jobs.py"], EVERY),
        (["tests/conftest.py"], EVERY),
        (["pyproject.toml"], EVERY),
        ([".ci/run"], EVERY),
        (["unheard_of/x.md"], EVERY),
        ([], set()),
    ],
)
def test_a_change_selects_the_groups_that_could_notice_it(
    paths: list[str], expected: set[str]
) -> None:
    readers = {"kubernetes.md": {"apiserver"}, "spot.md": {"cli", "running"}}
    assert set(choose_groups(paths, readers)) == expected


def test_the_group_that_most_paths_select_comes_first() -> None:
    paths = ["bench/a.py", "bench/b.py", "charts/x.yaml"]
    assert choose_groups(paths, {}) == ["bench", "chart", "gitops", "node"]


@pytest.mark.parametrize(
    ("paths", "minutes"),
    [
        (
            ["pipelines/strandline/plan/task.py", "tests/plan/x.py", "docs/x.md"],
            MINUTES_OF_ONE_SIDE,
        ),
        (["operator/strandline_operator/x.py", "charts/x.yaml"], MINUTES_OF_ONE_SIDE),
        (["docs/x.md"], MINUTES_OF_ONE_SIDE),
        (["pipelines/x.py", "operator/x.py"], MINUTES),
        (["crds/x.py"], MINUTES),
        (["pyproject.toml"], MINUTES),
    ],
)
def test_a_change_of_one_side_has_the_shorter_budget(paths: list[str], minutes: int) -> None:
    assert choose_budget(paths) == minutes


def test_a_page_selects_the_folders_of_tests_that_name_it() -> None:
    readers = find_readers(["docs/kubernetes.md", "docs/failures.md", "pyproject.toml"])
    assert {"apiserver", "docs"} <= readers["kubernetes.md"]
    assert {"api", "cli", "operator"} <= readers["failures.md"]
    assert find_readers(["pyproject.toml"]) == {}


def test_every_folder_of_tests_is_in_one_group_of_the_second_tier() -> None:
    groups = [group for group in read_groups().values() if group.tier is Tier.MORE]
    # `chart` and `gitops` are missing from the groups, because make targets run these folders.
    listed = [folder for group in groups for folder in group.folders] + ["chart", "gitops"]
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert sorted(listed) == sorted(folders)
    assert folders >= FOLDERS_OF_MORE


def test_rules_name_existing_paths_and_groups() -> None:
    groups = read_groups()
    assert {name for name, group in groups.items() if group.tier is Tier.MORE} == EVERY
    assert set(GROUPS_OF_FOLDERS.values()) <= EVERY
    for prefix, names in RULES:
        if not prefix.startswith("tests/record"):  # the first `make test-all` creates this file
            assert (ROOT / prefix).exists(), prefix
        assert names <= EVERY
