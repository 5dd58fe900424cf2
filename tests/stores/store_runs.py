"""Runs of a small pipeline on a store, each in a process with the store's variables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from command_server import find_server
from store_server import Store as Server
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import NO_OUTPUTS

COUNT = 12
NAME = "lines"
STAGES = '''
"""Notes which sources it is given, and takes as long over each as two commits of the ledger."""

import os
import time
from pathlib import Path
from typing import Any

from strandline import Stage


class Note(Stage):
    def process(self, task):
        with Path(os.environ["OPENED_LOG"]).open("a") as file:
            file.write(f"{task.key}\\n")
        time.sleep(0.1)
        return task
'''


def execute_on_stores(*words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a `strandline` command as a fork of a process that has loaded the stores' clients."""
    server = find_server("s3fs", "gcsfs", "adlfs")
    return server.execute([sys.executable, "-m", "strandline", *words], **settings)


class StoreRuns:
    """A bucket with sources, and a manifest for a pipeline over the sources.

    Args:
        folder: folder for the manifest, volumes, and stages.
    """

    def __init__(self, store: Server, bucket: str, folder: Path) -> None:
        self.files: Any = store.open()
        self.bucket = bucket
        self.url = f"{store.protocol}://{bucket}"
        self._store = store
        self._folder = folder
        self.files.mkdir(bucket)
        for number in range(COUNT):
            rows = "".join(f'{{"id": {number}, "row": {row}}}\n' for row in range(number + 1))
            self.files.pipe_file(f"{bucket}/in/{number:02}.jsonl", rows.encode())
        (folder / "noting.py").write_text(STAGES)
        self.opened = folder / "opened.log"

    def run(
        self, *words: str, output: str, extra: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a `strandline` command on the manifest, with a prefix for the output."""
        at = 2 if words[0] == "kept" else 1  # `kept` has a subcommand
        words = (*words[:at], self._write(output), *words[at:])
        environment = self._make_environment() | dict(extra or {})
        return execute_on_stores(*words, env=environment, cwd=self._folder)

    def read_outputs(self, output: str) -> dict[str, bytes]:
        """Return all output objects by name."""
        root = f"{self.bucket}/{output}"
        self.files.invalidate_cache()
        return {
            path.removeprefix(root): self.files.cat_file(path)
            for path in self.files.find(root)
            if path.rpartition("/")[2] not in NO_OUTPUTS
        }

    def read_finished(self, volume: Path) -> set[str]:
        """Return the keys of finished sources in a volume's ledger."""
        store = Store(PipelineFolder.on_volume(volume, "default", NAME).ledger, readonly=True)
        try:
            return {record.key for _, _, record in store.list_records()}
        finally:
            store.close()

    def take_opened(self) -> list[str]:
        """Return the sources opened since the previous call."""
        lines = self.opened.read_text().split() if self.opened.exists() else []
        self.opened.unlink(missing_ok=True)
        return lines

    def _write(self, output: str) -> str:
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": NAME},
            "spec": {
                "source": {
                    "use": "jsonl-files",
                    "with": {"paths": [f"{self.url}/in/*.jsonl"]},
                },
                "stages": [{"use": "noting:Note"}, {"use": "read-jsonl"}],
                "sink": {"use": "jsonl"},
                "storage": {"output": {"url": f"{self.url}/{output}"}},
            },
        }
        path = self._folder / f"{output}.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def _make_environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self._folder), os.environ.get("PYTHONPATH", "")])
        return {
            **os.environ,
            **self._store.variables,
            "PYTHONPATH": path,
            "OPENED_LOG": str(self.opened),
        }
