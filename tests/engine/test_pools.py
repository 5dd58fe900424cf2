"""Workers for each stage: minimum kept, capacity never exceeded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.pools import bound_queue, size_pools
from strandline.plan.pipeline import StagePlan
from strandline.plan.stage import Stage

stages = st.lists(
    st.builds(
        lambda cpu, least, extra: StagePlan(
            "s",
            "s",
            Stage(),
            cpu=cpu,
            min_workers=least,
            max_workers=None if extra is None else least + extra,
        ),
        cpu=st.sampled_from([0.0, 0.25, 1.0, 4.0]),
        least=st.integers(1, 4),
        extra=st.none() | st.integers(0, 4),
    ),
    min_size=1,
    max_size=10,
)


@given(stages=stages, cpus=st.floats(0.5, 200))
def test_reservations_fit_and_bounds_hold(stages: list[StagePlan], cpus: float) -> None:
    sizes = size_pools(stages, cpus)

    assert sum(size.workers * size.cpu for size in sizes) <= cpus + 1e-9
    for stage, size in zip(stages, sizes, strict=True):
        assert size.workers >= stage.min_workers
        assert stage.max_workers is None or size.workers <= stage.max_workers
        assert size.cpu <= stage.cpu


@given(stages=stages, cpus=st.floats(0.5, 200))
def test_no_cpu_is_left_that_a_stage_could_use(stages: list[StagePlan], cpus: float) -> None:
    sizes = size_pools(stages, cpus)

    left = cpus - sum(size.workers * size.cpu for size in sizes)
    for stage, size in zip(stages, sizes, strict=True):
        if size.cpu == stage.cpu > 0:  # it does not share what is too little for all
            assert stage.cpu > left or size.workers >= (stage.max_workers or cpus)


def test_spare_cpus_go_round() -> None:
    plans = [StagePlan("a", "a", Stage()), StagePlan("b", "b", Stage(), max_workers=1)]

    assert [size.workers for size in size_pools(plans, 6)] == [5, 1]


def test_a_queue_has_room_for_a_whole_batch() -> None:
    assert bound_queue(StagePlan("a", "a", Stage(), batch_size=16), workers=1) >= 16
