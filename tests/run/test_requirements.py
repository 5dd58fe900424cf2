"""Missing packages of a plan are reported before any work begins."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pytest

from strandline.plan import packages
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.plan.stages.ends import Source, SourceStage
from strandline.plan.stages.registry import list_registered
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.code.requirements import check_requirements
from strandline_api.documents.problems import SpecError
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sources.files import Files
from strandline_packs.text.filters.splitting import PACKAGES as SPLITTERS

NOT_HERE = "a_package_that_nobody_has"


class Own(Stage):
    """A user's own stage that declares its imports."""

    packages: ClassVar[tuple[str, ...]] = ("json", NOT_HERE)

    def process(self, task: Task) -> Task:
        return task


class Bare(SourceStage):
    """A source whose parameters contain no paths."""

    def list_sources(self) -> Iterator[Source]:
        yield Source("a", "1", None)


def make_plan(paths: tuple[str, ...], *middle: Stage, path: str | None = None) -> PipelinePlan:
    source = StagePlan("files", "files", Files(paths=paths))
    stages = [StagePlan(f"own-{at}", "own:Own", stage) for at, stage in enumerate(middle)]
    return check_plan("default", "p", source, [*stages, StagePlan("j", "j", JsonlSink(path=path))])


def find_problems(plan: PipelinePlan) -> list[str]:
    with pytest.raises(SpecError) as caught:
        check_requirements(plan)
    return [str(problem) for problem in caught.value.problems]


def test_all_missing_packages_are_reported_at_once_with_their_place() -> None:
    plan = make_plan(("in/*", "s4://a/*"), Own(), path="q9://out")

    said = find_problems(plan)

    assert [line.partition(":")[0] for line in said] == [
        "spec.source.with.paths[1]",
        "spec.stages[0].use",
        "spec.sink.with.path",
    ]
    assert f"'own:Own' needs the package {NOT_HERE}, which is not installed" in said[1]


def test_the_pipelines_own_output_is_checked_too() -> None:
    plan = replace(make_plan(("in/*",)), output="s4://out")

    assert find_problems(plan)[0].startswith("spec.storage.output.url: unknown protocol")


def test_installed_packages_are_no_problem() -> None:
    check_requirements(make_plan(("in/*", "memory://a/*"), path="memory://out"))
    bare = StagePlan("bare", "bare", Bare())
    check_requirements(check_plan("default", "p", bare, [StagePlan("j", "j", JsonlSink())]))


@pytest.mark.parametrize("engine", ["inline", "processes", "ray"])
def test_no_engine_starts_a_plan_with_missing_packages(tmp_path: Path, engine: str) -> None:
    with pytest.raises(SpecError, match="did you mean s3"):
        run_attempt(AttemptConfig(make_plan(("s4://a/*",)), tmp_path, engine=engine))
    assert list(tmp_path.iterdir()) == []


def test_law_every_late_import_of_a_shipped_stage_has_an_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_class: dict[str, object] = {
        name: stage.packages for name, stage in list_registered().items()
    }
    # The packages that a stage needs may depend on a parameter.
    named = [modules for modules in by_class.values() if isinstance(modules, tuple)]
    assert any(named)
    monkeypatch.setattr(packages, "find_spec", _find_nothing)

    for module in packages.list_missing({*chain.from_iterable([*named, *SPLITTERS.values()])}):
        assert packages.advise(module).startswith("pip install '"), module


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ModuleNotFoundError("No module named 'zarr'", name="zarr"),
            "it needs the package zarr, which is not installed; pip install 'strandline[fields]'",
        ),
        (ImportError("Pillow\n is broken"), "Pillow is broken"),
        (ImportError(), "ImportError"),
    ],
)
def test_a_failed_import_is_described_in_one_sentence(error: ImportError, said: str) -> None:
    assert packages.explain_import(error) == said


@pytest.mark.parametrize("module", [each.module for each in packages.list_packages()])
def test_a_missing_module_is_reported_with_its_package(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    def import_nothing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(packages, "import_module", import_nothing)
    with pytest.raises(ImportError) as caught:
        packages.load_module(module)
    package = packages.name_package(module)
    assert str(caught.value).startswith(f"{package} is not installed (No module named {module!r}")
    assert str(caught.value).endswith(packages.advise(module))


def test_an_installed_module_is_loaded() -> None:
    assert packages.load_module("json.decoder").JSONDecoder is json.JSONDecoder


def test_an_unknown_package_is_named_by_its_module() -> None:
    assert importlib.util.find_spec(NOT_HERE) is None
    assert packages.advise("torch.nn") == (
        "install the package with the module 'torch.nn' wherever the pipeline runs"
    )
    assert packages.name_package("PIL.Image") == "pillow"


def _find_nothing(_: Any) -> ModuleSpec | None:
    return None
