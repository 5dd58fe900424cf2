"""Wraps the stages of an example, so that other engines can run the unmodified example."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from strandline.engine.call.setup import set_up_stage
from strandline.engine.call.stage.stage_call import StageCall
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_bench.engines.work.works import Items


class ExampleStage:
    """An unmodified stage of an example. Its items are tasks, and the sink writes files.

    Args:
        manifest: manifest of the example.
        settings: overrides of the manifest.
        index: index of the stage.
        output: folder of the sink.
    """

    def __init__(self, manifest: Path, settings: tuple[str, ...], index: int, output: Path) -> None:
        self._given = (manifest, settings, index, output)
        self._call: StageCall | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ExampleStage, self._given

    def __call__(self, items: Items) -> Items:
        if self._call is None:  # in the worker, on the first call
            manifest, settings, index, output = self._given
            plan = read_manifest(manifest, settings).plan.stages[index]
            outputs = LocalOutputs(output, f"bench-{time.monotonic_ns()}")
            self._call = StageCall(set_up_stage(plan), outputs, time.perf_counter)
        data, receipt = self._call.run(items)
        if receipt.failures:
            raise RuntimeError(receipt.failures[0].message)
        return data
