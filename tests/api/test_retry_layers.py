"""The policies of pipeline, namespace, and chart are merged field by field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retry_histories import policies, policy_of
from strandline_api.law.retry import merge_policies
from strandline_api.spec.policy import RetryPolicy

layers_of = st.lists(policies(), max_size=4)


def fields_given(policy: RetryPolicy) -> dict[str, Any]:
    """Return every field that a policy sets, by path."""
    flat = {
        f"disruptions.{name}": getattr(policy.disruptions, name)
        for name in policy.disruptions.model_fields_set
        if "disruptions" in policy.model_fields_set
    }
    names = policy.model_fields_set - {"disruptions"}
    return flat | {name: getattr(policy, name) for name in names}


@given(layers_of)
def test_each_field_comes_from_the_first_layer_that_gives_it(layers: list[RetryPolicy]) -> None:
    expected: dict[str, Any] = {}
    for layer in layers:
        expected = fields_given(layer) | expected
    assert fields_given(merge_policies(*layers)) == expected


@given(layers_of)
def test_fields_missing_in_all_layers_have_the_default(layers: list[RetryPolicy]) -> None:
    merged = merge_policies(*layers)
    for name in RetryPolicy.model_fields.keys() - merged.model_fields_set:
        assert getattr(merged, name) == getattr(RetryPolicy(), name)


@given(layers_of, st.data())
def test_layers_may_be_merged_in_steps(layers: list[RetryPolicy], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(layers)))
    upper, lower = merge_policies(*layers[:cut]), merge_policies(*layers[cut:])
    merged = merge_policies(*layers)
    assert merge_policies(upper, lower) == merged
    assert fields_given(merge_policies(upper, lower)) == fields_given(merged)


def test_layers_are_merged_field_by_field() -> None:
    mine = policy_of(maxRetries=5, maxDelay=None)
    namespace = policy_of(maxRetries=9, delay="5s", disruptions={"maxRetries": 7})
    chart = policy_of(delay="9s", maxDelay="1m", disruptions={}, eligibleCauses=[])
    merged = merge_policies(mine, namespace, chart)
    assert (merged.max_retries, merged.delay, merged.max_delay) == (5, "5s", None)
    assert (merged.disruptions.max_retries, merged.eligible_causes) == (7, ())
    assert "jitter" not in merged.model_fields_set


def test_missing_disruption_fields_come_from_the_next_layer() -> None:
    merged = merge_policies(policy_of(disruptions={}), policy_of(disruptions={"maxRetries": 7}))
    assert merged.disruptions.max_retries == 7


def test_only_fields_of_some_layer_count_as_given() -> None:
    assert merge_policies(policy_of(delay="5s"), policy_of()).model_fields_set == {"delay"}
