"""`strandline ledger move-outputs`, and what other commands report about moved outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_project import Call, Project, read_errors


def go_to(project: Project, place: str) -> None:
    project.spec["sink"]["with"] = {"path": place}
    project.save()


@pytest.fixture
def elsewhere(project: Project, run: Call) -> Project:
    """Return a pipeline whose outputs are in `old`, and whose manifest names `new`."""
    go_to(project, "old")
    assert run().exit_code == 0
    go_to(project, "new")
    return project


def test_a_run_with_a_new_place_is_refused_until_outputs_are_moved(
    elsewhere: Project, call: Call, run: Call
) -> None:
    result = run()
    assert result.exit_code == 65
    assert read_errors(result) == (
        f"the pipeline is not the one that wrote this ledger:\n  outputs: {elsewhere.path}/old -> "
        f"{elsewhere.path}/new\nset onChange to Redo to process finished sources again, to Restart "
        "to start over, or to Continue to keep finished sources\nif you have moved the outputs "
        "there, run `strandline ledger move-outputs`\nfor example: `strandline run pipeline.yaml "
        "--set onChange=Continue`"
    )
    Path("old").rename("new")
    result = call("ledger", "move-outputs", "pipeline.yaml")
    assert (0, "") == (result.exit_code, result.stderr)
    first, last = result.stdout.splitlines()
    assert first.startswith("verified: 3 finished sources: 3 files, ")
    assert f"the outputs are at {elsewhere.path}/new, no longer at {elsewhere.path}/old" == last
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0


def test_missing_outputs_are_listed_and_the_move_is_refused(
    elsewhere: Project, call: Call, run: Call
) -> None:
    result = call("ledger", "move-outputs", "pipeline.yaml")
    assert (65, "") == (result.exit_code, result.stderr)
    first, *_, last = result.stdout.splitlines()
    assert first.startswith("not verified, 3 problems")
    assert f"the ledger is unchanged; its outputs are at {elsewhere.path}/old" == last
    told = json.loads(call("ledger", "move-outputs", "pipeline.yaml", "--json").stdout)
    assert (told["moved"], told["from"], len(told["problems"])) == (
        False,
        f"{elsewhere.path}/old",
        3,
    )
    assert run().exit_code == 65


def test_an_unnecessary_move_is_reported(project: Project, call: Call, run: Call) -> None:
    assert run().exit_code == 0
    result = call("ledger", "move-outputs", "pipeline.yaml")
    assert result.exit_code == 0
    assert f"the outputs are at {project.folder}/output" == result.stdout.splitlines()[-1]


def test_a_move_needs_a_ledger(project: Project, call: Call) -> None:
    result = call("ledger", "move-outputs", "pipeline.yaml")
    assert result.exit_code == 65
    assert "there is no ledger here" in read_errors(result)
    assert not project.folder.exists()


def test_a_change_of_more_than_the_place_is_refused(
    project: Project, call: Call, run: Call
) -> None:
    assert run().exit_code == 0
    result = call("ledger", "move-outputs", "pipeline.yaml", "--set", "sink.use=parquet")
    assert result.exit_code == 65
    assert read_errors(result).startswith("the pipeline has other changes too:\n")


def test_verify_does_not_judge_another_place(elsewhere: Project, call: Call) -> None:
    result = call("verify", "pipeline.yaml")
    assert result.exit_code == 65
    assert read_errors(result) == (
        f"the outputs of this ledger are at {elsewhere.path}/old, but the pipeline names "
        f"{elsewhere.path}/new; if you have moved them, run `strandline ledger move-outputs`"
    )


def test_plan_reports_a_changed_place(elsewhere: Project, call: Call) -> None:
    said = call("plan", "pipeline.yaml").stdout
    assert f"outputs: {elsewhere.path}/old -> {elsewhere.path}/new" in said
    assert f"output       {elsewhere.path}/new" in said


def test_a_place_of_another_pipeline_is_refused_until_taken(
    project: Project, call: Call, run: Call
) -> None:
    go_to(project, "out")
    assert run().exit_code == 0
    project.document["metadata"]["name"] = "others"
    project.save()
    result = run()
    assert result.exit_code == 64
    assert read_errors(result).startswith(
        f"the outputs at {project.path}/out belong to default/notes (ledger "
    )
    said = call("ledger", "own-outputs", "pipeline.yaml")
    assert (0, "") == (said.exit_code, said.stderr)
    assert said.stdout.startswith(
        f"{project.path}/out is this ledger's, no longer default/notes (ledger "
    )
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0
    told = json.loads(call("ledger", "own-outputs", "pipeline.yaml", "--json").stdout)
    assert {"place": f"{project.path}/out", "former": None} == told


def test_taking_a_place_needs_a_ledger(project: Project, call: Call) -> None:
    result = call("ledger", "own-outputs", "pipeline.yaml")
    assert result.exit_code == 65
    assert "there is no ledger here" in read_errors(result)
    assert not project.folder.exists()
