"""Two pipelines are applied together, the dependent first, and run one after the other."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import yaml

from api_server import ApiServer
from kill_trials import PAUSE
from kube_client import KubeClient, ServerStage
from kuberay_player import Troupe
from operator_process import PATIENCE, QUICK, OperatorProcess, run_operator
from operator_stories import NAME, spell_pipeline
from recordings import Json
from waiting import wait_until

LAST = "tokens"
# With a resync only after an hour, an event of the first pipeline must trigger the second.
LIMITS = {**QUICK, "STRANDLINE_RESYNC": "3600"}


def read_status(client: KubeClient, namespace: str, name: str) -> Json:
    body = client.get("CurationPipeline", name, namespace)
    assert body is not None
    status: Json = body.get("status", {})
    return status


def list_attempts(client: KubeClient, namespace: str) -> list[str]:
    attempts = client.list("CurationAttempt", namespace)
    return sorted(attempt["metadata"]["name"] for attempt in attempts)


async def play(client: KubeClient, namespace: str, operator: OperatorProcess) -> None:
    """Play KubeRay until the last pipeline has succeeded."""
    stage, begin = ServerStage(client), datetime.now(UTC)
    troupe = Troupe(stage, namespace, ["s-k-success"] * 2, begin=begin)
    end = time.monotonic() + PATIENCE
    while read_status(client, namespace, LAST).get("phase") != "Succeeded":
        assert operator.is_alive
        assert time.monotonic() < end, read_status(client, namespace, LAST)
        first = read_status(client, namespace, NAME)
        if first.get("phase") != "Succeeded":
            assert f"{LAST}-1" not in list_attempts(client, namespace)
        await troupe.tick()
        await asyncio.sleep(PAUSE)


def test_the_second_pipeline_starts_after_the_first_has_succeeded(
    api_server: ApiServer, tmp_path: Path
) -> None:
    reads = {"use": "jsonl-files", "with": {"paths": [{"pipeline": NAME, "files": "**/*.jsonl"}]}}
    with closing(KubeClient(api_server.kubeconfig)) as client:
        namespace = api_server.make_namespace("row", client)
        with run_operator(
            api_server.kubeconfig, tmp_path, "--namespaces", namespace, **LIMITS
        ) as operator:
            client.create(spell_pipeline(LAST, source=reads), namespace)
            wait_until(
                lambda: (
                    read_status(client, namespace, LAST).get("state")
                    == f"waits for {NAME} (does not exist)"
                )
            )
            client.create(spell_pipeline(), namespace)
            asyncio.run(play(client, namespace, operator))
            assert list_attempts(client, namespace) == [f"{NAME}-1", f"{LAST}-1"]
            assert operator.faults == []
        config = client.get("ConfigMap", f"{LAST}-1", namespace)
        assert config is not None
        document = yaml.safe_load(config["data"]["pipeline.yaml"])
        (path,) = document["spec"]["source"]["with"]["paths"]
        place = f"/var/lib/strandline-inputs/{NAME}-ledger/{namespace}/{NAME}/output"
        assert path == f"{place}/**/*.jsonl"
