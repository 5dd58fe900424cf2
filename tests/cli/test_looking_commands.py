"""The read-only commands: validate, plan, describe, stages, ledger, verify, and version."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
import yaml

from cli_project import Call, Project, drop_progress, read_errors
from strandline.cli.commands.data.ledgers.verify import describe_verdict
from strandline.ledger.checks.verification import VerificationResult
from strandline.ledger.records.entries import Change, FailureRecord, Mark, QuarantinedSource
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline_api.outcome.exit_codes import ExitCode


def test_validate_describes_the_pipeline(project: Project, call: Call) -> None:
    result = call("validate", "pipeline.yaml")
    assert (result.exit_code, result.stdout) == (
        0,
        "pipeline.yaml: valid; files, 2 stages, jsonl\n",
    )
    assert json.loads(call("validate", "pipeline.yaml", "--json").stdout) == {
        "valid": True,
        "problems": [],
    }
    assert list(project.path.glob("strandline-data")) == []


def test_validate_lists_problems_for_scripts(project: Project, call: Call) -> None:
    result = call("validate", "pipeline.yaml", "--json", "--set", "sinc.use=jsonl")
    assert result.exit_code == 64
    problem = {
        "path": "spec.sinc",
        "message": "unknown field 'sinc'",
        "suggestion": "did you mean 'sink'?",
    }
    assert json.loads(result.stdout) == {"valid": False, "problems": [problem]}
    assert drop_progress(result.stderr) == ""
    assert project.folder.exists() is False


PLAN = """\
pipeline     default/notes, run first
fingerprint  {fingerprint}
output       {folder}/output
ledger       {ledger}

stage            use         shape    fans out  batch  workers  cpu  gpu  memory  other
files                        →N                                 1
read-files                   1→0|1|N            1      1-all    1
parse-documents              1→0|1|N            1      2-4      0.5       2.1 GB  nvdec: 1
own              {use}  1→0|1|N  yes       1      1-all    1    0.5
jsonl                        1→                 8      1-all    1

