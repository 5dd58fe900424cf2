"""Parses JSON from a server, and YAML inside it, even if the contents are hostile.

Python's JSON parser fails on a whole list or stream if one value is nested too deeply, and the API
server permits ten thousand levels. This module truncates values that are nested too deeply and
keeps the rest. YAML that expands to huge values is rejected. This module must not depend on the
kinds of objects.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import aiohttp
import yaml

# Values below this depth are truncated. No valid object needs more levels, and Python's parser
# supports more.
MOST_LEVELS = 128
CUT = "(cut: nested too deep)"
# A document with at most this many brackets can't exceed the depth limit of Python's parser.
_HARMLESS = 900
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_OPENING = frozenset({b"{", b"["})
_BRACKETS = frozenset({b"{", b"[", b"}", b"]"})
_CHUNK = 1 << 20


def parse_document(text: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse a JSON document, in which values below `MOST_LEVELS` levels become a placeholder text.

    Raises:
        ValueError: if the document is not JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        content = text.encode() if isinstance(text, str) else text
        return json.loads(cut_depth(content))


def cut_depth(text: bytes) -> bytes:
    """Return JSON in which a placeholder text replaces values nested deeper than `MOST_LEVELS`."""
    return b"".join(_cut(text))


def _cut(text: bytes) -> Iterator[bytes]:
    depth, begin = 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token not in _BRACKETS:
            continue
        if token in _OPENING:
            depth += 1
            if depth == MOST_LEVELS + 1:
                yield text[begin : match.start()]
        else:
            if depth == MOST_LEVELS + 1:
                yield json.dumps(CUT).encode()
                begin = match.end()
            depth -= 1
    if depth <= MOST_LEVELS:  # otherwise, the document ended early and is not valid JSON
        yield text[begin:]


MOST_YAML_BYTES = 64 * 1024
_MOST_YAML_LEVELS = 32
# libyaml's loader is ten times as fast as Python's.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plain_yaml(text: str) -> object:
    """Return the value of a single YAML document without aliases and other expanding constructs.

    Raises:
        ValueError: if the text is invalid, too long, nested too deeply, or has aliases.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_YAML_BYTES:
        raise ValueError(f"must have at most {MOST_YAML_BYTES:,} bytes, not {size:,}")
    try:
        problem = _find_trick(yaml.parse(text, Loader=_LOADER))
        value: object = None if problem else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"this is not YAML: {' '.join(str(error).split())}") from None
    if problem:
        raise ValueError(problem)
    return value


def _find_trick(events: Iterator[Any]) -> str:
    """Describe an expanding construct in a document. Return an empty string if there is none."""
    depth = 0
    for event in events:
        if type(event) is yaml.AliasEvent:
            where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            return f"{where}aliases are not supported; write the value out"
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_YAML_LEVELS:
            return f"must be nested at most {_MOST_YAML_LEVELS} levels deep"
    return ""


class CuttingResponse(aiohttp.ClientResponse):
    """A response with truncated JSON, for a library that has no depth limits."""

    async def json(self, **_: Any) -> Any:  # noqa: ANN401 - signature of aiohttp
        """Return the JSON value of the whole response."""
        return parse_document(await self.read())

    async def start(self, connection: Any) -> CuttingResponse:  # noqa: ANN401 - signature of aiohttp
        """Start the response, with content in which each line is truncated."""
        await super().start(connection)
        self.content = _CuttingContent(self.content)  # type: ignore[assignment]
        return self


class _CuttingContent:
    """A stream with one document per line. Other methods are those of the original stream."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._content, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield complete lines."""
        rest = b""
        async for data in self._content.iter_chunked(_CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield cut_line(line) + b"\n"
        if rest:
            yield cut_line(rest)


def cut_line(line: bytes) -> bytes:
    """Return a document without values that are nested too deeply for Python's parser."""
    is_harmless = line.count(b"{") + line.count(b"[") < _HARMLESS
    return line if is_harmless else cut_depth(line)


def open_cutting_session(
    security: ssl.SSLContext, headers: Mapping[str, str]
) -> aiohttp.ClientSession:
    """Open a session whose responses truncate deep JSON, and whose connections are unlimited."""
    connector = aiohttp.TCPConnector(limit=0, ssl=security)
    return aiohttp.ClientSession(
        connector=connector, headers=headers, response_class=CuttingResponse
    )
