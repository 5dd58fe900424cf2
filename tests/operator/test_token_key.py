"""The key for attempts' tokens is created once, and the next operator reads the same key."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import pytest

from fake_api import Call, FakeApi
from strandline_operator.cluster.errors import Forbidden, Unavailable
from strandline_operator.cluster.token_key import TokenKeyError, name_key, read_key
from strandline_operator.model.plan import Resource

ACCOUNT = "strandline/operator"
NAME = name_key("operator")


def draw_from(letters: Iterator[int]) -> Any:
    return lambda count: bytes([next(letters)]) * count


def read(api: FakeApi, account: str = ACCOUNT, first: int = 1) -> bytes:
    async def sleep(_: float) -> None:
        api.before.clear()  # the server answers again

    draw = draw_from(iter(range(first, 100)))
    return asyncio.run(read_key(api, account, draw, sleep))


def test_the_next_operator_has_the_same_key() -> None:
    api = FakeApi()
    assert read(api) == read(api, first=50) == b"\x01" * 32
    (secret,) = api.store.list(Resource.SECRET)
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == (NAME, "strandline")


def test_only_one_of_two_starting_operators_creates_the_key() -> None:
    api, other = FakeApi(), FakeApi()
    read(other, first=50)
    (theirs,) = other.store.list(Resource.SECRET)

    def be_faster(call: Call) -> None:
        if call.verb == "create" and not api.store.list(Resource.SECRET):
            api.store.create(Resource.SECRET, "strandline", theirs)

    api.before.append(be_faster)
    assert read(api) == bytes([50]) * 32


def test_an_unavailable_server_is_awaited() -> None:
    api = FakeApi()

    def be_away(_: Call) -> None:
        raise Unavailable(503, "", "no answer")

    api.before.append(be_away)
    assert read(api) == b"\x01" * 32


def test_without_permission_the_key_is_local_to_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = FakeApi()

    def refuse(call: Call) -> None:
        if call.resource is Resource.SECRET:
            raise Forbidden(403, "Forbidden", "secrets is forbidden")

    api.before.append(refuse)
    assert read(api) == b"\x01" * 32
    assert f"strandline/{NAME}" in caplog.text
    assert "grant the operator the Role" in caplog.text


def test_an_operator_without_an_account_makes_no_request() -> None:
    api = FakeApi()
    assert read(api, account="") == b"\x01" * 32
    assert api.calls == []


@pytest.mark.parametrize(
    "data", [None, {}, {"key": "not base64"}, {"key": base64.b64encode(b"short").decode()}]
)
def test_a_secret_without_a_key_is_named(data: dict[str, str] | None) -> None:
    api = FakeApi()
    body = {"metadata": {"name": NAME, "namespace": "strandline"}, "data": data}
    api.store.create(Resource.SECRET, "strandline", body)
    with pytest.raises(TokenKeyError, match=f"strandline/{NAME} must have 32 bytes"):
        read(api)
