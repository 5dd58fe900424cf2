"""Whatever a tenant does in a namespace, the operator and other namespaces continue to work."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import psutil
import pytest

from api_server import ApiServer
from hostile_moves import Tenant, is_dispatched, is_well, make_pipeline
from kube_client import KubeClient
from operator_process import run_operator

ROUNDS, MOVES = 4, 25
# Limit of the operator's memory. A tenant's object may have a megabyte or more.
MOST_BYTES = 600 << 20
# Random moves take minutes; test_hostile_tenants.py runs the known cases in the second tier.
pytestmark = pytest.mark.full


@pytest.mark.parametrize("seed", range(2))
def test_random_moves_of_a_tenant_do_not_affect_others(
    api_server: ApiServer, client: KubeClient, namespace: str, tmp_path: Path, seed: int
) -> None:
    tenant = Tenant(client, namespace, seed)
    with run_operator(api_server.kubeconfig, tmp_path) as operator:
        operator.wait_for(lambda: is_well(operator))
        for number in range(ROUNDS):
            for _ in range(MOVES):
                tenant.move()
            other = f"{namespace}-{number}"
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
            client.create(make_pipeline("sound"), other)
            operator.wait_for(partial(is_dispatched, client, other))
            assert operator.ask("healthz")[0] == 200
            assert operator.ask("metrics")[0] == 200
        assert psutil.Process(operator.pid).memory_info().rss < MOST_BYTES
        assert tenant.taken > tenant.refused / 4
        assert operator.stop() == 0
    assert operator.faults == []
