"""`strandline report` on real volumes: before a run, without sources, after failures, and live."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli_project import Call, Project
from report_builders import Outline
from strandline.cli.report.panels import MAX_PANEL, read_artifacts
from strandline.cli.report.reading import read_facts
from strandline.cli.report.sections.overview import list_parts
from strandline.ledger.records.entries import Change, FailureRecord
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.insight.records import read_record
from strandline.run.manifest.manifest import read_manifest
from strandline.run.supervise.record_writing import write_record
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_bench.ground.filled_ledger import fill

GATHERING = """
def setup(self):
    self.seen = 0

def process(self, task: Task) -> Task:
    self.seen += 1
    return task

def flush(self):
    seen, self.seen = self.seen, 0
    return str(seen).encode()

@staticmethod
def merge(paths, out):
    out.write_text(str(sum(int(path.read_text()) for path in paths)))

def artifacts(self, merged, folder):
    (folder / "all.json").write_text({content})

@staticmethod
def panel(artifacts):
    names = [path.name for path in artifacts]
    {answer}
"""
SEEN = '''"{\\"seen\\": " + merged.read_text() + "}"'''


def report(call: Call, *words: str) -> Outline:
    result = call("report", "pipeline.yaml", "--out", "page.html", *words)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    return Outline(Path("page.html").read_text(encoding="utf-8"))


def test_a_report_before_a_run_creates_nothing(project: Project, call: Call) -> None:
    assert "not run yet" in report(call).text
    assert not project.folder.exists()


def test_a_complete_run_is_reported(project: Project, run: Call, call: Call) -> None:
    run()
    text = report(call).text
    for words in ("default/notes", "completed", "finished3 of 3", "0001/p0001", "read-files"):
        assert words in text
    assert "sources finished" in text


def test_a_run_without_sources_is_reported(project: Project, run: Call, call: Call) -> None:
    for path in project.path.glob("in/*"):
        path.unlink()
    (project.path / "empty.py").write_text(
        "from strandline import SourceStage\n\n\nclass Empty(SourceStage):\n    '''None.'''\n\n"
        "    def list_sources(self):\n        return iter(())\n"
    )
    project.spec["source"] = {"use": "empty:Empty"}
    project.save()
    assert run().exit_code == 64
    text = report(call).text
    assert "InvalidSpec" in text
    assert "Sources by state: none" in text


def test_failures_are_shown_as_text(project: Project, run: Call, call: Call) -> None:
    project.add_stage(
        "def process(self, task: Task) -> Task:\n    raise ValueError('<script>x</script>')"
    )
    run()
    outline = report(call)
    assert "3 sources failed: 3 in own" in outline.text
    assert "ValueError: <script>x</script>" in outline.text
    assert "script" not in outline.tags


def test_each_failure_shows_the_command_that_lists_its_kind(
    project: Project, run: Call, call: Call
) -> None:
    project.add_stage(
        "def process(self, task: Task) -> Task:\n"
        "    text = str(task.table['text'][0])\n"
        "    if '1' in text:\n"
        "        raise KeyError('one')\n"
        "    raise ValueError('others')"
    )
    run()
    page = report(call)
    links = {a["href"] for tag, a in page.elements if tag == "a" and "kind-" in (a["href"] or "")}
    assert links == {"#failed-kind-1", "#failed-kind-2"}
    commands = [line.strip() for line in page.words if "ledger sources --state failed" in line]
    assert len(commands) == 2
    found = [
        subprocess.run(
            ["/bin/sh", "-c", command],  # as a user pastes the command into a shell
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        ).stdout
        for command in commands
    ]
    assert [text.count("\n") for text in found] == [2, 1]
    assert "in/1.txt" in found[1]


def test_quarantined_sources_are_shown_by_kind_with_their_command(
    project: Project, run: Call, call: Call
) -> None:
    project.add_stage("def process(self, task: Task) -> Task:\n    raise ValueError('no')")
    project.spec["quarantine"] = {"after": 1, "tolerate": "100%"}
    project.save()
    run()

    page = report(call)

    assert "Quarantine by kind" in page.text
    (command,) = [line for line in page.words if "quarantine list pipeline.yaml |" in line]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    listed = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": path},
    ).stdout  # fmt: skip
    assert listed.count("\n") == 3


def test_numbers_of_an_interrupted_run_add_up(project: Project, call: Call) -> None:
    """Two sources fail, and the next attempt stops before it has retried both."""
    project.add_stage(
        "def process(self, task: Task) -> Task:\n"
        "    if str(task.table['text'][0]).strip()[-2] in '06':\n"
        "        raise ValueError('not these')\n"
        "    return task"
    )
    for number in range(3, 10):
        (project.path / f"in/{number}.txt").write_text(f"Note number {number}.\n")
    plan = read_manifest(Path("pipeline.yaml")).plan
    config = AttemptConfig(plan, project.path / "strandline-data", engine="inline")
    run_attempt(config)
    for turns in (3, 1000):
        asked = [None] * turns
        run_attempt(config, must_stop=partial(_has_run_out, asked))
        facts = read_facts(plan, PipelineFolder(project.folder), time.time())
        counts = facts.count_sources()
        assert counts.listed == 10
        assert sum(part.number for part in list_parts(counts)) == 10
        assert counts.finished == 8
        assert (counts.failed + counts.interrupted, counts.inflight) == (2, 0)
        assert facts.last is not None
        row = facts.count_attempt(facts.last)
        assert (row.finished, row.failed) == (counts.finished_now, counts.failed_now)
    assert counts.failed_now == 2
    assert facts.funnel[0].rows_in == 8  # a retried source counts once


def _has_run_out(turns: list[None]) -> bool:
    if turns:
        turns.pop()
    return not turns


def test_a_report_can_be_printed(project: Project, run: Call, call: Call) -> None:
    run()
    result = call("report", "pipeline.yaml", "--out", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert not Path("report.html").exists()


def test_an_unwritable_place_is_named(project: Project, call: Call) -> None:
    result = call("report", "pipeline.yaml", "--out", "nowhere/page.html")
    assert result.exit_code == 64
    assert "nowhere/page.html: can't be written" in result.stderr


def test_a_live_run_is_reported(project: Project, run: Call, call: Call) -> None:
    run()
    folder = PipelineFolder(project.folder)
    record, own = read_record(folder, 1), find_process(os.getpid())
    assert record is not None
    assert own is not None
    alive: dict[str, Any] = dict.fromkeys(("ended", "outcome", "cause", "witness"))
    alive |= {"boot": read_boot_id(), "pid": own.pid, "process_started": own.started}
    write_record(folder, record.model_copy(update=alive))
    shown = json.loads(folder.progress.read_text())
    shown |= {"pid": own.pid, "time": time.time(), "rate": 4.5, "bottleneck": "read-files"}
    folder.progress.write_text(json.dumps(shown))

    text = report(call).text

    assert "running" in text
    assert "4.5/s recently, read-files sets the pace" in text
    assert "Stages now, over half a minute" in text


def add_gathering(project: Project, answer: str, content: str = SEEN) -> None:
    body = GATHERING.format(answer=answer, content=content)
    project.add_stage(body, base="StatefulFilter")
    project.spec["stages"][-1]["name"] = "moments"
    project.save()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("return '<p>panel of ' + names[0] + '</p>'", "panel of moments.all.json"),
        ("return None", "Numbers of moments.all.json"),
        ("raise KeyError('x')", "Its panel can't be shown: KeyError: 'x'"),
        (
            f"return 'x' * {MAX_PANEL + 1}",
            "Its panel can't be shown: a panel must have at most 2,000,000 characters",
        ),
        ("return 5", "Its panel can't be shown: a panel must be text, not int"),
    ],
)
def test_a_stage_shows_its_own_panel_or_its_numbers(
    answer: str, words: str, project: Project, run: Call, call: Call
) -> None:
    add_gathering(project, answer)
    assert "Not published yet" in report(call).text
    run()
    page = report(call)
    assert "Not published yet" not in page.text
    framed = [attributes["srcdoc"] or "" for tag, attributes in page.elements if tag == "iframe"]
    assert words in page.text + "".join(framed)


def test_the_numbers_cover_all_sources(project: Project, run: Call, call: Call) -> None:
    add_gathering(project, "return None")
    run()
    rows = report(call).text
    assert "seen3" in rows.replace("\n", "").replace(" ", "")


def test_a_broken_artifact_is_listed_but_not_read(project: Project, run: Call, call: Call) -> None:
    add_gathering(project, "return None", content="'{half' + '[' * 100_000")
    run()
    page = report(call).text
    assert "moments.all.json" in page
    assert "Numbers of" not in page


def test_stages_without_statistics_have_no_section(project: Project) -> None:
    plan = read_manifest(Path("pipeline.yaml")).plan
    assert read_artifacts(plan, None) == ()


def test_memory_and_page_size_are_bounded_for_any_ledger(project: Project, call: Call) -> None:
    folder = PipelineFolder(project.folder)
    folder.ledger.mkdir(parents=True)
    assert fill(folder.ledger, 50_000, 120).sources == 50_000
    store = Store(folder.ledger)
    failures = [
        (digest_key(f"f{number}"), FailureRecord(f"f{number}", 1, "read", "m" * 500, 1))
        for number in range(20_000)
    ]
    store.write(Change(fail=failures))
    store.close()
    del failures
    plan = read_manifest(Path("pipeline.yaml")).plan
    tracemalloc.start()
    facts = read_facts(plan, folder, 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts.ledger is not None
    assert (facts.ledger.finished, facts.ledger.failures.count) == (50_000, 20_000)
    assert peak < 4_000_000  # less than half of all records, because lists are read in portions
    assert "20,000 sources failed" in report(call).text
    assert Path("page.html").stat().st_size < 200_000


def test_every_command_that_the_page_names_works(project: Project, run: Call, call: Call) -> None:
    project.add_stage(
        "def process(self, task: Task) -> Task:\n    raise ValueError('not this one')"
    )
    run("--volume", "the volume", "--set", "quarantine.after=1")
    run("--volume", "the volume", "--set", "quarantine.after=1")
    result = call(
        "report", "pipeline.yaml", "--volume", "the volume", "--set", "quarantine.after=1",
        "--out", "page.html",
    )  # fmt: skip
    assert result.exit_code == 0
    words = Outline(Path("page.html").read_text(encoding="utf-8")).words
    commands = [word.strip() for word in words if word.strip().startswith("strandline ")]
    assert len({command.split()[1] for command in commands}) >= 3
    for command in commands:
        result = call(*shlex.split(command.partition(" | ")[0])[1:])
        assert result.exit_code == 0, (command, result.output)


def test_all_pipelines_of_a_file_are_on_one_page(project: Project, call: Call) -> None:
    second = json.loads(json.dumps(project.document))
    second["metadata"]["name"] = "after"
    second["spec"]["source"]["with"]["paths"] = ["in/0.txt"]
    second["spec"].pop("storage", None)
    project.write(yaml.safe_dump_all([project.document, second]), "both.yaml")
    assert call("run", "both.yaml", "--engine", "inline", "--no-supervise").exit_code == 0
    outline = Outline(call("report", "both.yaml", "--out", "-").stdout)
    links = [attributes["href"] for tag, attributes in outline.elements if tag == "a"]
    assert {"#pipeline-1", "#pipeline-2"} <= set(links)
    assert "default/notes" in outline.text
    assert "strandline failures 'both.yaml#after'" not in outline.text  # without failures
    assert "2 pipelines" in outline.text