stage            columns after it
files            key, path, size, mtime_ns
read-files       key, path, size, mtime_ns, content
parse-documents  key, format, text
own              unknown before a run
"""


def prepare_plan(project: Project) -> str:
    project.spec["stages"][1] |= {
        "workers": {"min": 2, "max": 4},
        "resources": {"cpu": 0.5, "memory": "2Gi", "custom": {"nvdec": 1}},
    }
    project.spec["sink"]["batchSize"] = 8
    use = project.add_stage("def process(self, task: Task) -> list[Task]:\n    return [task]")
    project.spec["stages"][-1]["resources"] = {"gpu": 0.5}
    project.save()
    return use


def test_plan_shows_shapes_resources_and_fan_outs(project: Project, call: Call) -> None:
    use = prepare_plan(project)
    text, refused, _ = call("plan", "pipeline.yaml").stdout.partition(
        "\nnot possible on this machine: "
    )
    assert refused  # the machine has no such decoder
    fingerprint = text.splitlines()[1].split()[1]
    wanted = PLAN.format(
        fingerprint=fingerprint, folder=project.folder, ledger="none yet", use=use.ljust(10)
    )
    shrink = str.maketrans("", "", " ")
    assert text.translate(shrink) == wanted.translate(shrink)
    assert not project.folder.exists()


def test_uninformative_columns_are_omitted(project: Project, call: Call) -> None:
    assert project.spec["stages"]
    lines = call("plan", "pipeline.yaml").stdout.splitlines()
    assert lines[5] == "stage            shape    batch  chain  workers  cpu"
    assert lines[7] == "read-files       1→0|1|N  1      1      1-all    1"


def test_plan_counts_what_would_be_skipped(project: Project, run: Call, call: Call) -> None:
    assert (
        "sources      3 listed, 0 to be skipped" in call("plan", "pipeline.yaml", "--list").stdout
    )
    run()
    (project.path / "in/new.txt").write_text("new")
    (project.path / "in/0.txt").write_text("changed, and of another size")
    text = call("plan", "pipeline.yaml", "--list").stdout
    assert "ledger       attempt 1, 3 sources finished, 0 failed, 0 in flight" in text
    assert "sources      4 listed, 2 to be skipped" in text


def test_plan_shows_the_cost_of_a_kill_and_excluded_files(project: Project, call: Call) -> None:
    for number in range(3):
        (project.path / f"in/{number}.txt").unlink()
    (project.path / "in/_SUCCESS").touch()
    (project.path / "in/gone.jsonl").symlink_to(project.path / "nowhere")
    with (project.path / "in/large.jsonl").open("wb") as file:
        file.truncate((1 << 30) + 1)
    project.spec["source"] = {"use": "jsonl-files", "with": {"paths": ["in/*"]}}
    project.spec["stages"] = [{"use": "read-jsonl"}]
    project.save()
    lines = call("plan", "pipeline.yaml", "--list").stdout
    text = " ".join(lines.split())
    assert "sources 1 listed, 0 to be skipped" in text
    assert "files of more than 1 GiB that are one source each: a killed run repeats the" in text
    assert "left out: a marker or checksum of Spark, Hive or Hadoop: 1" in text
    assert "not looked at: a broken symbolic link: 1" in text
    plan = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
    assert set(plan["sources"]["counters"].values()) == {1}


def test_plan_shows_groups_and_how_evenly_they_spread(project: Project, call: Call) -> None:
    for number in range(10, 15):
        (project.path / f"in/{number}.txt").write_text("more")
    project.spec["source"]["with"]["onRemoved"] = "Delete"
    project.spec["sink"] = {"use": "parquet-partitions", "with": {"by": r"in/\d"}}
    project.save()
    assert (
        "groups       declared by parquet-partitions; --list shows them"
        in call("plan", "pipeline.yaml").stdout.splitlines()
    )
    lines = call("plan", "pipeline.yaml", "--list", "--workers", "2").stdout.splitlines()
    assert lines[4:9] == [
        "sources      3 listed, 0 to be skipped",
        "groups       3 of 8 sources, declared by parquet-partitions",
        "group size   6 at most, 1 at least",
        "loads        6, 2 on 2 workers",
        "balance      the largest load is 1.50 of the mean",
    ]
    groups = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)["groups"]
    assert {key: groups[key] for key in ("total", "largest", "smallest")} == {
        "total": 3,
        "largest": 6,
        "smallest": 1,
    }
    many = call("plan", "pipeline.yaml", "--list", "--workers", "99").stdout
    assert "loads        6, 1, 1, 0, 0, 0, 0, 0, ... on 99 workers" in many


def test_groups_are_spread_over_the_minimum_of_workers(project: Project, call: Call) -> None:
    project.spec["source"]["with"]["onRemoved"] = "Delete"
    project.spec["stages"][0]["workers"] = {"max": 1}
    project.spec["sink"] = {"use": "parquet-partitions", "with": {"by": "0"}}
    project.save()
    plan = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
    assert (plan["groups"]["loads"], plan["groups"]["ratio"]) == ([3], 1.0)


def test_plan_and_run_refuse_an_oversized_group(project: Project, call: Call, run: Call) -> None:
    project.spec["source"]["with"] |= {"onRemoved": "Delete", "maxGroup": 2}
    project.spec["sink"] = {"use": "parquet-partitions", "with": {"by": "in"}}
    project.save()
    for result in (call("plan", "pipeline.yaml", "--list"), run()):
        assert result.exit_code == ExitCode.BAD_SPEC
        assert "3 sources share storage and would form one group; the limit is 2: 'in/0.txt'" in (
            result.stderr
        )
    assert project.list_outputs() == {}


HOURS = """
from strandline import Source, SourceStage

class Hours(SourceStage):
    def list_sources(self):
        for hour in range(48):
            yield Source(f"hour {hour:02}", "1", hour, {"time": hour})

    def partition_indices(self, source):
        return [f"day {source.data // 24}"]
