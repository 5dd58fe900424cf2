"""A stage that hangs in the driver's process ends the attempt. The next quarantines the source.

tests/engines/test_casualties.py has the engines that replace the worker.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import yaml

from jobs import Job
from strandline.ledger.records.entries import QuarantinedSource
from strandline.ledger.store.store import Store
from strandline.run.insight.records import read_chain
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode


def read_parked(folder: PipelineFolder) -> QuarantinedSource:
    store = Store(folder.ledger, readonly=True)
    ((_, parked),) = store.list_quarantined()
    store.close()
    return parked


def test_law_inline_the_attempt_ends_and_the_next_attempt_has_the_suspect(tmp_path: Path) -> None:
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
    job = Job(manifest, "inline", warm=("engine_stages", "hang_stages"))
    volume = tmp_path / "volume"

    with closing(job):
        codes = [job.run(volume) for _ in range(4)]

    assert codes == [1, 1, 1, ExitCode.QUARANTINE_EXCEEDED], job.read_log(volume)
    folder = job.find_folder(volume)
    assert [record.cause for record in read_chain(folder)][:3] == [Cause.TIMEOUT] * 3
    words = "stage 'hang': a task took longer than the 0.5 s that `timeout` allows: 'number-3'"
    assert words in job.read_log(volume)
    parked = read_parked(folder)
    assert (parked.key, parked.cause) == ("number-3", Cause.TIMEOUT)
    assert parked.message.startswith(f"{words}, in ")
    assert re.search(r"process_batch \(\S*hang_stages.py:\d+\)$", parked.message)
    finished = job.read_finished(volume)
    assert finished == {f"number-{number}" for number in range(10) if number != 3}
