"""Credentials that expire during a run give one message, and the next run resumes with new ones.

A missing permission for one file is different: it fails that file's source.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from urllib.parse import unquote
from zlib import crc32

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cloud_servers import ACCOUNT, ACCOUNT_KEY, AzureStore
from store_gate import EXPIRED, FORBIDDEN, put_before
from store_runs import COUNT, StoreRuns
from store_server import Store
from strandline_api.outcome.exit_codes import ExitCode

REFUSALS = 20  # more than this, if a library retries for minutes


@pytest.fixture
def runs(cloud: Store, tmp_path: Path, request: pytest.FixtureRequest) -> StoreRuns:
    return StoreRuns(cloud, f"bucket-{crc32(request.node.nodeid.encode())}", tmp_path)


def list_errors(done: CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("strandline: error")]


def assert_refused(done: CompletedProcess[str], place: str, said: str) -> None:
    """Check that one sentence names the store and the remedy, and that no retry follows."""
    assert done.returncode == ExitCode.APPLICATION_ERROR, done.stdout + done.stderr
    (error,) = list_errors(done)
    assert place in error
    assert said in error
    assert "provide valid credentials" in error
    assert not re.search(r"retry (in|\d+ of) ", done.stderr)
    assert "fix the sources" not in done.stderr


@pytest.mark.parametrize(
    ("engine", "refused"), [("inline", "GET"), ("inline", "PUT"), ("ray", "GET")]
)
def test_a_run_ends_keeps_finished_sources_and_resumes_with_new_credentials(
    cloud: Store, runs: StoreRuns, tmp_path: Path, engine: str, refused: str
) -> None:
    if engine == "ray" and cloud.protocol != "abfs":
        pytest.skip("one whose errors are no system's is enough to see them travel")
    words = ("run", "--engine", engine, "--volume", str(tmp_path / "volume"))
    puts: list[str] = []
    over = threading.Event()

    def refuses(asked: str, path: str) -> bool:
        if asked in {"PUT", "POST"}:
            puts.append(path)
        if (refused == "GET" and "06.jsonl" in path) or (refused == "PUT" and len(puts) == 8):
            over.set()
        return over.is_set()

    answer = EXPIRED[cloud.protocol]
    with put_before(cloud, answer, refuses) as gate:
        first = runs.run(*words, output="out", extra=gate.variables)
        assert_refused(first, f"{runs.url}/", answer.said)
        finished = runs.read_finished(tmp_path / "volume")
        assert engine == "ray" or finished
        second = runs.run(*words, output="out", extra=gate.variables)
        assert_refused(second, f"{runs.url}/out", answer.said)
        assert gate.refused < REFUSALS
    runs.take_opened()

    third = runs.run(*words, output="out")

    assert third.returncode == 0, third.stderr
    assert not finished.intersection(runs.take_opened())
    rows = [line for text in runs.read_outputs("out").values() for line in text.splitlines()]
    assert len(rows) == sum(range(COUNT + 1))


def test_a_missing_permission_for_one_file_fails_only_its_source(
    cloud: Store, runs: StoreRuns, tmp_path: Path
) -> None:
    words = ("run", "--engine", "inline", "--volume", str(tmp_path / "volume"))
    answer = FORBIDDEN[cloud.protocol]

    def refuses(_: str, path: str) -> bool:
        return "in/06.jsonl" in unquote(path)

    with put_before(cloud, answer, refuses) as gate:
        done = runs.run(*words, output="out", extra=gate.variables)

    assert done.returncode == ExitCode.SOURCES_FAILED, done.stderr
    assert len(runs.read_finished(tmp_path / "volume")) == COUNT - 1
    shown = runs.run("failures", "--volume", str(tmp_path / "volume"), output="out").stdout
    assert f"{runs.url}/in/06.jsonl" in shown
    assert answer.said in shown


def test_skippable_files_are_not_skipped_for_expired_credentials(
    cloud: Store, runs: StoreRuns, tmp_path: Path
) -> None:
    words = ("run", "--engine", "inline", "--volume", str(tmp_path / "volume"))
    skips = '[{"use": "read-files", "with": {"onError": "drop"}}]'
    more = ("--set", f"spec.stages={skips}")

    def refuses(_: str, path: str) -> bool:
        return "jsonl" in path

    answer = EXPIRED[cloud.protocol]
    with put_before(cloud, answer, refuses) as gate:
        done = runs.run(*words, *more, output="out", extra=gate.variables)

    assert_refused(done, f"{runs.url}/in/", answer.said)
    assert not runs.read_finished(tmp_path / "volume")


def test_an_expired_azure_token_is_reported(cloud: Store, runs: StoreRuns, tmp_path: Path) -> None:
    if not isinstance(cloud, AzureStore):
        pytest.skip("only Azure has tokens that are signed beforehand")
    words = ("run", "--engine", "inline", "--volume", str(tmp_path / "volume"))

    def run(minutes: int) -> CompletedProcess[str]:
        token = generate_account_sas(
            ACCOUNT,
            ACCOUNT_KEY,
            resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(
                read=True, write=True, delete=True, list=True, add=True, create=True
            ),
            expiry=datetime.now(UTC) + timedelta(minutes=minutes),
            start=datetime.now(UTC) - timedelta(hours=1),
        )
        connection = f"BlobEndpoint={cloud.url}/{ACCOUNT};SharedAccessSignature={token};"
        done = runs.run(*words, output="out", extra={"AZURE_STORAGE_CONNECTION_STRING": connection})
        assert token.rpartition("sig=")[2] not in done.stdout + done.stderr
        return done

    assert_refused(run(-1), f"{runs.url}/out", "authenticate the request")
    fresh = run(30)
    assert fresh.returncode == 0, fresh.stderr


@pytest.fixture
def google_account(tmp_path: Path) -> Iterator[Path]:
    """Provide a key file of a deleted account, for which no token is issued."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            facts = {
                "error": "invalid_grant",
                "error_description": "Invalid JWT: account not found",
            }
            content = json.dumps(facts).encode()
            self.send_response(400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    facts = {
        "type": "service_account",
        "client_email": "reader@project.iam.gserviceaccount.com",
        "private_key": key.decode(),
        "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token",
    }
    path = tmp_path / "account.json"
    path.write_text(json.dumps(facts))
    yield path
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_google_account_without_a_token_is_reported(
    cloud: Store, runs: StoreRuns, tmp_path: Path, google_account: Path
) -> None:
    if cloud.protocol != "gs":
        pytest.skip("only Google's accounts ask for a token")
    words = ("run", "--engine", "inline", "--volume", str(tmp_path / "volume"))
    extra = {"GOOGLE_APPLICATION_CREDENTIALS": str(google_account)}

    done = runs.run(*words, output="out", extra=extra)

    assert_refused(done, f"{runs.url}/out", "invalid_grant")