"""


def chunk_hours(project: Project, chunk: int) -> None:
    (project.path / "hours_of_days.py").write_text(HOURS)
    project.spec["source"] = {"use": "hours_of_days:Hours", "with": {"onRemoved": "Delete"}}
    project.spec["stages"] = []
    project.spec["sink"] = {"use": "zarr", "with": {"chunk": chunk}}
    project.save()


def test_plan_suggests_a_chunk_that_avoids_a_long_chain(project: Project, call: Call) -> None:
    chunk_hours(project, 10)
    ends = "declared by hours and zarr"
    words = "48 of 48 sources form one group; with spec.sink.with.chunk: 12 the largest has 24"
    assert call("plan", "pipeline.yaml").stdout.splitlines()[4:6] == [
        f"groups       {ends}; --list shows them",
        f"chained      {words}",
    ]
    lines = call("plan", "pipeline.yaml", "--list", "--workers", "1").stdout.splitlines()
    assert [lines[5], lines[9]] == [
        f"groups       1 of 48 sources, {ends}",
        f"chained      {words}",
    ]
    assert json.loads(call("plan", "pipeline.yaml", "--json").stdout)["chained"] == {
        "largest": 48,
        "sources": 48,
        "all": True,
        "better": {"field": "spec.sink.with.chunk", "value": 12, "largest": 24},
    }


def test_plan_does_not_report_chunks_with_matching_borders(project: Project, call: Call) -> None:
    chunk_hours(project, 12)
    assert "chained" not in call("plan", "pipeline.yaml").stdout
    assert json.loads(call("plan", "pipeline.yaml", "--json").stdout)["chained"] is None


def test_plan_reports_a_chain_of_the_first_sources_without_a_suitable_chunk(
    project: Project, call: Call
) -> None:
    chunk_hours(project, 10)
    project.spec["source"]["with"]["maxGroup"] = 20  # fewer sources than a day has
    project.save()
    words = (
        "41 of the first 41 sources form one group; align the boundaries of sources and shared "
        "storage"
    )
    assert f"chained      {words}" in call("plan", "pipeline.yaml").stdout.splitlines()
    assert call("plan", "pipeline.yaml", "--list").exit_code == 64


@pytest.mark.parametrize(
    ("on_change", "sentence"),
    [
        ("Fail", "the pipeline has changed, so a run is rejected (onChange: Fail):"),
        ("Restart", "the pipeline has changed, so a run starts over (onChange: Restart):"),
        (
            "Continue",
            "the pipeline has changed; a run keeps finished sources (onChange: Continue):",
        ),
    ],
)
def test_plan_shows_the_effect_of_a_change(
    on_change: str, sentence: str, project: Project, run: Call, call: Call
) -> None:
    run()
    project.spec["stages"][0]["with"] = {"onError": "drop"}
    project.spec["onChange"] = on_change
    project.save()
    text = call("plan", "pipeline.yaml").stdout
    assert f'{sentence}\n  read-files.with.onError: "fail" -> "drop"\n' in text


def test_plan_for_scripts(project: Project, run: Call, call: Call) -> None:
    use = prepare_plan(project)
    run()
    plan = json.loads(call("plan", "pipeline.yaml", "--list", "--json").stdout)
    assert plan["output"] == str(project.folder / "output")
    counts = {"finished": 3, "failed": 0, "inflight": 0, "quarantined": 0}
    assert plan["ledger"] == {"attempt": 1, **counts}
    assert plan["sources"] == {"total": 3, "skipped": 3}
    assert (plan["changes"], plan["onChange"]) == ([], "Fail")
    assert plan["stages"][3] == {
        "name": "own",
        "use": use,
        "shape": "task",
        "fansOut": True,
        "gathers": False,
        "batchSize": 1,
        "group": None,
        "onError": "fail",
        "failsBy": "row",
        "keep": False,
        "workers": {"min": 1, "max": None},
        "chain": 3,
        "resources": {"cpu": 1.0, "gpu": 0.5, "memory": None, "custom": {}},
        "columns": {"names": [], "others": True, "without": []},
    }
    names = ["key", "format", "text"]
    assert plan["stages"][2]["columns"] == {"names": names, "others": False, "without": []}


def test_describe_fills_in_defaults_and_means_the_same(project: Project, call: Call) -> None:
    text = call("describe", "pipeline.yaml", "--set", "retry.maxDelay=2h").stdout
    document = yaml.safe_load(text)
    assert document["spec"]["source"]["with"]["followSymlinks"] is False
    assert document["spec"]["stages"][0]["name"] == "read-files"
    assert document["spec"]["retry"]["maxDelay"] == "2h"
    assert document["spec"]["retry"]["maxRetries"] == 3
    before = json.loads(call("plan", "pipeline.yaml", "--json").stdout)
    project.write(text)
    assert json.loads(call("plan", "pipeline.yaml", "--json").stdout) == before
    assert call("describe", "pipeline.yaml").stdout == text
    assert json.loads(call("describe", "pipeline.yaml", "--json").stdout) == document


def test_stages_lists_the_catalogue(call: Call) -> None:
    lines = call("stages").stdout.splitlines()
    assert lines[0].split() == ["stage", "shape", "what", "it", "does"]
    names = [line.split()[0] for line in lines[1:]]
    assert names == sorted(names)
    assert {"files", "read-files", "jsonl", "parquet"} <= set(names)
    spelled = json.loads(call("stages", "--json").stdout)
    assert [each["use"] for each in spelled] == names


def test_a_stage_is_shown_with_its_parameters(project: Project, call: Call) -> None:
    use = project.add_stage(
        '"""Does little.\n\nAnd slowly."""\n'
        "version = '7'\n"
        "class Params(Stage.Params):\n"
        "    min_words: int = 5\n"
        "    note: str | None = None\n"
        "    columns: tuple[str, ...]\n"
        "def process(self, task: Task) -> Task | list[Task] | None:\n"
        "    return task"
    )
    assert call("stages", use).stdout == (
        f"{use} (1→0|1|N, fans out, version 7)\n"
        "\nDoes little.\n\nAnd slowly.\n\nlooks at: row\n\nparameters:\n"
        "  minWords (whole number; 5)\n"
        "  note (text or null; null)\n"
        "  columns (list of text; required)\n"
    )
    assert json.loads(call("stages", use, "--json").stdout)["parameters"][0] == {
        "name": "minWords",
        "type": "whole number",
        "required": False,
        "default": 5,
        "description": "",
    }


def test_every_built_in_stage_describes_its_parameters(call: Call) -> None:
    for entry in json.loads(call("stages", "--json").stdout):
        assert entry["description"], entry["use"]
        for parameter in entry["parameters"]:
            assert parameter["description"], (entry["use"], parameter["name"])
            assert "anything" not in parameter["type"], (entry["use"], parameter["name"])


@pytest.fixture
def mixed(project: Project, run: Call) -> Project:
    """Set up sources that are finished, failed, in flight, and quarantined."""
    assert run().exit_code == 0
    store = Store(project.folder / "ledger")
    failed, inflight = digest_key("in/1.txt"), digest_key("in/2.txt")
    marks = [
        (failed, Mark("in/1.txt", b"12345678", 1, 1, False)),
        (inflight, Mark("in/2.txt", b"12345678", 1, 2, False)),
    ]
    store.write(Change(mark=marks))
    version = b"12345678"
    store.write(Change(fail=[(failed, FailureRecord("in/1.txt", 1, "own", "no", 3, version))]))
    quarantined = QuarantinedSource("in/9.txt", version, 1, "Killed", "", "gone", 3)
    store.write(Change(quarantine=[(digest_key(quarantined.key), quarantined)]))
    store.close()
    return project


def test_ledger_stats(mixed: Project, call: Call) -> None:
    facts = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    assert facts.pop("bytes") > 0
    assert facts == {
        "ledger": str(mixed.folder / "ledger"),
        "pipeline": "default/notes",
        "run": "first",
        "attempt": 1,
        "ended": True,
        "listed": 3,
        "finished": 1,
        "failed": 1,
        "inflight": 1,
        "quarantined": 1,
        **dict(zip(("files", "rows", "deadLetters"), (1, 1, 0), strict=True)),
    }
    lines = call("ledger", "stats", "pipeline.yaml").stdout.splitlines()
    assert lines[2:8] == [
        "last attempt       1",
        "last full listing  3 sources",
        "finished           1",
        "failed             1",
        "inflight           1",
        "quarantined        1",
    ]


def test_ledger_sources(mixed: Project, call: Call) -> None:
    assert mixed.list_outputs()
    assert sorted(call("ledger", "sources", "pipeline.yaml").stdout.splitlines()) == [
        "failed          1     0  in/1.txt: own: no",
        "finished        1     1  in/0.txt",
        "inflight        1     0  in/2.txt",
        "quarantined     1     0  in/9.txt: Killed: gone",
    ]
    failed = call("ledger", "sources", "pipeline.yaml", "--state", "failed", "--json").stdout
    assert json.loads(failed) == {
        "key": "in/1.txt",
        "state": "failed",
        "version": b"12345678".hex(),
        "attempt": 1,
        "outputs": [],
        "stage": "own",
        "message": "no",
        "times": 3,
        "cause": None,
    }
    limited = call("ledger", "sources", "pipeline.yaml", "--limit", "2").stdout
    assert len(limited.splitlines()) == 2


def test_ledger_export_gives_the_same_rows_in_both_formats(mixed: Project, call: Call) -> None:
    lines = call("ledger", "export", "pipeline.yaml").stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert sorted(row["state"] for row in rows) == [
        "failed",
        "finished",
        "inflight",
        "quarantined",
    ]
    result = call("ledger", "export", "pipeline.yaml", "--to", "all.parquet")
    assert result.stderr == "4 sources written to all.parquet\n"
    assert pq.read_table(mixed.path / "all.parquet").to_pylist() == rows
    call("ledger", "export", "pipeline.yaml", "--to", "some.x", "--state", "finished")
    assert json.loads((mixed.path / "some.x").read_text()) == rows[0]
    output = rows[0]["outputs"][0]
    assert len((mixed.folder / "output" / output["name"]).read_bytes()) == output["bytes"]


def test_ledger_export_to_an_unwritable_place_fails(mixed: Project, call: Call) -> None:
    result = call("ledger", "export", "pipeline.yaml", "--to", "gone/x.jsonl")
    assert "gone/x.jsonl: can't be written: No such file or directory" in read_errors(result)
    assert result.exit_code == 64
    assert not (mixed.path / "gone").exists()


def test_verify_accepts_a_good_output(project: Project, run: Call, call: Call) -> None:
    run()
    size = sum(map(len, project.list_outputs().values()))
    result = call("verify", "pipeline.yaml")
    assert result.exit_code == 0
    assert result.stdout == f"verified: 3 finished sources: 3 files, {size} bytes\n"
    assert json.loads(call("verify", "pipeline.yaml", "--json").stdout) == {
        "verified": True,
        "sources": 3,
        "outputs": 3,
        "difference": None,
        "bytes": size,
        "unfinished": 0,
        "problems": [],
        **dict.fromkeys(("pieces", "dead", "older"), 0),
    }


def test_verify_finds_changed_bytes_unless_told_to_read_none(
    project: Project, run: Call, call: Call
) -> None:
    run()
    name, content = min(project.list_outputs().items())
    (project.folder / "output" / name).write_bytes(content[::-1])
    result = call("verify", "pipeline.yaml")
    assert result.stdout.startswith("not verified, 1 problem (3 finished sources: 3 files, ")
    assert f"  changed since it was written: {name}, of source in/" in result.stdout
    assert (result.exit_code, call("verify", "pipeline.yaml", "--no-bytes").exit_code) == (65, 0)


def test_a_verdict_names_twenty_problems_and_counts_the_rest() -> None:
    lines = describe_verdict(
        VerificationResult(1, 2, 3, 4, [f"problem {number}" for number in range(23)])
    )
    assert lines[0] == (
        "not verified, 23 problems "
        "(1 finished source: 2 files, 3 bytes; 4 unfinished sources not checked)"
    )
    assert lines[1:21] == [f"  problem {number}" for number in range(20)]
    assert lines[21:] == ["  and 3 more"]


def test_version(call: Call) -> None:
    assert call("version").stdout == "strandline 0.2.0\n"
    parts = json.loads(call("version", "--json").stdout)
    assert parts["strandline"] == "0.2.0"
    assert set(parts) == {"strandline", "python", "ray", "lmdb", "pyarrow", "pydantic"}
