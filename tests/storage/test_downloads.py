"""Downloads retry transient errors, and report permanent errors immediately."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import fsspec
import pytest

from strandline.plan.errors import code_of
from strandline.storage import downloads
from strandline.storage.downloads import (
    PAUSES,
    NothingThereError,
    UnreachableError,
    copy_matching,
    download,
)
from strandline_api.outcome.exit_codes import ExitCode

CONTENT = b"some code\n"
CUT = -200


class Web:
    """A web server that answers with these codes in turn, and then repeats the last code.

    For `CUT`, the connection is lost in the middle of the answer.
    """

    def __init__(self, codes: list[int]) -> None:
        self.codes = codes
        self.asked = 0
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code = web.codes[min(web.asked, len(web.codes) - 1)]
                web.asked += 1
                self.send_response(200 if code == CUT else code)
                self.send_header("Content-Length", str(len(CONTENT)))
                self.end_headers()
                if code == CUT:
                    self.wfile.write(CONTENT[:4])  # then the connection is closed
                else:
                    self.wfile.write(CONTENT if code == 200 else b"x" * len(CONTENT))

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/code.zip"


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web([200])
    yield web
    web.server.shutdown()
    web.server.server_close()


@pytest.fixture
def pauses() -> list[float]:
    return []


def test_a_file_is_fetched_by_http_by_fsspec_and_from_a_path(web: Web, tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe_file("/bucket/code.zip", CONTENT)
    (tmp_path / "code.zip").write_bytes(CONTENT)
    places = [web.url, "memory://bucket/code.zip", str(tmp_path / "code.zip")]
    places.append(f"file://{tmp_path / 'code.zip'}")
    for number, url in enumerate(places):
        target = tmp_path / str(number)
        assert download(url, target, lambda _: None) == sha256(CONTENT).hexdigest()
        assert target.read_bytes() == CONTENT


def test_requests_to_a_busy_server_are_retried(
    web: Web, tmp_path: Path, pauses: list[float]
) -> None:
    web.codes = [503, 429, 200]
    assert download(web.url, tmp_path / "a", pauses.append) == sha256(CONTENT).hexdigest()
    assert (web.asked, pauses) == (3, list(PAUSES))


def test_a_server_that_stays_busy_is_a_transient_error(
    web: Web, tmp_path: Path, pauses: list[float]
) -> None:
    web.codes = [500]
    with pytest.raises(UnreachableError, match="the server returned 500") as told:
        download(web.url, tmp_path / "a", pauses.append)
    assert code_of(told.value) is ExitCode.APPLICATION_ERROR
    assert (web.asked, pauses) == (3, list(PAUSES))


def test_a_refused_connection_is_retried(web: Web, tmp_path: Path, pauses: list[float]) -> None:
    url = web.url
    web.server.server_close()
    with pytest.raises(UnreachableError, match="can't be reached"):
        download(url, tmp_path / "a", pauses.append)
    assert pauses == list(PAUSES)


def test_a_truncated_answer_is_requested_again(
    web: Web, tmp_path: Path, pauses: list[float]
) -> None:
    web.codes = [CUT, 200]
    assert download(web.url, tmp_path / "a", pauses.append) == sha256(CONTENT).hexdigest()
    assert (tmp_path / "a").read_bytes() == CONTENT
    web.codes = [CUT]
    with pytest.raises(
        UnreachableError, match=r"can't be reached \(the response ended 6 bytes early\)"
    ):
        download(web.url, tmp_path / "b", pauses.append)


@pytest.mark.parametrize("code", [401, 403, 404, 410])
def test_a_missing_file_is_reported_at_once(
    web: Web, tmp_path: Path, pauses: list[float], code: int
) -> None:
    web.codes = [code]
    with pytest.raises(NothingThereError, match=f"code.zip: the server returned {code}") as told:
        download(web.url, tmp_path / "a", pauses.append)
    assert code_of(told.value) is ExitCode.BAD_SPEC
    assert (web.asked, pauses) == (1, [])


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory://bucket/missing.zip", "the file does not exist"),
        ("/nowhere/code.zip", "the file does not exist"),
        ("nonsense://bucket/code.zip", "nonsense"),
    ],
)
def test_an_invalid_place_is_reported_at_once(
    tmp_path: Path, pauses: list[float], url: str, words: str
) -> None:
    with pytest.raises(NothingThereError) as told:
        download(url, tmp_path / "a", pauses.append)
    assert url in str(told.value)
    assert words in str(told.value)
    assert pauses == []


def test_an_oversized_file_is_not_downloaded(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MOST_BYTES", len(CONTENT) - 1)
    with pytest.raises(NothingThereError, match="the file has more than"):
        download(web.url, tmp_path / "a", lambda _: None)


def test_files_of_one_kind_are_copied_from_a_folder(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("a.whl", "b.whl", "notes.txt", "deeper/c.whl"):
        memory.pipe_file(f"/shelf/wheels/{name}", name.encode())
    assert copy_matching("memory://shelf/wheels", ".whl", tmp_path) == 2
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a.whl": "a.whl", "b.whl": "b.whl"
    }  # fmt: skip
    with pytest.raises(NothingThereError, match="memory://shelf/none"):
        copy_matching("memory://shelf/none", ".whl", tmp_path)
