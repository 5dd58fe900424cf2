"""What stages are made of besides their parameters, as parts of a pipeline's fingerprint.

For stages that are not Strandline's, and for functions that parameters name: the modules with all
that they import, and files that parameters name; for every stage, weights that a model refers to.
The driver calls it, where the code is; an operator never sees any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from strandline.plan.fingerprint import add_code
from strandline.plan.pipeline import PipelinePlan, StagePlan

WEIGHTS = (".onnx", ".index.json")  # suffixes of models that may refer to other files
MODULE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # `module:name`
_OURS = frozenset({"strandline", "strandline_api"})


def fingerprint_code(plan: PipelinePlan) -> PipelinePlan:
    """Return a plan with the code of its stages in its fingerprint.

    A pipeline of Strandline's own stages is returned as it is: a new release redoes nothing, unless
    a stage's version changes.
    """
    stages = (plan.source, *plan.stages)
    parts = plan.fingerprint.parts
    texts = {stage.name: dict(list_texts(parts, f"{stage.name}.with")) for stage in stages}
    read = [stage for stage in stages if is_foreign(stage) or _names_code(texts[stage.name])]
    if not read:
        return plan
    # Most pipelines end above: they do not load what reads code.
    from strandline.run.code.code_reader import CodeReader  # noqa: PLC0415

    reader = CodeReader()
    found = {stage.name: reader.read(stage, texts[stage.name]) for stage in read}
    codes = {name: code.digests for name, code in found.items() if code is not None}
    unread = [f"{name}: {each}" for name, code in found.items() if code for each in code.unread]
    return replace(plan, fingerprint=add_code(plan.fingerprint, codes, unread))


def is_foreign(plan: StagePlan) -> bool:
    """Return whether a stage's work is not Strandline's: it has a class of its own, or a step's."""
    return ":" in plan.use or type(plan.stage).__module__.partition(".")[0] not in _OURS


def list_texts(parts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the texts among the parameters of a stage, by path."""
    for path, value in parts.items():
        if path.startswith(f"{prefix}."):
            yield from _list_in(path, value)


def _list_in(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _list_in(f"{path}[{index}]", each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _list_in(f"{path}.{key}", each)


def _names_code(texts: Mapping[str, str]) -> bool:
    """Return whether a parameter may name a function, or a model with weights beside it."""
    return any(MODULE.fullmatch(text) or text.endswith(WEIGHTS) for text in texts.values())
