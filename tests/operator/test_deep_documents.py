"""JSON from a server is read even if its values are deeply nested."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.documents.depth import MOST_LEVELS as MOST_OF_A_SPEC
from strandline_api.documents.depth import check_depth
from strandline_api.documents.problems import SpecError
from strandline_operator.cluster.connection import Credentials
from strandline_operator.cluster.documents import (
    CUT,
    MOST_LEVELS,
    cut_depth,
    cut_line,
    parse_document,
)
from strandline_operator.handlers.registry import build_connection, open_session

texts = st.text(st.characters(codec="utf-8") | st.sampled_from('{}[]"\\'), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def nest(value: object, levels: int, *, in_lists: bool) -> bytes:
    begin, end = (b"[", b"]") if in_lists else (b'{"a":', b"}")
    return begin * levels + json.dumps(value).encode() + end * levels


def unwrap(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = value[0] if isinstance(value, list) else value["a"]
    return value


@given(values)
def test_law_shallow_documents_are_unchanged(value: object) -> None:
    assert json.loads(cut_depth(json.dumps(value).encode())) == value
    assert json.loads(cut_line(json.dumps(value, ensure_ascii=False).encode())) == value


@given(values, st.integers(1, 3000), st.booleans(), values)
def test_law_deep_values_are_cut_and_the_rest_stays(
    value: object, levels: int, in_lists: bool, beside: object
) -> None:
    deep = nest(value, MOST_LEVELS + levels, in_lists=in_lists)
    text = b'{"deep":' + deep + b',"beside":' + json.dumps(beside).encode() + b"}"
    read = json.loads(cut_depth(text))
    assert read["beside"] == beside
    assert unwrap(read["deep"], MOST_LEVELS - 1) == CUT


@pytest.mark.parametrize("levels", [1500, 10_000, 200_000])
def test_a_list_with_a_deep_item_is_read(levels: int) -> None:
    items = [b'{"name":"a"}', nest(1, levels, in_lists=False), b'{"name":"b"}']
    read = parse_document(b'{"items":[' + b",".join(items) + b"]}")
    assert [item.get("name") for item in read["items"]] == ["a", None, "b"]


def test_invalid_json_is_still_rejected() -> None:
    for text in (b"{", b"[" * 5000, b'{"a":"' + b"{" * 2000):
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            parse_document(text)


def test_kopf_reads_deep_responses_and_streams() -> None:
    """Read lines from chunks of any length."""
    deep = nest(1, 5000, in_lists=False)
    lines = b'{"n":1}\n' + deep + b'\n{"n":2}\n{"n":3}'

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/whole":
            return web.Response(body=b'{"items":[' + deep + b"]}", content_type="application/json")
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(lines), 997):
            await response.write(lines[at : at + 997])
        return response

    async def ask() -> tuple[Any, list[bytes]]:
        runner = web.AppRunner(_serve(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        info = Credentials(f"http://127.0.0.1:{port}", "", None, None, None, is_insecure=True)
        session = open_session(build_connection(info))
        try:
            async with session.aiohttp_session.get(f"{info.server}/whole") as whole:
                document = await whole.json()
            async with session.aiohttp_session.get(f"{info.server}/stream") as stream:
                found = [part async for part in _iterate(stream)]
        finally:
            await session.aiohttp_session.close()
            await runner.cleanup()
        return document, found

    document, found = asyncio.run(ask())
    assert len(document["items"]) == 1
    read = [json.loads(line) for line in b"".join(found).splitlines()]
    assert [line.get("n") for line in read] == [1, None, 2, 3]


def _serve(answer: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/{page}", answer)
    return app


async def _iterate(response: Any) -> AsyncIterator[bytes]:
    async for part in response.content.iter_chunked(1 << 20):
        yield part


@pytest.mark.parametrize("levels", [MOST_OF_A_SPEC + 1, 900, 50_000])
def test_a_deep_spec_is_rejected_with_its_path(levels: int) -> None:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    with pytest.raises(SpecError) as raised:
        check_depth({"source": {"with": value}})
    told = "spec.source.with.a.a.a.a: must be nested at most 64 levels"
    assert str(raised.value).startswith(told)


def test_a_spec_with_the_maximum_depth_is_accepted() -> None:
    value: Any = 1
    for _ in range(MOST_OF_A_SPEC):
        value = [value]
    check_depth(value)


def test_values_repeated_by_aliases_are_checked_once() -> None:
    value: Any = [1]
    for _ in range(40):
        value = [value] * 9
    check_depth(value)
