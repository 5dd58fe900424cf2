"""`kubectl strandline claims` lists exactly the claims that deleted pipelines have left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli_project import Call
from cluster_objects import make_pipeline_object, make_pod
from fake_kubectl import FakeKubectl

CLAIMS, PIPELINES, PODS = (
    "get persistentvolumeclaims",
    "get curationpipelines.strandline.dev",
    "get pods",
)


def make_claim(name: str, pipeline: str, namespace: str = "team") -> dict[str, Any]:
    labels = {"strandline.dev/pipeline": pipeline, "strandline.dev/pipeline-uid": "uid"}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "creationTimestamp": "2026-11-24T10:00:00Z",
        },
        "status": {"capacity": {"storage": "10Gi"}},
    }


def make_pipeline(
    name: str, namespace: str = "team", claim: str = "", **ledger: str
) -> dict[str, Any]:
    document = make_pipeline_object()
    document["metadata"] |= {"name": name, "namespace": namespace}
    document["status"]["volumeClaim"] = claim
    document["spec"] |= {"storage": {"ledger": ledger}}
    return document


@pytest.fixture
def cluster(kubectl: FakeKubectl) -> FakeKubectl:
    """Return a cluster with claims of an existing and two deleted pipelines, one with a pod."""
    names = ("gone", "corpus", "held")
    kubectl.answer(CLAIMS, {"items": [make_claim(f"{name}-ledger", name) for name in names]})
    kubectl.answer(PIPELINES, {"items": [make_pipeline("corpus", claim="corpus-ledger")]})
    pod = make_pod("debugger", claim="held-ledger")
    pod["metadata"]["namespace"] = "team"
    kubectl.answer(PODS, {"items": [pod]})
    return kubectl


def list_names(ask: Call, *words: str) -> list[str]:
    result = ask("claims", "--deleted", "--names", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.removeprefix("persistentvolumeclaim/") for line in result.stdout.splitlines()]


def test_claims_are_listed_with_their_users(cluster: FakeKubectl, ask: Call) -> None:
    head, *rows = (line.split() for line in ask("claims").stdout.splitlines())
    assert head == ["namespace", "claim", "pipeline", "size", "created", "state"]
    common = ["10Gi", "2026-11-24T10:00:00Z"]
    assert rows == [
        ["team", "corpus-ledger", "corpus", *common, "in", "use"],
        ["team", "gone-ledger", "gone", *common, "pipeline", "deleted"],
        [
            *("team", "held-ledger", "held", *common),
            *("pipeline", "deleted,", "mounted", "by", "debugger"),
        ],
    ]
    assert cluster.list_verbs() == []


def test_only_names_of_deletable_claims_are_listed(cluster: FakeKubectl, ask: Call) -> None:
    assert list_names(ask) == ["gone-ledger", "held-ledger"]


def test_lines_for_scripts(cluster: FakeKubectl, ask: Call) -> None:
    lines = [json.loads(line) for line in ask("claims", "--json").stdout.splitlines()]
    assert [(line["claim"], line["inUse"], line["pods"]) for line in lines] == [
        ("corpus-ledger", True, []),
        ("gone-ledger", False, []),
        ("held-ledger", False, ["debugger"]),
    ]
    assert lines[0].keys() == {
        *("namespace", "claim", "pipeline", "inUse", "size", "created", "pods")
    }


@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline("gone"),  # recreated, but the operator has not seen it
        make_pipeline("other", claim="gone-ledger"),
        make_pipeline("other", claimName="gone-ledger"),
    ],
)
def test_law_a_used_claim_is_never_named(
    cluster: FakeKubectl, ask: Call, pipeline: dict[str, Any]
) -> None:
    cluster.answer(PIPELINES, {"items": [pipeline]})
    assert list_names(ask) == ["corpus-ledger", "held-ledger"]


def test_a_pipeline_of_another_namespace_uses_no_claim_here(
    cluster: FakeKubectl, ask: Call
) -> None:
    cluster.answer(PIPELINES, {"items": [make_pipeline("corpus", "far", claim="corpus-ledger")]})
    result = ask("claims", "--deleted", "--all-namespaces")
    assert "corpus-ledger" in result.stdout
    scopes = [call for call in cluster.calls if "--all-namespaces" in call]
    assert len(scopes) == 3


def test_claims_are_read_before_pipelines(cluster: FakeKubectl, ask: Call) -> None:
    """Otherwise the claim of a pipeline that is created meanwhile would look unused."""
    assert list_names(ask)
    kinds = [call[1] for call in cluster.calls if call[0] == "get"]
    assert kinds[:2] == ["persistentvolumeclaims", "curationpipelines.strandline.dev"]


def test_no_claim_is_no_error(cluster: FakeKubectl, ask: Call) -> None:
    cluster.answer(CLAIMS, {"items": []})
    assert ask("claims").stdout == "no claims\n"
    assert list_names(ask) == []


@pytest.mark.parametrize("word", ["--all-namespaces", "--json"])
def test_names_are_of_one_namespace(cluster: FakeKubectl, ask: Call, word: str) -> None:
    result = ask("claims", "--names", word)
    assert (result.exit_code, cluster.calls) == (64, [])
