"""Notices of a departing node reach the parent over HTTP and the driver by a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.run.supervise import status_server as serving
from strandline.run.supervise.notices import (
    NodeNotice,
    NoticeBoard,
    NoticeError,
    NoticeFile,
    parse_notice,
    read_pending,
)
from strandline.run.supervise.status_server import AttemptServer
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.outcome.reader_token import (
    HEADER,
    derive_former_notice_token,
    derive_notice_token,
    derive_token,
    digest_token,
)

TOKEN = derive_notice_token(b"key", "8a1f")
PID = 7
NOTICE: dict[str, Any] = {"node": "10.0.0.7", "seconds": 30, "why": "spot node n is taken back"}


class Stand:
    """A notice server, its file of notices, and a count of stop requests."""

    def __init__(self, folder: Path, digest: str) -> None:
        self.progress = folder / "progress.json"
        self.file = NoticeFile(folder / "notices.json")
        self.now = 1000.0
        self.stops = 0
        self.server = AttemptServer(0, notifier=digest)
        board = NoticeBoard(self.file, self.stop, lambda: self.now, lambda each: each == "10.0.0.1")
        self.server.watch(self.progress, lambda: PID, lambda: "", board=board)

    def stop(self) -> None:
        self.stops += 1

    def show(self, **shown: Any) -> None:
        self.progress.write_text(json.dumps({"pid": PID, **shown}))

    def post(self, content: Any, token: str = TOKEN, path: str = "/notice") -> tuple[int, Any]:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        with closing(HTTPConnection("127.0.0.1", self.server.port, timeout=10)) as connection:
            connection.request("POST", path, body, {HEADER: token})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """Start a server that accepts notices."""
    stand = Stand(tmp_path, digest_token(TOKEN))
    yield stand
    stand.server.close()


def test_the_answer_counts_the_drivers_work_on_the_node(stand: Stand) -> None:
    stand.show(leaving={"10.0.0.7": 3})
    assert stand.post(NOTICE) == (200, {"pending": 3})
    assert stand.file.read() == (NodeNotice("10.0.0.7", 1030.0, NOTICE["why"]),)
    stand.show(leaving={"10.0.0.7": 0})
    assert stand.post(NOTICE) == (200, {"pending": 0})


def test_before_a_driver_works_and_after_its_end_nothing_is_pending(stand: Stand) -> None:
    assert stand.post(NOTICE) == (200, {"pending": 0})
    assert [each.node for each in stand.file.read()] == ["10.0.0.7"]  # for a later driver
    stand.show(leaving={"10.0.0.7": 3})
    stand.server.end(DriverOutcome(exit_code=0, message="done"), lambda _: stand.server.close())
    stand_again = stand.server.take_notice("/notice", TOKEN, json.dumps(NOTICE).encode())
    assert json.loads(stand_again[2]) == {"pending": 0}


def test_a_driver_that_has_not_read_the_notice_may_have_work_on_the_node(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "NOTICE_SECONDS", 0.2)
    stand.show(leaving={"10.0.0.8": 0})
    assert stand.post(NOTICE) == (200, {"pending": 1})


def test_law_nobody_tells_without_the_token(stand: Stand) -> None:
    by_uid = (derive_token("8a1f"), derive_former_notice_token("8a1f"))
    for token in ("", "guessed", digest_token(TOKEN), *by_uid, "t\xf6kn"):
        assert stand.post(NOTICE, token)[0] == 401
    assert stand.file.read() == ()


def test_where_no_digest_is_known_nothing_can_be_told(tmp_path: Path) -> None:
    stand = Stand(tmp_path, "")
    assert stand.post(NOTICE)[0] == 404
    assert stand.file.read() == ()
    stand.server.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"[" * 3000, {}, {"node": "n"}, {"node": "", "seconds": 1}]
    + [{"node": "n", "seconds": each} for each in (-1, True, None, "1", 1e300)]
    + [{"node": 7, "seconds": 1}, {"node": "n" * 254, "seconds": 1}]
    + [{"node": "n", "seconds": 1, "why": 7}, b'{"node": "n", "seconds": NaN}'],
)
def test_invalid_notices_are_refused(stand: Stand, content: Any) -> None:
    status, answer = stand.post(content)
    assert (status, list(answer)) == (400, ["error"])
    assert stand.file.read() == ()


def test_an_endless_body_is_not_read(stand: Stand) -> None:
    assert stand.post(b"x" * 5000)[0] == 400
    assert stand.post(NOTICE, path="/progress")[0] == 404


def test_a_machine_is_stopped_once_for_its_own_end(stand: Stand) -> None:
    for _ in range(3):
        assert stand.post({**NOTICE, "node": "10.0.0.1"})[0] == 200
    assert stand.stops == 1
    stand.post(NOTICE)
    assert stand.stops == 1


@given(ends=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 1e4)), max_size=8))
def test_law_a_file_holds_the_earliest_end_of_each_node(
    ends: list[tuple[str, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("notices") / "notices.json"
    written, read = NoticeFile(path), NoticeFile(path)
    earliest: dict[str, float] = {}
    for node, end in ends:
        written.add(NodeNotice(node, end), 0.0)
        earliest[node] = min(end, earliest.get(node, end))
        assert {each.node: each.goes_at for each in read.read()} == earliest


def test_notices_of_another_attempt_are_forgotten(tmp_path: Path) -> None:
    file = NoticeFile(tmp_path / "notices.json")
    file.clear()
    file.add(NodeNotice("n", 1.0), 0.0)
    file.clear()
    assert file.read() == ()


def test_a_notice_may_reuse_the_name_of_an_expired_node(tmp_path: Path) -> None:
    file = NoticeFile(tmp_path / "notices.json")
    file.add(NodeNotice("n", 10.0), 0.0)
    file.add(NodeNotice("n", 500.0), 200.0)
    assert file.read() == (NodeNotice("n", 500.0),)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'[["n"]]', b'{"a": 1}', b"\xff"], ids=str)
def test_a_broken_file_holds_no_notices(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "notices.json").write_bytes(content)
    assert NoticeFile(tmp_path / "notices.json").read() == ()


@given(shown=st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_law_any_progress_file_is_readable(shown: Any) -> None:
    for each in (shown, {"leaving": shown}, {"leaving": {"n": shown}}):
        pending = read_pending(each, "n")
        assert pending is None or pending >= 0


def test_messages_stay_on_one_line() -> None:
    body = json.dumps({"node": "n", "seconds": 1, "why": "a\nb" + "c" * 600}).encode()
    why = parse_notice(body, 0.0).why
    assert why.startswith("a bc")
    assert len(why) == 500
    with pytest.raises(NoticeError):
        parse_notice(b"1", 0.0)
