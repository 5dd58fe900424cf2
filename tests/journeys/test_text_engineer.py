"""A user's corpus is in an object store, and the machine is lost in mid-run."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_server import start_command
from journey import Journey
from store_server import Store, require_server, serve

# These tests need a program built from Go. In the first tier,
# tests/docs/test_pretraining_example.py kills runs that the next run completes.
pytestmark = pytest.mark.more
SOURCES, ROWS = 30, 20
PIPELINE = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: corpus}
spec:
  source:
    use: jsonl-files
    with: {paths: ["s3://corpus/in/*.jsonl.gz"]}
  stages:
    - use: read-jsonl
    - use: normalise-text
    - use: redact-pii
  sink:
    use: parquet
  storage:
    output: {url: "s3://corpus/out"}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with serve(require_server(), tmp_path_factory.mktemp("s3")) as server:
        yield server


def test_a_killed_run_resumes_in_the_store(store: Store, tmp_path: Path) -> None:
    user = Journey(tmp_path, store.variables)
    files = store.open()
    files.mkdir("corpus")
    for source in range(SOURCES):
        texts = (f"Mail me at user{row}@example.com about {source}." for row in range(ROWS))
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        files.pipe_file(f"corpus/in/{source:03}.jsonl.gz", gzip.compress(lines.encode()))
    user.write("pipeline.yaml", PIPELINE)
    assert user.strandline("validate", "pipeline.yaml").code == 0

    def has_output() -> bool:
        files.invalidate_cache()
        return bool(files.glob("corpus/out/*/*/*.parquet"))

    _kill_at_the_first_result(user, has_output)
    said = user.strandline("run", "pipeline.yaml")

    assert said.code == 0, said
    files.invalidate_cache()
    assert len(files.glob("corpus/out/*/*/*.parquet")) == SOURCES
    assert user.strandline("verify", "pipeline.yaml").code == 0


def _kill_at_the_first_result(user: Journey, has_output: object) -> None:
    assert callable(has_output)
    command = [sys.executable, "-m", "strandline", "run", "pipeline.yaml"]
    begun = time.monotonic()
    with start_command(
        command,
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while process.poll() is None and not has_output():
            time.sleep(0.05)
        sys.stdout.write(f"first result in the store: {time.monotonic() - begun:.1f} s\n")
        process.send_signal(signal.SIGKILL)
