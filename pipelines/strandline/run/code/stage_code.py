"""Adds the code and the files that stages depend on to a pipeline's fingerprint.

For users' stages, and for functions that parameters name, the fingerprint covers their modules, all
imported modules, and the files that parameters name. For all stages, the fingerprint covers the
weights that their models refer to. Only the driver calls this module, because it has the code; an
operator never reads code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from strandline.plan.fingerprint import MODULE_NAME, add_code
from strandline.plan.pipeline import PipelinePlan
from strandline.run.code.weight_files import WEIGHTS


def fingerprint_code(plan: PipelinePlan) -> PipelinePlan:
    """Return a plan whose fingerprint includes the code of its stages.

    If all stages are built in, the plan is returned unchanged. A new release of Strandline thus
    repeats no work unless a stage's version changes.
    """
    stages = (plan.source, *plan.stages)
    parts = plan.fingerprint.parts
    texts = {stage.name: dict(list_texts(parts, f"{stage.name}.with")) for stage in stages}
    read = [stage for stage in stages if stage.is_foreign or _names_code(texts[stage.name])]
    if not read:
        return plan
    # Most pipelines return above and need not load the modules that read code.
    from strandline.run.code.code_reader import CodeReader  # noqa: PLC0415

    reader = CodeReader()
    found = {stage.name: reader.read(stage, texts[stage.name]) for stage in read}
    codes = {name: code.digests for name, code in found.items() if code is not None}
    unread = [f"{name}: {each}" for name, code in found.items() if code for each in code.unread]
    return replace(plan, fingerprint=add_code(plan.fingerprint, codes, unread))


def list_texts(parts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the string parameters of a stage, by path."""
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
    """Return True if a parameter may name a function, or a model with separate weights."""
    return any(MODULE_NAME.fullmatch(text) or text.endswith(WEIGHTS) for text in texts.values())
