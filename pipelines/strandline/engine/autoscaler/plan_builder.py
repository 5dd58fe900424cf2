"""Builds a plan step by step: minimums first, then free capacity, then exchanges of workers.

This module has no side effects, and must not depend on the form in which the caller receives a
plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strandline.engine.autoscaler.bin_packing import FreeSpace, pack, sort_by_size
from strandline.engine.autoscaler.cluster_view import ClusterSite, list_pools, survey
from strandline.engine.autoscaler.messages import (
    describe_exchange,
    describe_floor,
    describe_missing_floor,
    describe_pace,
    describe_share,
)
from strandline.engine.autoscaler.model import (
    Inputs,
    Measure,
    ScalingParams,
    ScalingState,
    StageLook,
    find_demand,
    find_left,
    update_measures,
)
from strandline.engine.autoscaler.rebalancing import Exchange, find_exchange
from strandline.engine.autoscaler.water_filling import (
    PoolDemand,
    fill,
    find_bound,
    find_pace,
    get_ahead,
    share_equally,
)


@dataclass(slots=True)
class PlanDraft:
    """A plan under construction.

    Attributes:
        order: stage indexes by decreasing size.
        measures: measure of each stage after this snapshot.
        counts: worker count of each stage once the plan is carried out. Starting workers that do
            not fit are not counted.
        room: remaining free capacity.
        reasons: reasons for changes, by stage index.
        drained: number of workers to drain, by stage and node.
    """

    params: ScalingParams
    state: ScalingState
    inputs: Inputs
    measures: Mapping[str, Measure]
    site: ClusterSite
    pools: list[PoolDemand]
    order: list[int]
    counts: list[int]
    room: FreeSpace
    reasons: dict[int, str] = field(default_factory=dict)
    drained: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[StageLook, ...]:
        """State of the stages, in order."""
        return self.inputs.stages

    def keep_floors(self) -> None:
        """Raise every pool to its minimum: use free capacity first, then drain larger pools."""
        missing = [
            max(0, pool.floor - count) for pool, count in zip(self.pools, self.counts, strict=True)
        ]
        if not any(missing):
            return
        trial = self.room.copy()
        if pack(trial, self.site.needs, missing, self.order):
            self.room, added = trial, missing
        else:
            added = self._assign_in_turn(missing)
        for stage, count in enumerate(added):
            self._grow(stage, count, describe_floor(self.pools[stage].floor))
        floors = [pool.floor for pool in self.pools]
        if any(count < floor for count, floor in zip(self.counts, floors, strict=True)):
            found = self._find_exchange(floors, [False] * len(floors))
            self._take_drains(found, describe_missing_floor(self._list_takers(found)))
            self.counts = found.counts

    def _assign_in_turn(self, missing: Sequence[int]) -> list[int]:
        """Give each stage one worker in turn, so that no stage takes all capacity."""
        added = [0] * len(missing)
        going = [stage for stage in range(len(missing)) if missing[stage]]
        while going:
            for stage in list(going):
                count = self.room.assign(stage, self.site.needs[stage], 1)
                added[stage] += count
                if not count or added[stage] == missing[stage]:
                    going.remove(stage)
        return added

    def share(self) -> None:
        """Share free capacity equally among the stages without a known speed."""
        unknown = [
            stage
            for stage in self.order
            if self.pools[stage].speed is None and any(self.site.needs[stage])
        ]
        if not unknown:
            return
        goal = share_equally(self.pools, self.site.sum_totals())
        for stage in unknown:
            wanted = goal[stage] - self.counts[stage]
            count = self.room.assign(stage, self.site.needs[stage], wanted)
            self._grow(stage, count, describe_share())

    def grow(self) -> None:
        """Use free capacity to grow pools, the slowest stage first."""
        before, pace = list(self.counts), find_pace(self.pools, self.counts)
        filling = fill(self.pools, before, self.room, self.order)
        slowest = find_pace(self.pools, filling.counts)
        if filling.counts != before:
            filling = get_ahead(self.pools, before, filling, self.params.headroom)
        self.room = filling.room
        setter = min(
            range(len(self.pools)),
            key=lambda stage: self.pools[stage].find_level(filling.counts[stage]),
            default=0,
        )
        for stage, count in enumerate(filling.counts):
            level = self.pools[stage].find_level(before[stage])
            reason = describe_pace(level, pace, slowest, self.stages[setter].name)
            self._grow(stage, count - before[stage], reason)

    def exchange(self) -> float | None:
        """Drain workers in favor of other stages if an exchange has been justified for long enough.

        Returns:
            Time since which an exchange has been justified, for the next state. None if no exchange
                is
                justified or an exchange was just made.
        """
        pace, ideal = find_pace(self.pools, self.counts), self._find_ideal_pace()
        if not self._is_worth(pace, ideal):
            return None
        now = self.inputs.now
        since = now if self.state.wished_since is None else self.state.wished_since
        if now - since < self.params.limit:
            return since
        barred = [
            count > stage.workers
            or now - self.state.grown_at.get(stage.name, -math.inf) < self.params.settle
            for stage, count in zip(self.stages, self.counts, strict=True)
        ]
        found = self._find_exchange(self._find_least(ideal), barred)
        after = find_pace(self.pools, found.counts)
        if after < ideal:  # try to reach the same pace with fewer drains
            again = self._find_exchange(self._find_least(after), barred)
            found = again if find_pace(self.pools, again.counts) >= after else found
        if not found.drained or not self._is_worth(pace, after):
            return since
        self._take_drains(found, describe_exchange(self._list_takers(found), pace, after))
        self.counts = found.counts
        return None

    def _find_ideal_pace(self) -> float:
        """Return the pace that an optimal placement of all workers of known speed would reach."""
        room, needs = self.site.find_empty_room(), self.site.needs
        counts = [
            count if pool.speed is None else min(count, pool.floor)
            for pool, count in zip(self.pools, self.counts, strict=True)
        ]
        if not pack(room, needs, counts, self.order):
            return 0.0
        bound = find_bound(self.pools, counts, room)
        if not self._is_worth(find_pace(self.pools, self.counts), bound):
            return bound  # even the upper bound is too low, so skip the placement
        return find_pace(self.pools, fill(self.pools, counts, room, self.order).counts)

    def _is_worth(self, pace: float, after: float) -> bool:
        if not pace < after < math.inf or after < pace * (1 + self.params.gain):
            return False
        left = find_left(self.inputs, find_demand(self.stages))
        # Near the end of the work, a change would come too late.
        return left is None or not pace or left[0] / pace - left[0] / after > self.params.settle

    def _find_least(self, pace: float) -> list[int]:
        """Return the smallest worker counts that reach a pace.

        Stages of unknown speed keep their current number of workers.
        """
        return [
            count if pool.speed is None else max(pool.floor, pool.count_for(pace))
            for pool, count in zip(self.pools, self.counts, strict=True)
        ]

    def _find_exchange(self, target: Sequence[int], barred: Sequence[bool]) -> Exchange:
        site = (self.room.list_free(), self.site.allocation)
        return find_exchange(self.pools, self.counts, target, barred, site, self.order)

    def _list_takers(self, found: Exchange) -> list[str]:
        pairs = zip(self.stages, self.counts, found.counts, strict=True)
        return [stage.name for stage, before, after in pairs if after > before]

    def _take_drains(self, found: Exchange, reason: str) -> None:
        self.drained = found.drained
        self.reasons |= {stage: reason for stage, _ in found.drained}

    def _grow(self, stage: int, count: int, reason: str) -> None:
        if count > 0:
            self.counts[stage] += count
            self.reasons[stage] = reason


def begin_draft(params: ScalingParams, state: ScalingState, inputs: Inputs) -> PlanDraft:
    """Create a draft of the current state, before any decision."""
    site, measures = survey(inputs), update_measures(inputs.stages, state.measures, params)
    room, counts = site.find_room(), site.count_workers()
    for stage, look in enumerate(inputs.stages):
        # Reserve capacity for starting workers whose node is unknown before placing new workers.
        counts[stage] += room.assign(stage, site.needs[stage], look.workers - counts[stage])
    return PlanDraft(
        params=params,
        state=state,
        inputs=inputs,
        measures=measures,
        site=site,
        pools=list_pools(inputs, site, measures),
        order=sort_by_size(site.needs, site.totals),
        counts=counts,
        room=room,
    )
