"""`strandline gather`, `verify`, and views, for a pipeline with a stage that gathers statistics."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from cli_project import Call, Project
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.storage.volume.locks import find_process, read_boot_id

OWN = '''
import json
from collections.abc import Sequence
from pathlib import Path

from strandline import StatefulFilter, Task


class CountRows(StatefulFilter):
    """Counts rows."""

    rows = 0

    def process(self, task: Task) -> Task:
        self.rows += task.num_rows
        return task

    def flush(self) -> bytes | None:
        rows, self.rows = self.rows, 0
        return str(rows).encode() if rows else None

    @staticmethod
    def merge(paths: Sequence[Path], out: Path) -> None:
        out.write_text(str(sum(int(path.read_text()) for path in paths)))
'''


@pytest.fixture
def gathering(project: Project) -> Project:
    """Return the project with a stage that counts rows."""
    project.write(OWN, "rows_of_all.py")
    project.spec["stages"].append({"use": "rows_of_all:CountRows"})
    project.save()
    return project


def test_a_run_gathers_automatically(gathering: Project, run: Call, call: Call) -> None:
    assert 0 == run().exit_code
    latest = call("latest", "pipeline.yaml").stdout.strip()
    assert "3" == Path(latest, "artifacts/count-rows.merged").read_text()
    result = call("gather", "pipeline.yaml")
    assert (0, f"count-rows: 3 pieces\n{latest}\n") == (result.exit_code, result.stdout)
    assert {"pieces": {"count-rows": 3}, "published": False, "latest": latest} == json.loads(
        call("gather", "pipeline.yaml", "--json").stdout
    )


def test_a_pipeline_without_gathering_stages_is_reported(
    project: Project, run: Call, call: Call
) -> None:
    run()
    result = call("gather", "pipeline.yaml")
    assert (0, "no stage has gathered anything\n") == (result.exit_code, result.stdout)
    assert not (project.folder / "shards").exists()


def test_without_a_ledger_there_is_nothing_to_gather(gathering: Project, call: Call) -> None:
    result = call("gather", "pipeline.yaml")
    assert 65 == result.exit_code
    assert "there is no ledger here" in result.stderr


def test_gathering_is_refused_while_a_driver_lives(
    gathering: Project, run: Call, call: Call
) -> None:
    run()
    init = find_process(1)  # a process that is certainly running
    assert init is not None
    with closing(Store(gathering.folder / "ledger")) as store:
        lease = store.read_meta("lease") | {"pid": 1, "started": init.started, "ended": False}
        store.write(Change(meta={"lease": lease | {"boot": read_boot_id()}}))

    result = call("gather", "pipeline.yaml")

    assert (69, "") == (result.exit_code, result.stdout)
    assert "attempt 1 is still running as process 1; stop it first" in result.stderr


def test_verify_checks_gathered_data(gathering: Project, run: Call, call: Call) -> None:
    run()
    assert "; 3 gathered pieces\n" in call("verify", "pipeline.yaml").stdout
    (pack,) = (gathering.folder / "shards").glob("*.pack")
    content = pack.read_bytes()
    pack.write_bytes(content[:-1] + b"9")
    assert 0 == call("verify", "pipeline.yaml", "--no-bytes").exit_code
    result = call("verify", "pipeline.yaml")
    assert (65, 1) == (result.exit_code, result.stdout.count("changed since it was written"))
    pack.unlink()
    assert 65 == call("verify", "pipeline.yaml", "--no-bytes").exit_code


def test_views_show_which_stages_gather(gathering: Project, call: Call) -> None:
    lines = call("plan", "pipeline.yaml").stdout.splitlines()
    head = next(line for line in lines if line.startswith("stage"))
    row = next(line for line in lines if line.startswith("count-rows"))
    assert "yes" == row[head.index("gathers") :].split()[0]
    stages = json.loads(call("plan", "pipeline.yaml", "--json").stdout)["stages"]
    assert ["count-rows"] == [stage["name"] for stage in stages if stage["gathers"]]
    text = call("stages", "rows_of_all:CountRows").stdout
    assert text.startswith("rows_of_all:CountRows (1→0|1|N, gathers, version 1)")


def test_a_pipeline_without_gathering_stages_has_no_such_column(
    project: Project, call: Call
) -> None:
    assert "gathers" not in call("plan", "pipeline.yaml").stdout


def test_manually_gathered_data_is_not_released_to_readers(
    gathering: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    gathering.spec["publish"] = {"require": {"rows": {"min": 3}}}
    gathering.save()
    assert run().exit_code == 0
    latest = call("latest", "pipeline.yaml").stdout
    for path in sorted(gathering.folder.glob("attempts/*/p*/artifacts/*")):
        path.unlink()  # so `gather` must publish again
    assert call("latest", "pipeline.yaml").exit_code == 1
    gathered = json.loads(call("gather", "pipeline.yaml", "--json").stdout)
    assert gathered["published"] is True
    # The publication is complete, but readers get it only after a run has checked the requirements.
    assert call("latest", "pipeline.yaml").exit_code == 1
    assert run().exit_code == 0
    assert call("latest", "pipeline.yaml").stdout not in {"", latest}
