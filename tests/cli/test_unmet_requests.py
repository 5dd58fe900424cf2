"""`run`, `plan`, and `doctor` report a pipeline that requests more than this machine has."""

from __future__ import annotations

import json

from cli_project import Call, Project

HINT = "request less, or run on a larger cluster with --address"
ASKED = "spec.stages[0].resources.custom.nvdec: stage 'read-files' requests 2 nvdec per worker"
LACKS = f"{ASKED}, but there is no nvdec"


def ask_for_decoders(project: Project) -> None:
    project.spec["stages"][0]["resources"] = {"custom": {"nvdec": 2}}
    project.save()


def test_a_run_is_refused_before_anything_is_begun(project: Project) -> None:
    ask_for_decoders(project)
    result = project.execute("run")
    assert (64, "") == (result.returncode, result.stdout)
    assert result.stderr == f"strandline: error: {LACKS}; {HINT}\n"
    assert not (project.folder / "attempts").exists()


def test_more_cpus_than_the_local_ray_may_have_are_refused(project: Project) -> None:
    project.spec["stages"][1]["resources"] = {"cpu": 4}
    project.save()
    result = project.execute("run", "--workers", "3")
    assert 64 == result.returncode
    assert "'parse-documents' requests 4 CPU per worker, but there are 3 CPU; " in result.stderr


def test_an_engine_that_reserves_nothing_refuses_nothing(project: Project, run: Call) -> None:
    ask_for_decoders(project)
    assert 0 == run().exit_code


def test_a_plan_reports_that_a_run_here_would_be_refused(project: Project, call: Call) -> None:
    assert [] == json.loads(call("plan", "pipeline.yaml", "--json").stdout)["refused"]
    ask_for_decoders(project)
    assert [f"{LACKS}; {HINT}"] == json.loads(call("plan", "pipeline.yaml", "--json").stdout)[
        "refused"
    ]
    last = call("plan", "pipeline.yaml").stdout.splitlines()[-1]
    assert last == f"not possible on this machine: {LACKS}; {HINT}"


def test_doctor_reports_that_a_run_here_would_be_refused(project: Project, call: Call) -> None:
    ask_for_decoders(project)
    result = call("doctor", "--quick", "pipeline.yaml", "--json")
    (found,) = (
        line for line in map(json.loads, result.stdout.splitlines()) if line["name"] == "requests"
    )
    assert ("problem", LACKS, HINT) == (found["level"], found["found"], found["advice"])
    assert 1 == result.exit_code
