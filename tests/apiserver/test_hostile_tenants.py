"""A tenant's objects stop neither the operator nor other pipelines."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from api_server import ApiServer
from hostile_moves import METADATA, is_dispatched, is_well, make_pipeline
from kube_client import KubeClient, spell_path
from operator_process import run_operator
from recordings import Json

DEEP = (100, 900, 1500, 9000)
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def nest(levels: int) -> str:
    """Return JSON text with this nesting depth, which most libraries cannot serialize."""
    return '{"a":' * levels + "1" + "}" * levels


def write(client: KubeClient, text: str, namespace: str) -> None:
    """Create a pipeline from text. The requested response omits the spec."""
    path = spell_path("CurationPipeline", namespace)
    with suppress(RecursionError):  # the response has field managers, which are nested as deeply
        client.ask("POST", path, text.encode(), accept=METADATA)


def read_row(client: KubeClient, name: str, namespace: str) -> str:
    """Return the row that `kubectl get` prints for a pipeline."""
    path = spell_path("CurationPipeline", namespace, name)
    table = client.ask("GET", path, accept=TABLE, query={"includeObject": "None"})
    return " ".join(map(str, table["rows"][0]["cells"]))


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("is_there_before", [True, False])
def test_a_deeply_nested_pipeline_affects_only_its_namespace(
    api_server: ApiServer,
    client: KubeClient,
    namespace: str,
    tmp_path: Path,
    levels: int,
    is_there_before: bool,
) -> None:
    """The operator gets the pipeline from a list or from a watch."""
    text = json.dumps(make_pipeline("deep")).replace('"with": {}', f'"with": {nest(levels)}')
    if is_there_before:
        write(client, text, namespace)
    with run_operator(api_server.kubeconfig, tmp_path) as operator:
        if not is_there_before:
            operator.wait_for(lambda: is_well(operator))
            write(client, text, namespace)
        client.create(make_pipeline("sound"), namespace)
        operator.wait_for(lambda: is_dispatched(client, namespace))
        operator.wait_for(lambda: "nested" in read_row(client, "deep", namespace))
        assert operator.ask("healthz")[0] == 200
        assert operator.stop() == 0
    assert operator.faults == []


# Some hundred bytes of YAML that expand to a billion values if a parser follows aliases.
_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
)
TRICKS = {
    "aliases": _BOMB,
    "much": "\n".join(f"a{number}: {{}}" for number in range(60_000)),
    "deep": "[" * 20_000,
    "wrong": "queueName: 5",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_broken_defaults_affect_only_attempts_of_their_namespace(
    api_server: ApiServer, client: KubeClient, namespace: str, tmp_path: Path, trick: str
) -> None:
    other = f"{namespace}-other"
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    config: Json = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "strandline-defaults"},
        "data": {"ray": TRICKS[trick]},
    }
    client.create(config, namespace)
    with run_operator(api_server.kubeconfig, tmp_path) as operator:
        client.create(make_pipeline("held"), namespace)
        client.create(make_pipeline("sound"), other)
        operator.wait_for(lambda: is_dispatched(client, other))
        operator.wait_for(lambda: "ConfigMap" in read_message(client, "held", namespace))
        assert not is_dispatched(client, namespace)
        client.delete("ConfigMap", "strandline-defaults", namespace)
        client.create({**config, "data": {"ray": "queueName: team-a"}}, namespace)
        operator.wait_for(lambda: is_dispatched(client, namespace))
        assert operator.ask("healthz")[0] == 200
        assert operator.stop() == 0
    assert operator.faults == []


def read_message(client: KubeClient, name: str, namespace: str) -> str:
    """Return the messages of a pipeline's conditions."""
    pipeline = client.get("CurationPipeline", name, namespace) or {}
    conditions = pipeline.get("status", {}).get("conditions", [])
    return " ".join(condition["message"] for condition in conditions)
