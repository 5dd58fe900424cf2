"""After each kill for memory, a group's memory grows in whole MiB, up to a limit, permanently."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.law.memory_growth import grow_memory, hold_memory
from strandline_api.spec.policy import OomPolicy

MI = 2**20
GI = 2**30

factors = st.floats(1, 100)
limits = st.none() | st.integers(1, 2**45)
amounts = st.dictionaries(st.sampled_from(["head", "small", "large"]), st.integers(1, 2**45))
kills = st.lists(st.sampled_from(["head", "small", "large", "gone"]), max_size=12)


def policy_of(factor: float = 1.5, limit: int | str | None = None) -> OomPolicy:
    return OomPolicy.model_validate({"memoryFactor": factor, "maxMemory": limit})


policies = st.builds(policy_of, factors, limits)


@given(policies, amounts, kills)
def test_memory_is_bounded(policy: OomPolicy, requested: dict[str, int], killed: list[str]) -> None:
    limit = policy.max_memory_bytes or 2**63 - 1
    grown = grow_memory(policy, requested, killed)
    assert grown.keys() == requested.keys()
    for name, memory in grown.items():
        assert requested[name] <= memory <= max(limit, requested[name])


@given(policies, amounts, kills, kills)
def test_memory_is_monotone_in_the_kills(
    policy: OomPolicy, requested: dict[str, int], killed: list[str], more: list[str]
) -> None:
    before = grow_memory(policy, requested, killed)
    after = grow_memory(policy, requested, [*killed, *more])
    assert all(before[name] <= after[name] for name in requested)


@given(policies, amounts, kills)
def test_only_killed_groups_grow(
    policy: OomPolicy, requested: dict[str, int], killed: list[str]
) -> None:
    grown = grow_memory(policy, requested, killed)
    spared = requested.keys() - set(killed)
    assert {name: grown[name] for name in spared} == {name: requested[name] for name in spared}


@given(policies, amounts, kills)
def test_growth_is_in_whole_mebibytes_below_the_limit(
    policy: OomPolicy, requested: dict[str, int], killed: list[str]
) -> None:
    limit = policy.max_memory_bytes or 2**63 - 1
    for name, memory in grow_memory(policy, requested, killed).items():
        assert memory % MI == 0 or memory in (requested[name], limit)
        if 0 < killed.count(name) and memory < limit:
            assert memory >= requested[name] * (1 + (policy.memory_factor - 1) * 0.999)


@given(policies, amounts, amounts)
def test_raised_memory_is_kept_within_the_current_limit(
    policy: OomPolicy, requested: dict[str, int], raised: dict[str, int]
) -> None:
    limit = policy.max_memory_bytes or 2**63 - 1
    held = hold_memory(policy, requested, raised)
    assert held == {
        name: max(wanted, min(limit, raised.get(name, 0))) for name, wanted in requested.items()
    }
    assert hold_memory(policy, requested, held) == held
    assert grow_memory(policy, requested, [], raised=raised) == held


@given(factors, amounts, amounts, amounts, kills)
def test_a_bound_stops_growth_without_reducing_memory(
    factor: float,
    requested: dict[str, int],
    raised: dict[str, int],
    bounds: dict[str, int],
    killed: list[str],
) -> None:
    policy = policy_of(factor)
    before = hold_memory(policy, requested, raised)
    free = grow_memory(policy, requested, killed, raised=raised)
    bound = grow_memory(policy, requested, killed, raised=raised, bounds=bounds)
    for name, memory in bound.items():
        assert before[name] <= memory <= max(before[name], bounds.get(name, 2**63 - 1))
        assert memory in {free[name], max(before[name], bounds.get(name, 0))}


def test_an_explicit_limit_is_not_lowered() -> None:
    grown = grow_memory(policy_of(limit="64Gi"), {"a": 8 * GI}, ["a"], bounds={"a": 9 * GI})
    assert grown == {"a": 12 * GI}


@pytest.mark.parametrize(
    ("policy", "requested", "killed", "expected"),
    [
        (policy_of(), {"head": 2 * GI}, [], {"head": 2 * GI}),
        (policy_of(), {"head": 2 * GI}, ["head"], {"head": 3 * GI}),
        (policy_of(), {"head": 2 * GI}, ["head", "head"], {"head": 4608 * MI}),
        (policy_of(), {"head": 2 * GI, "a": GI}, ["a", "gone"], {"head": 2 * GI, "a": 1536 * MI}),
        (policy_of(limit="4Gi"), {"head": 3 * GI}, ["head", "head"], {"head": 4 * GI}),
        (policy_of(limit="4G"), {"head": 3 * GI}, ["head"], {"head": 4 * 10**9}),
        (policy_of(limit="1Gi"), {"head": 3 * GI}, ["head"], {"head": 3 * GI}),
        (policy_of(1.1), {"head": 1000 * MI}, ["head"], {"head": 1100 * MI}),
        (policy_of(1.0), {"head": 10 * MI}, ["head"] * 3, {"head": 10 * MI}),
        (policy_of(), {"head": 5 * MI + 1}, [], {"head": 5 * MI + 1}),
        (policy_of(), {"head": 5 * MI + 1}, ["head"], {"head": 8 * MI}),
        (policy_of(2), {"head": GI}, ["head"] * 100, {"head": 2**63 - 1}),
        (policy_of(), {}, ["head"], {}),
    ],
)
def test_memory_grows_by_the_documented_amounts(
    policy: OomPolicy, requested: dict[str, int], killed: list[str], expected: dict[str, int]
) -> None:
    assert grow_memory(policy, requested, killed) == expected
