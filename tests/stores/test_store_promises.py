"""Properties that every store must have: versions, conditional puts, and request identities."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloud_servers import ACCOUNT, ACCOUNT_KEY, AzureStore
from store_runs import COUNT, StoreRuns
from store_server import KEY, SECRET, Store
from strandline.plan.task import Task
from strandline.storage.access import stores
from strandline.storage.access.store_access import StoreAccess
from strandline.storage.access.stores import open_store, use_access
from strandline.storage.outputs.ownership import Owner, PlaceTakenError, claim_location, read_owner
from strandline_packs.sources.files import Files
from strandline_packs.sources.parquet_source import ParquetRowGroups
from strandline_packs.tables.read_parquet import ReadParquet

BUCKET = "promises"


@pytest.fixture(scope="session")
def filled(every_cloud: Store) -> Store:
    files = every_cloud.open()
    files.mkdir(BUCKET)
    files.pipe_file(f"{BUCKET}/in/a.txt", b"first")
    return every_cloud


@pytest.fixture(autouse=True)
def _keys(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in filled.variables.items():
        monkeypatch.setenv(name, value)


def find_version(url: str) -> str:
    (source,) = Files(paths=[url]).list_sources()
    return source.version


def test_a_version_is_the_same_by_name_and_pattern_and_changes_with_content(
    filled: Store,
) -> None:
    base = f"{filled.protocol}://{BUCKET}/in"
    first = find_version(f"{base}/a.txt")
    assert find_version(f"{base}/*.txt") == find_version(f"{base}/**") == first
    filled.open().pipe_file(f"{BUCKET}/in/a.txt", b"other")  # with the same size
    assert find_version(f"{base}/a.txt") == find_version(f"{base}/*") != first
    stage = Files(paths=[f"{base}/**"])
    list(stage.list_sources())
    assert stage.counters == {}  # no counter reports indistinguishable versions


def test_only_a_row_group_is_fetched_not_the_whole_file(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []

    def count(fetch: Callable[..., bytes], _: str) -> Callable[..., bytes]:
        def fetch_part(start: int, end: int, *words: Any) -> bytes:
            fetched.append(end - start)
            return fetch(start, end, *words)

        return fetch_part

    monkeypatch.setattr(stores, "_watch", count)
    table = pa.table({name: np.random.default_rng(0).random(56_000) for name in "ab"})
    content = io.BytesIO()
    pq.write_table(table, content, row_group_size=7_000, use_dictionary=False)
    filled.open().pipe_file(f"{BUCKET}/parted/a.parquet", content.getvalue())
    url = f"{filled.protocol}://{BUCKET}/parted/a.parquet"
    for at, source in enumerate(ParquetRowGroups(paths=[url]).list_sources()):
        fetched.clear()
        rows = [task.table for task in ReadParquet().process(Task(source.data))]
        assert pa.concat_tables(rows).select(["a", "b"]) == table.slice(at * 7_000, 7_000)
        assert sum(fetched) <= len(content.getvalue()) / 8 + (256 << 10)
    assert at == 7


def test_only_one_of_several_concurrent_owners_claims_a_location(filled: Store) -> None:
    place = f"{filled.protocol}://{BUCKET}/out"
    owners = [Owner(f"{number}" * 32, f"team/{number}") for number in range(4)]
    refused: list[Owner] = []

    def claim(owner: Owner) -> None:
        try:
            claim_location(place, owner)
        except PlaceTakenError:
            refused.append(owner)

    threads = [threading.Thread(target=claim, args=(owner,)) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == len(owners) - 1
    assert read_owner(place) not in refused


def test_a_create_only_put_never_replaces_an_object(filled: Store) -> None:
    files, path = open_store(f"{filled.protocol}://{BUCKET}/once.txt")
    files.pipe_file(path, b"first", mode="create")
    with pytest.raises(FileExistsError):
        files.pipe_file(path, b"second", mode="create")
    assert files.cat_file(path) == b"first"


def test_listed_files_have_the_account_of_the_url(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(filled, AzureStore):
        pytest.skip("only Azure's URLs have an account")
    base = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net/in"
    monkeypatch.setenv("READER", filled.connect(ACCOUNT_KEY))
    use_access({base: StoreAccess(credentials={"connectionString": "READER"})})
    try:
        (source,) = Files(paths=[f"{base}/*.txt"]).list_sources()
        (path,) = source.data.column("path").to_pylist()
    finally:
        use_access({})
    assert path == f"{base}/a.txt"


class Platform:
    """Issues credentials as a cloud platform does for each pod. They expire in a minute."""

    def __init__(self) -> None:
        self.asked = 0
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                platform.asked += 1
                end = datetime.now(UTC) + timedelta(seconds=50)
                facts = {
                    "AccessKeyId": KEY,
                    "SecretAccessKey": SECRET,
                    "Token": "",
                    "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
                content = json.dumps(facts).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/keys"


def test_platform_credentials_are_renewed_during_a_run(filled: Store, tmp_path: Path) -> None:
    if filled.protocol != "s3":
        pytest.skip("no server here plays the platform of Google or Azure")
    platform = Platform()
    thread = threading.Thread(target=platform.server.serve_forever, daemon=True)
    thread.start()
    runs = StoreRuns(filled, "renewed", tmp_path)
    given = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    try:
        done = runs.run(
            *("run", "--engine", "inline", "--volume", str(tmp_path / "volume")),
            output="out",
            extra={**given, "AWS_CONTAINER_CREDENTIALS_FULL_URI": platform.url},
        )
    finally:
        platform.server.shutdown()
        platform.server.server_close()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert len(runs.read_outputs("out")) == COUNT
    assert platform.asked > 1
