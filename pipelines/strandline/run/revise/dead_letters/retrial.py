"""Retries dead letters: runs their stage and the later stages on the failed rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from strandline.engine.core.ports import Ending, Listing
from strandline.ledger.checks.completeness import find_gaps
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.store.recipes import read_changes
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import mark_streaming
from strandline.plan.receipt import READ_DEAD_LETTERS
from strandline.plan.stages.ends import Source
from strandline.run.revise.dead_letters.counts import list_dead_letter_files
from strandline.run.revise.dead_letters.rows import ReadDeadLetters


def plan_retrial(plan: PipelinePlan, stage: str) -> PipelinePlan:
    """Return the plan of a retrial for dead letters of a stage."""
    names = [each.name for each in plan.stages]
    reading = StagePlan(READ_DEAD_LETTERS, READ_DEAD_LETTERS, ReadDeadLetters())
    # `is_first` would count the rows of a source as pipeline input a second time.
    again = (replace(each, is_first=False) for each in plan.stages[names.index(stage) :])
    stages = (reading, *again)
    return replace(plan, stages=tuple(mark_streaming(stages)))


def list_retried(
    store: Store, location: str, stage: str, note: Callable[[str], None], *, mixes: bool
) -> Listing:
    """Return a listing of the sources that have dead letters of a stage, with their file paths.

    Args:
        location: folder or URL of the outputs.
        note: receives a sentence about sources that are left out.
        mixes: also list sources of an older recipe, whose outputs then mix both recipes.
    """
    changes = None if mixes else read_changes(store)
    files: dict[str, list[tuple[str, str]]] = {}
    older = set()
    for file in list_dead_letter_files(store):
        if file.stage != stage:
            continue
        if changes is not None and changes.find_first(file.attempt) is not None:
            older.add(file.key)
            continue
        letters = file.output.token.hex(), file.locate(location)
        files.setdefault(file.key, []).append(letters)
    if older:
        note(
            f"dead letters of {len(older)} sources are unchanged because the sources were made "
            "with an older recipe; a run with onChange: Redo processes these sources again"
        )
    # Declare the listing as incomplete, so that sources missing in it do not count as removed.
    return Listing(_list_sources(files), is_whole=lambda: False)


def widen_ending(ending: Ending, store: Store) -> Ending:
    """Extend the ending of a retrial with the counts of all sources in the ledger.

    The attempt itself has processed only a few of them.
    """
    own, gaps = ending.standing, find_gaps(store)
    failed, unfinished = gaps.failed + own.failed, gaps.unfinished + own.unfinished
    finished, listed = count_sources(store)["finished"], store.read_meta("listed")
    standing = own._replace(
        failed=failed,
        unfinished=unfinished,
        quarantined=gaps.quarantined,
        skipped=finished - own.finished - own.failed - own.unfinished,
    )
    is_listed = ending.is_listed and gaps.is_listed
    if is_listed and listed is not None:
        rest = own.finished + failed + unfinished + gaps.quarantined
        standing = standing._replace(skipped=max(0, listed - rest))
    return ending._replace(standing=standing, is_listed=is_listed, listed=listed or finished)


def _list_sources(files: dict[str, list[tuple[str, str]]]) -> Iterator[Source]:
    for key, letters in files.items():
        # Include the tokens of the letters in the version, because the names of new outputs depend
        # on the version and must differ from all earlier names.
        version = "dead letters " + " ".join(sorted(token for token, _ in letters))
        yield Source(key, version, [path for _, path in letters])
