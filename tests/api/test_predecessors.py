"""Pipelines refer to other pipelines as predecessors, and read inputs from them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_documents import with_change
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.documents.stored import forward_document
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.schema.crd import pipeline_definition
from strandline_api.spec.predecessors import (
    Reference,
    find_circle,
    find_references,
    join_location,
    replace_references,
)

NAMES = st.sampled_from("abcdef")
GRAPHS = st.dictionaries(NAMES, st.sets(NAMES, max_size=3))


def after(*items: object) -> CurationPipeline:
    return parse_pipeline(with_change("spec.after", list(items)))


def refuse(path: str, value: object) -> str:
    with pytest.raises(SpecError) as caught:
        parse_pipeline(with_change(path, value))
    return str(caught.value)


def test_a_pipeline_lists_its_predecessors() -> None:
    spec = after({"name": "raw"}, {"name": "list", "runId": "second"}).spec
    assert spec.predecessors == {"raw": None, "list": "second"}
    assert parse_pipeline(with_change("spec.suspend", True)).spec.after == ()


def test_inputs_from_pipelines_are_implicit_predecessors() -> None:
    document = with_change("spec.source.with", {"paths": [{"pipeline": "raw"}]})
    document["spec"]["stages"][0]["with"] = {"path": {"pipeline": "list", "artifact": "a/b"}}
    document["spec"]["after"] = [{"name": "raw", "runId": "third"}]
    spec = parse_pipeline(document).spec
    assert spec.predecessors == {"raw": "third", "list": None}
    assert [path for path, _ in spec.references] == [
        "source.with.paths[0]",
        "stages[0].with.path",
    ]


def test_a_reference_names_the_awaited_run() -> None:
    paths = [{"pipeline": "raw"}, {"pipeline": "raw", "runId": "second"}, {"pipeline": "list"}]
    document = with_change("spec.source.with", {"paths": paths})
    document["spec"]["after"] = [{"name": "raw"}]
    assert parse_pipeline(document).spec.predecessors == {"raw": "second", "list": None}


@pytest.mark.parametrize(
    ("after", "runs", "path"),
    [
        ([], ["second", "third"], "spec.source.with.paths[1]"),
        ([{"name": "raw", "runId": "first"}], ["second"], "spec.source.with.paths[0]"),
    ],
)
def test_two_runs_of_one_pipeline_can_not_be_read(
    after: list[Any], runs: list[str], path: str
) -> None:
    document = with_change(
        "spec.source.with", {"paths": [{"pipeline": "raw", "runId": run} for run in runs]}
    )
    document["spec"]["after"] = after
    with pytest.raises(SpecError) as caught:
        parse_pipeline(document)
    assert str(caught.value).startswith(f"{path}: lists run {runs[-1]!r} of a pipeline whose")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "spec.after",
            [{"name": "raw"}, {"name": "corpus"}],
            "spec.after[1].name: a pipeline can't come after itself; name another one",
        ),
        (
            "spec.source.with",
            {"paths": ["a", {"pipeline": "corpus"}]},
            "spec.source.with.paths[1]: a pipeline can't come after itself; name another one",
        ),
        ("spec.after", [{"name": "raw"}, {"name": "raw"}], "must not contain 'raw' twice"),
        (
            "spec.after",
            [{"name": "team/raw"}],
            "must be the name of a pipeline in the same namespace, such as 'raw', not 'team/raw'",
        ),
        ("spec.after", [{"name": "raw", "namespace": "team"}], "unknown field 'namespace'"),
        ("spec.after", [{"name": f"p{at}"} for at in range(33)], "32"),
    ],
)
def test_invalid_references_are_rejected_with_a_sentence(
    path: str, value: object, sentence: str
) -> None:
    assert sentence in refuse(path, value)


def test_the_api_server_refuses_a_pipeline_after_itself() -> None:
    schema = pipeline_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    (rule,) = schema["x-kubernetes-validations"]
    assert "self.metadata.name" in rule["rule"]
    field = schema["properties"]["spec"]["properties"]["after"]
    assert (field["x-kubernetes-list-map-keys"], "default" in field) == (["name"], False)


def test_a_drivers_document_omits_predecessors() -> None:
    document = with_change("spec.after", [{"name": "raw"}])
    document["metadata"]["namespace"] = "team"
    assert "after" not in forward_document(document, parse_pipeline(document).spec)["spec"]


@pytest.mark.parametrize(
    ("value", "reference"),
    [
        ({"pipeline": "raw"}, Reference("raw")),
        ({"pipeline": "raw", "files": "**/*.jsonl"}, Reference("raw", "**/*.jsonl")),
        ({"pipeline": "raw", "artifact": "a/b"}, Reference("raw", "", "a/b")),
        ({"pipeline": "raw", "runId": "second"}, Reference("raw", run="second")),
        ({"pipeline": "raw", "runId": ""}, None),
        ({"pipeline": "raw", "run": "second"}, None),
        ({"pipeline": "raw", "artifact": "a/b", "files": "*"}, None),
        ({"pipeline": "raw", "colour": "red"}, None),
        ({"pipeline": 3}, None),
        ({"files": "*"}, None),
        ({"pipeline": ""}, None),
        ("raw", None),
    ],
)
def test_a_reference_has_a_distinct_shape(value: Any, reference: Reference | None) -> None:
    found = [each for _, each in find_references([{"deep": value}], "with")]
    assert found == ([reference] if reference else [])


def test_a_reference_is_replaced_by_a_location_and_the_rest_stays() -> None:
    value = {"paths": ["x", {"pipeline": "raw", "files": "*.txt"}], "limit": 3, "none": None}
    found = replace_references(value, lambda each: join_location("s3://b/raw/", each))
    assert found == {"paths": ["x", "s3://b/raw/*.txt"], "limit": 3, "none": None}
    assert join_location("/out", Reference("raw")) == "/out/"
    assert join_location("/latest/artifacts", Reference("raw", artifact="a/b")) == (
        "/latest/artifacts/a/b"
    )


@given(graph=GRAPHS, start=NAMES)
def test_law_every_cycle_is_found(graph: dict[str, set[str]], start: str) -> None:
    circle = find_circle(start, graph)
    reached, ahead = set[str](), [start]
    while ahead:
        new = graph.get(ahead.pop(), set()) - reached
        reached |= new
        ahead += new
    assert bool(circle) == (start in reached)
    assert all(later in graph[name] for name, later in pairwise(circle))
    assert not circle or circle[0] == circle[-1] == start
