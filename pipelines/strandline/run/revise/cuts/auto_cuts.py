"""Chooses cuts for a pipeline by a trial with its first sources, and records the choice.

The choice stays until the pipeline changes. `choice` decides how much a cut is worth. This module
must not depend on engines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import Any, NamedTuple

from strandline.engine.call.stage.cuts import digest_nothing
from strandline.engine.core.odd_sources import identify
from strandline.engine.core.ports import ADMIT_BATCH, Ending, Listing
from strandline.ledger.location import Trial
from strandline.ledger.output_root import clean_up
from strandline.ledger.records.entries import Change, measure_cuts
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.planning import list_uncuttable
from strandline.plan.stages.ends import Source
from strandline.run.insight.samples import measure_stages
from strandline.run.revise.cuts.choice import ConsideredCut, CutMeasure, CutVerdict, choose_cuts
from strandline.run.revise.cuts.files import measure_all_cuts, prune_cuts, prune_space
from strandline.run.revise.cuts.plan import plan_cuts
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs

CHOICE = "auto_cuts"  # key in `meta`
TRIAL_SOURCES = 8  # number of sources in a trial
LOOKED_AT = 10_000  # maximum number of sources to list for a trial


class CutSettings(NamedTuple):
    """A pipeline's settings for all cuts.

    Attributes:
        is_auto: whether Strandline chooses cuts, in addition to cuts that stages request.
        at_most: maximum bytes of all cuts, or None for no limit.
    """

    is_auto: bool = False
    at_most: int | None = None


class RecordedChoice(NamedTuple):
    """The choice of cuts that a ledger records.

    Attributes:
        digest: fingerprint of the pipeline for which cuts were chosen, or empty if there is no
            choice.
        judged: all cuts that were considered.
        measures: measures of stages, by name.
    """

    digest: str = ""
    judged: tuple[ConsideredCut, ...] = ()
    measures: Mapping[str, CutMeasure] = {}


def read_choice(store: Store) -> RecordedChoice:
    """Return the choice that a ledger contains."""
    noted: dict[str, Any] = store.read_meta(CHOICE) or {"digest": "", "judged": [], "measures": {}}
    return RecordedChoice(
        noted["digest"],
        tuple(
            ConsideredCut(stage, CutVerdict[name], *rest) for stage, name, *rest in noted["judged"]
        ),
        {stage: CutMeasure(*measure) for stage, measure in noted["measures"].items()},
    )


def list_candidates(plan: PipelinePlan) -> list[str]:
    """Return the stages that may have a cut."""
    stages = plan.stages[:-1]
    refused = {at for at, _ in list_uncuttable(plan.stages)}
    return [stage.name for at, stage in enumerate(stages) if at not in refused]


class AutoCuts:
    """Chooses the cuts of an attempt.

    Args:
        plan: the plan without chosen cuts.
        settings: the pipeline's settings.
        folder: folder of the pipeline, with measurements of earlier attempts.
        open_store: opens the ledger for writing.
        location: folder or URL of the outputs.
    """

    def __init__(
        self,
        plan: PipelinePlan,
        settings: CutSettings,
        folder: PipelineFolder,
        open_store: Callable[[], AbstractContextManager[Store]],
        location: str,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._folder = folder
        self._open_store = open_store
        self._location = location
        self._asked = [stage.name for stage in plan.stages if stage.has_cut]
        self._noted = RecordedChoice()
        self._learnt: dict[str, CutMeasure] = {}
        self._is_tried = False
        if settings.is_auto:
            with open_store() as store:
                self._noted = read_choice(store)
            if self._noted.digest != plan.fingerprint.digest:
                self._choose()
        self._shrink()

    @property
    def needs_trial(self) -> bool:
        """Return True if stages still have to be measured."""
        return self._settings.is_auto and not self._noted.digest and not self._is_tried

    @property
    def worth(self) -> tuple[str, ...]:
        """Return the stages that keep a cut, ordered by savings, the largest first."""
        kept = [each.stage for each in self._noted.judged if each.is_kept]
        return (*kept, *(stage for stage in self._asked if stage not in kept))

    def plan_chosen(self) -> PipelinePlan:
        """Return the plan with the chosen cuts."""
        return self._plan_with(self.worth)

    def plan_trial(self) -> PipelinePlan:
        """Return the plan with all possible cuts."""
        return self._plan_with(list_candidates(self._plan))

    def measure_room(self) -> int | None:
        """Return how many bytes are left for more cuts, or None for no limit."""
        if self._settings.at_most is None:
            return None
        with self._open_store() as store:
            return self._settings.at_most - sum(each.size for each in measure_all_cuts(store, {}))

    def list_unfinished(self, sources: Sequence[Source]) -> list[Source]:
        """Return the unfinished sources among some sources."""
        listed = [identify(source, 0) for source in sources]
        with self._open_store() as store:
            return [sources[at] for at, *_ in store.find_unfinished(listed)]

    def learn(self, ending: Ending) -> None:
        """Record the measurements of a trial, and choose cuts."""
        self._is_tried = True
        number = ending.standing.finished
        # Without a finished source, there is nothing to average.
        if number:
            for name in self._list_names():
                counts = ending.counts.get(name)
                seconds = counts.seconds / number if counts else 0.0
                self._learnt[name] = CutMeasure(seconds, 0.0)
        self._choose()

    def _shrink(self) -> None:
        """If existing cuts exceed the limit, drop cuts, with the least savings per byte first."""
        at_most = self._settings.at_most
        if at_most is None:
            return
        with self._open_store() as store:
            seconds = self._add_up(measure_stages(self._folder))
            kept = measure_all_cuts(store, seconds)
            if sum(each.size for each in kept) > at_most:
                prune_space(store, kept, at_most, lambda: None)
                clean_up(store, open_outputs(self._location))

    def _list_names(self) -> list[str]:
        return [stage.name for stage in self._plan.stages]

    def _plan_with(self, names: Collection[str]) -> PipelinePlan:
        stages = (
            replace(stage, has_cut=True, is_lenient=stage.name not in self._asked)
            if stage.name in names
            else stage
            for stage in self._plan.stages
        )
        return replace(self._plan, stages=tuple(stages))

    def _choose(self) -> None:
        """If all stages are measured, choose cuts, and delete existing cuts that are not chosen."""
        with self._open_store() as store:
            measures = self._measure(store)
            candidates = list_candidates(self._plan)
            is_known = all(stage in measures for stage in candidates)
            self._noted = self._noted._replace(digest="", judged=())
            if not is_known and not self._learnt:
                return
            sources = max(store.read_meta("listed") or 0, store.count()["finished"])
            at_most = self._settings.at_most
            judged = choose_cuts(measures, candidates, self._asked, sources, at_most)
            self._noted = RecordedChoice(self._plan.fingerprint.digest, tuple(judged), measures)
            chosen = set(self.worth)
            pruned = prune_cuts(
                store, lambda _, record: measure_cuts(record).keys() - chosen, lambda: None
            )
            store.write(Change(meta={CHOICE: _dump(self._noted)}))
            if pruned.cuts:
                clean_up(store, open_outputs(self._location))

    def _measure(self, store: Store) -> dict[str, CutMeasure]:
        """Return the measures of the stages that have been measured, in order."""
        seconds = measure_stages(self._folder)
        sizes = _measure_sizes(store)
        noted, measures = self._noted.measures, dict[str, CutMeasure]()
        last = self._plan.stages[-1].name
        for name in self._list_names():
            before = noted.get(name) or self._learnt.get(name)
            took = seconds.get(name, before.seconds if before else None)
            # The sink needs no size, because it has no cut.
            is_sized = name in sizes or name in noted or name in self._learnt or name == last
            if took is not None and is_sized:
                size = sizes.get(name, before.size if before else None)
                measures[name] = CutMeasure(took, size)
        return measures

    def _add_up(self, seconds: Mapping[str, float]) -> dict[str, float]:
        saved, total = dict[str, float](), 0.0
        for name in self._list_names():
            total += seconds.get(name, 0.0)
            saved[name] = total
        return saved


def _measure_sizes(store: Store) -> dict[str, float | None]:
    """Return the mean bytes of each stage's cut, or None if the cut can't keep some task."""
    nothing = digest_nothing()
    sizes, numbers, odd = dict[str, int](), dict[str, int](), set[str]()
    for _, _, record in store.list_records():
        for stage, size in measure_cuts(record).items():
            sizes[stage] = sizes.get(stage, 0) + size
            numbers[stage] = numbers.get(stage, 0) + 1
        odd.update(each.cut[0] for each in record.outputs if each.cut and each.digest == nothing)
    return {stage: None if stage in odd else sizes[stage] / numbers[stage] for stage in sizes}


def _dump(noted: RecordedChoice) -> dict[str, Any]:
    return {
        "digest": noted.digest,
        "judged": [
            [each.stage, each.verdict.name, each.seconds, each.size] for each in noted.judged
        ],
        "measures": {stage: list(measure) for stage, measure in noted.measures.items()},
    }


class TrialResult(NamedTuple):
    """A trial, and how the work on its sources ended."""

    trial: Trial
    ending: Ending


def run_trial(
    cuts: AutoCuts,
    list_sources: Callable[[], Listing],
    must_stop: Callable[[], bool],
    run: Callable[[PipelinePlan, Listing], Ending],
) -> TrialResult | None:
    """Process a few sources with all possible cuts, unless the cuts are already chosen."""
    if not cuts.needs_trial or must_stop():
        return None
    with closing(list_sources()) as listing:
        sources = _draw_trial(listing, cuts)
    if not sources:
        return None
    ending = run(plan_cuts(cuts.plan_trial()), Listing(iter(sources), lambda: False))
    # If a stop was requested, the measurements may be incomplete, so ignore them.
    if not must_stop():
        cuts.learn(ending)
    digests = frozenset(identify(source, 0).source for source in sources)
    return TrialResult(Trial(digests, ending.standing.finished), ending)


def _draw_trial(listing: Listing, cuts: AutoCuts) -> list[Source]:
    """Return the first few unfinished sources of a listing."""
    found: list[Source] = []
    while len(found) < TRIAL_SOURCES and not listing.is_ended and listing.listed < LOOKED_AT:
        # Begin with a small batch: listing a source may open a file, and a few sources may be
        # enough.
        size = ADMIT_BATCH if listing.listed >= TRIAL_SOURCES else TRIAL_SOURCES
        found += cuts.list_unfinished(listing.draw_sources(size))
    return found[:TRIAL_SOURCES]
