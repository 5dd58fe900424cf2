"""Additions are as small as CONTRIBUTING.md promises, and an incomplete addition fails a test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from source_tree import ROOT
from strandline.run.attempt.engines import ENGINES, ON_ONE_MACHINE
from strandline_api.objects.pipeline import PipelineSpec

STAGE = '''
"""Nothing but a stage."""

from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task


class DoNothing(Stage):
    """Hands on what it gets."""

    def process(self, task: Task) -> Task:
        """The same task."""
        return task
'''

FORMAT = '''
"""Nothing but a format of tables."""

import pyarrow as pa

from strandline.data.shipments.shipment import PushResult
from strandline.data.tables.formats.registry import VersionFile

ERRORS = ()


class Version:
    """A table with one file."""

    number = 1
    schema = pa.schema([])

    def list_files(self):
        """The file."""
        return [VersionFile("a", "1")]


def open_version(name, number):
    """Every table is there."""
    return Version()


def inspect(name):
    """No table is there."""


def commit(push, *, is_forced):
    """Claims to have the data set."""
    return PushResult(push.name, push.shipment.revision, True, len(push.shipment.files))


def find_difference(push):
    """None."""
'''
FORMAT_USER = """
from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import Shipment, ShippedFile
from strandline.data.tables.formats.registry import FORMS
from strandline.run.release.push.pushing import PushClock, _ship
from strandline_packs.sources.table_files import TableFiles

assert FORMS.endswith(" or memory:TABLE"), FORMS
assert [source.key for source in TableFiles(table="memory:a").list_sources()] == ["a"]
files = (ShippedFile("a.parquet", 1, bytes(16), 1),)
shipment = Shipment("default/a", "first", "f", "l", 1, files, b"")
clock = PushClock(lambda: 0.0, lambda _: None)
result = _ship(shipment, Contents("/outputs"), "memory:/a", clock, lambda: None)
assert (result.target, result.files) == ("/a", 1), result
"""

RULE = '''
"""Nothing but a rule of a redo."""

from strandline.plan.stages.stage import Stage
from strandline.run.revise.starts.start import Start


class ReadNothing(Stage):
    """Hands on what it gets."""


class MadeUp:
    """A place that has the output of every first stage."""

    reads_cut = False

    def find(self, due):
        """Find the first stage."""
        return Start(due.changes.list_unchanged(due.entry.attempt)[0])

    def describe(self, start):
        """Describe a start."""
        return f"from a made-up place after {start.after}"

    def open_reader(self, plan, start):
        """Read nothing."""
        return ReadNothing()

    def list_files(self, start, record):
        """There are no files."""
        return []

    def note_missing(self, store, location, starts_here):
        """Nothing can be missing."""
'''
RULE_USER = """
from strandline.ledger.records.entries import FinishedEntry, SourceRecord
from strandline.ledger.store.recipes import Changes, Recipe
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.stage import Stage
from strandline.run.revise.redo import plan_from
from strandline.run.revise.starts.rules import describe_start, find_start
from strandline.run.revise.starts.start import DueSource, Start



class Sink(SinkStage):
    '''A sink of no files.'''


stages = StagePlan("a", "a", Stage()), StagePlan("b", "b", Sink())
plan = PipelinePlan("ns", "p", StagePlan("source", "source", Stage()), stages, Fingerprint("", {}))
recipes = [Recipe(n, {"order": ["a", "b"], "b.with.n": str(n)}) for n in (1, 2)]
due = DueSource(FinishedEntry("1", 1), SourceRecord("k", ()), True, Changes(recipes), plan)
start = find_start(due)
assert start == Start("a", "made-up"), start
assert describe_start(start) == "from a made-up place after a"
reader = plan_from(plan, start).stages[0].stage
assert type(reader).__name__ == "ReadNothing", reader
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the product's source, for changes."""
    for name in ("crds", "pipelines"):
        ignored = shutil.ignore_patterns("__pycache__", "examples")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def execute(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=copy,
        env={"PYTHONPATH": f"{copy / 'pipelines'}:{copy / 'crds'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_stage_is_a_file_a_line_and_one_command(copy: Path) -> None:
    pack = copy / "pipelines/strandline_packs/tables"
    (pack / "do_nothing.py").write_text(STAGE.lstrip())
    line = '        "do-nothing": "strandline_packs.tables.do_nothing:DoNothing",\n'
    listed = (pack / "__init__.py").read_text()
    (pack / "__init__.py").write_text(listed.replace("stages={\n", f"stages={{\n{line}"))
    stale = execute(copy, "pipelines/stage_index.py", "--check")
    assert (stale.returncode, "run `make crds`" in stale.stderr) == (1, True)
    assert execute(copy, "pipelines/stage_index.py").returncode == 0
    assert execute(copy, "pipelines/stage_index.py", "--check").returncode == 0
    program = (
        "import strandline.stages as stages\n"
        "from strandline.plan.stages.registry import list_registered\n"
        "assert 'do-nothing' in dict(list_registered()), list_registered()\n"
        "assert stages.DoNothing.__name__ == 'DoNothing'\n"
    )
    done = execute(copy, "-c", program)
    assert done.returncode == 0, done.stderr


def test_a_format_of_tables_is_a_module_and_a_line(copy: Path) -> None:
    formats = copy / "pipelines/strandline/data/tables/formats"
    (formats / "memory.py").write_text(FORMAT.lstrip())
    known = '    "lance": TableFormat("lance"),\n'
    text = (formats / "registry.py").read_text()
    assert known in text
    line = '    "memory": TableFormat("json"),\n'
    (formats / "registry.py").write_text(text.replace(known, known + line))
    done = execute(copy, "-c", FORMAT_USER)
    assert done.returncode == 0, done.stderr


def test_a_rule_of_a_redo_is_a_module_and_a_line(copy: Path) -> None:
    starts = copy / "pipelines/strandline/run/revise/starts"
    (starts / "made_up.py").write_text(RULE.lstrip())
    known = '    "cut": LatestCut(),\n'
    text = (starts / "rules.py").read_text()
    assert known in text
    imported = "from strandline.run.revise.starts.made_up import MadeUp\n\nRULES:"
    listed = text.replace("RULES:", imported).replace(known, f'    "made-up": MadeUp(),\n{known}')
    (starts / "rules.py").write_text(listed)
    done = execute(copy, "-c", RULE_USER)
    assert done.returncode == 0, done.stderr


def test_a_cause_without_a_row_is_refused_at_once(copy: Path) -> None:
    path = copy / "crds/strandline_api/outcome/causes.py"
    known = '    UNKNOWN = "Unknown"\n'
    path.write_text(path.read_text().replace(known, f'{known}    STRUCK = "Struck"\n'))
    done = execute(copy, "-c", "import strandline_api.outcome.causes")
    assert "causes without a row: [<Cause.STRUCK: 'Struck'>]" in done.stderr


def test_what_the_recipes_name_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("## Recipes")[2].partition("\n## ")[0]
    named = [path for path in re.findall(r"`([\w./{}-]+)`", table) if "/" in path]
    assert len(named) > 20
    missing = [path for path in named if "{" not in path and not (ROOT / path).exists()]
    assert missing == []


def test_the_engines_of_a_manifest_are_those_that_there_are() -> None:
    named = get_args(PipelineSpec.model_fields["engine"].annotation)
    assert {*named, *ON_ONE_MACHINE} == set(ENGINES)
