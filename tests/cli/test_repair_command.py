"""After `strandline repair`, the next run fixes the problems that `verify` finds."""

from __future__ import annotations

import json
import shlex

from cli_project import Call, Project


def test_one_command_and_a_run_repair_problems_found_by_verify(
    project: Project, run: Call, call: Call
) -> None:
    assert run().exit_code == 0
    before = project.list_outputs()
    (project.folder / "output" / min(before)).unlink()
    found = call("verify", "pipeline.yaml", "--volume", str(project.folder.parents[1]))
    assert found.exit_code == 65
    told = call(*shlex.split(found.stdout.rpartition("strandline ")[2]), "--dry-run")
    assert told.exit_code == 0
    told = call("repair", "pipeline.yaml", "--dry-run")
    assert told.exit_code == 0
    assert told.stdout.splitlines()[0] == "1 source would be processed again by the next run:"
    assert call("verify", "pipeline.yaml").exit_code == 65
    done = json.loads(call("repair", "pipeline.yaml", "--json").stdout)
    assert (len(done["again"]), done["removed"], done["foreign"]) == (1, 0, [])
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0
    assert project.list_outputs() == before
    assert call("repair", "pipeline.yaml").stdout == "nothing to repair\n"


def test_a_run_restores_missing_outputs_on_request(project: Project, run: Call, call: Call) -> None:
    assert run().exit_code == 0
    before = project.list_outputs()
    (project.folder / "output" / min(before)).unlink()
    again = project.execute("run", "--engine", "inline")
    assert "nothing left to do" in again.stdout
    warning = "1 of 3 checked output files are missing; a run with `--missing` restores all"
    assert warning in again.stdout + again.stderr
    done = project.execute("run", "--engine", "inline", "--missing")
    assert (done.returncode, project.list_outputs()) == (0, before), done
    assert call("verify", "pipeline.yaml").exit_code == 0
    *_, last = call("attempts", "pipeline.yaml", "--json").stdout.splitlines()
    assert json.loads(last)["trigger"] == "Repair"
