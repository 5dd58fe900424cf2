"""Writes user modules for tests, and makes the fingerprint of a pipeline that uses the modules."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from strandline import Pipeline, Stage
from strandline.plan.fingerprint import Fingerprint, describe_difference, find_first_change
from strandline.plan.stages.registry import find_stage
from strandline.run.code.stage_code import fingerprint_code

numbers = itertools.count()
STAGE = """
from pathlib import Path
from strandline import Params, Stage, Task


class Own(Stage):
    class Params(Params):
        prompt: str = "text"
        lists: tuple[Path, ...] = ()
        cache: str = ""

    params: Params
    not_fingerprinted = frozenset({"cache"})

    def process(self, task: Task) -> Task:
        return task
"""


class Code:
    """A folder of importable user modules.

    Attributes:
        top: name for a module or a package, which no other test uses.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = f"own_code_{next(numbers)}"

    def write(self, name: str, text: str, root: Path | None = None) -> Path:
        """Write a file below the folder, replacing `top` with the unique name."""
        path = (root or self.root) / name.replace("top", self.top)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("top", self.top))
        return path

    def fingerprint(self, module: str = "top", kind: str = "Own", **values: Any) -> Fingerprint:
        """Return the fingerprint of a pipeline with a stage from a module."""
        found = importlib.import_module(module.replace("top", self.top))
        stage = getattr(found, kind)(**values)
        return read_fingerprint(stage, f"{found.__name__}:{kind}")

    def describe(self, old: Fingerprint, new: Fingerprint) -> list[str]:
        """Describe the differences of two fingerprints, with `top` in place of the unique name."""
        assert (old.digest == new.digest) == (old.parts == new.parts)
        lines = describe_difference(old.parts, new.parts)
        first = find_first_change(old.parts, new.parts)
        assert bool(lines) == (first is not None)
        return [line.replace(self.top, "top") for line in lines]


def read_fingerprint(stage: Stage, use: str | None = None) -> Fingerprint:
    """Return the fingerprint of a pipeline with a stage.

    Args:
        use: how a manifest names the stage's class.
    """
    plan = make_pipeline(stage).plan
    *above, own, sink = plan.stages
    named = own if use is None else replace(own, use=use)
    return fingerprint_code(replace(plan, stages=(*above, named, sink))).fingerprint


def make_pipeline(stage: Stage) -> Pipeline:
    """Return a pipeline over the folder `in` with the given stage before the sink."""
    source, sink = find_stage("files")(paths=("in/*",)), find_stage("jsonl")()
    stages = [find_stage("read-files")(), find_stage("parse-documents")(), stage]
    return Pipeline("own", source=source, stages=stages, sink=sink)
