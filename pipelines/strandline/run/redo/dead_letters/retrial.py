"""Another try of dead letters: the stages from theirs on, over rows that died and no others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from strandline.engine.core.ports import Listing
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.stage import Source
from strandline.run.redo.dead_letters.counts import list_dead_letter_files
from strandline.run.redo.dead_letters.rows import ReadDeadLetters

READING = "read-dead-letters"


def plan_retrial(plan: PipelinePlan, stage: str) -> PipelinePlan:
    """Return the plan of another try, over dead letters of a stage."""
    names = [each.name for each in plan.stages]
    reading = StagePlan(READING, READING, ReadDeadLetters())
    stages = (reading, *plan.stages[names.index(stage) :])
    return replace(plan, stages=tuple(mark_streaming(stages)))


def list_retried(store: Store, location: str, stage: str) -> Listing:
    """Return the sources that have dead letters of a stage, each with where these lie.

    Args:
        location: folder or URL of the outputs.
    """
    files: dict[str, list[tuple[str, str]]] = {}
    for file in list_dead_letter_files(store):
        if file.stage == stage:
            letters = file.output.token.hex(), file.locate(location)
            files.setdefault(file.key, []).append(letters)
    return Listing(_list_sources(files), is_whole=lambda: False)


def _list_sources(files: dict[str, list[tuple[str, str]]]) -> Iterator[Source]:
    for key, letters in files.items():
        # The version names the letters, so what comes of them is called like nothing before it.
        version = "dead letters " + " ".join(sorted(token for token, _ in letters))
        yield Source(key, version, [path for _, path in letters])
