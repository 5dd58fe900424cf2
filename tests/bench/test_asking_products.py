"""Each product sends as many requests to a server as ours; speed is not tested."""

from __future__ import annotations

from pathlib import Path

import httpx

from strandline_bench.asking import products
from strandline_bench.asking.programs import PROGRAMS, Asking
from strandline_bench.asking.quick_server import ASKED, started_server
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL


def test_each_installed_product_requests_all_rows(tmp_path: Path) -> None:
    with started_server(0.001) as url:
        rows = products.measure_products("few", Asking(url, 40, 8, tmp_path), 1)
    assert len(rows) == len(PROGRAMS)
    found = [row.measured for row in rows if row.measured != HOW_TO_INSTALL]
    assert found  # Ray Data is always installed
    assert all("requests/s" in measured for measured in found)


def test_the_server_counts_responses_and_resets_the_counts_on_read() -> None:
    with started_server(0.001) as url, httpx.Client() as client:
        for _ in range(3):
            client.post(f"{url}/v1/chat/completions", json={"model": "quick"})
        assert client.get(f"{url}/v1/models").status_code == 200  # not counted as a request
        found = [client.get(f"{url}/{ASKED}").json()["answers"] for _ in range(2)]
    assert found == [3, 0]
