"""Generates statuses as other versions may write them: similar to the schema, with deviations."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from strandline_api.schema.crd import attempt_definition, pipeline_definition

PIPELINE_STATUS, ATTEMPT_STATUS = (
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    for definition in (pipeline_definition(), attempt_definition())
)

junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner)
    ),
    max_leaves=5,
)
words = st.sampled_from(
    [
        *("OOMKilled", "Evicted", "Retry", "Manual", "Running", "Failed"),
        *("Vaporised", "Paused", "", "True", "oomkilled"),
    ]
)
texts = words | st.text(max_size=8) | st.integers(0, 5000).map("x".__mul__)
times = st.sampled_from(
    [
        *("2026-11-21T10:31:05Z", "2026-11-21T10:31:05.25Z", "2026-11-21T12:31:05+02:00"),
        *("2026-11-21", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "soon"),
    ]
)
counts = st.integers(-1, 2**64) | st.floats(0, 9)


def like(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for values that match a node's schema, nearly match, or are arbitrary."""
    return _like_type(node) | junk


def _like_type(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "x-kubernetes-int-or-string" in node:
        return st.sampled_from(["6Gi", "1", "much"]) | counts
    if node.get("format") == "date-time":
        return times
    if node["type"] == "object":
        return _like_object(node)
    simple = {"integer": counts, "number": counts, "boolean": st.booleans(), "string": texts}
    if node["type"] in simple:
        return simple[node["type"]]
    return st.lists(like(node["items"]), max_size=4) | st.builds(
        lambda entry, times: [entry] * times, like(node["items"]), st.integers(0, 150)
    )


def _like_object(node: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "additionalProperties" in node:
        return st.dictionaries(texts, like(node["additionalProperties"]), max_size=4)
    known = {name: like(child) for name, child in node["properties"].items()}
    return st.fixed_dictionaries({}, optional=known | {"fieldOfLater": junk})
