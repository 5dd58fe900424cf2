"""The ledger's process removes outputs, so a takeover must wait for the end of this process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from strandline.ledger.store.store import Store
from strandline.storage.volume.locks import hold_exclusive

ORPHAN = """
import sys
from pathlib import Path
from strandline.engine.ray.ledger_actor import LedgerActor
from strandline.ledger.location import LedgerLocation
from strandline.storage.outputs.ports import OutputLocation

folder = Path(sys.argv[1])
outputs = OutputLocation(str(folder / "out"), writers_lock=folder / "writers.lock")
actor = LedgerActor(LedgerLocation(folder / "ledger", 1, "a", outputs, False, 3))
print("ready", flush=True)
input()
"""


@pytest.mark.slow
def test_a_takeover_waits_for_an_orphan_and_ends_it(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "ledger")) as store:
        store.take_lease({"attempt": 1, "uid": "a"})
    orphan = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert orphan.stdout is not None
        assert "ready\n" == orphan.stdout.readline()
        with hold_exclusive(tmp_path / "writers.lock", 0.1) as ended:
            assert [orphan.pid] == [process.pid for process in ended]
        assert -9 == orphan.wait(60)
    finally:
        orphan.kill()
        orphan.communicate()
