"""A stage that hangs: its worker is replaced, or its attempt ends, and who did it is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hang_stages import Hang
from jobs import Job
from strandline.ledger.entries import Quarantined
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.history.records import read_chain
from strandline.storage.layout import PipelineFolder
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Quarantine
from test_engines import make_plan

pytestmark = pytest.mark.usefixtures("local_ray")


def make_hanging(batch_size: int = 1) -> PipelinePlan:
    plan = make_plan()
    hang = StagePlan("hang", "hang", Hang(), cpu=0.1, batch_size=batch_size, timeout=0.5)
    return check_plan("default", "hanging", plan.source, [hang, plan.stages[-1]])


def read_parked(folder: PipelineFolder) -> Quarantined:
    store = Store(folder.ledger, readonly=True)
    ((_, parked),) = store.list_quarantined()
    store.close()
    return parked


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_law_a_source_that_hangs_fails_alone_and_its_cause_is_known(
    engine: str, batch_size: int, tmp_path: Path
) -> None:
    quarantine = Quarantine.model_validate({"after": 1, "tolerate": 1})
    plan = make_hanging(batch_size)

    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine=engine, quarantine=quarantine))

    assert outcome.code is ExitCode.COMPLETE
    assert (outcome.standing.finished, outcome.standing.quarantined) == (9, 1)
    assert all(" was replaced while it worked on " in incident for incident in outcome.incidents)
    parked = read_parked(PipelineFolder.of(tmp_path, "default", "hanging"))
    assert (parked.key, parked.stage, parked.cause) == ("number-3", "hang", Cause.TIMEOUT)
    assert "lost 3 workers; the last: a task took longer than the 0.5 s" in parked.message


def test_an_engine_that_can_not_replace_a_worker_refuses(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"spec.stages\[0\].timeout: the engine ray-data can't"):
        run_attempt(AttemptConfig(make_hanging(), tmp_path, engine="ray-data"))


def test_law_inline_the_attempt_ends_and_the_next_one_knows_the_suspect(tmp_path: Path) -> None:
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "hanging"},
        "spec": {
            "source": {"use": "engine_stages:Numbers"},
            "stages": [{"use": "hang_stages:Hang", "timeout": "500ms"}],
            "sink": {"use": "engine_stages:TextSink"},
        },
    }
    manifest = tmp_path / "hanging.yaml"
    manifest.write_text(yaml.safe_dump(document))
    job, volume = Job(manifest, "inline"), tmp_path / "volume"

    codes = [job.run(volume) for _ in range(4)]

    assert codes == [1, 1, 1, ExitCode.QUARANTINE_EXCEEDED], job.read_log(volume)
    folder = job.find_folder(volume)
    assert [record.cause for record in read_chain(folder)][:3] == [Cause.TIMEOUT] * 3
    words = "stage 'hang': a task took longer than the 0.5 s that `timeout` leaves it: 'number-3'"
    assert words in job.read_log(volume)
    parked = read_parked(folder)
    assert (parked.key, parked.cause, parked.message) == ("number-3", Cause.TIMEOUT, words)
    finished = job.read_finished(volume)
    assert finished == {f"number-{number}" for number in range(10) if number != 3}
