"""What a server sends, as JSON, whatever its objects hold; and YAML in them.

Python's reader gives up on the whole of a list or a stream where one value in it is nested deep,
and the API server takes ten thousand levels. Here such a value is cut at some depth, and all else
is as it was. YAML can say in a few lines what takes all memory; such is refused. This room must not
know which kinds of objects there are.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import aiohttp
import yaml

# Below it anything is cut: deeper than any object has to be, and less than Python can read.
MOST_LEVELS = 128
CUT = "(cut: nested too deep)"
# So few brackets are nested no deeper than Python can read.
_HARMLESS = 900
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_OPENING = frozenset({b"{", b"["})
_BRACKETS = frozenset({b"{", b"[", b"}", b"]"})
_CHUNK = 1 << 20


def parse_document(text: bytes | str) -> Any:  # noqa: ANN401 - whatever it is
    """Return what JSON says; a value below `MOST_LEVELS` levels is a text that says so.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(text)
    except RecursionError:
        content = text.encode() if isinstance(text, str) else text
        return json.loads(cut_depth(content))


def cut_depth(text: bytes) -> bytes:
    """Return JSON in which what is nested deeper than `MOST_LEVELS` is a text in its place."""
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
    if depth <= MOST_LEVELS:  # a deeper document was cut off, and is no JSON
        yield text[begin:]


MOST_YAML_BYTES = 64 * 1024
_MOST_YAML_LEVELS = 32
# libyaml's is ten times as quick as Python's own.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_plain_yaml(text: str) -> object:
    """Return what YAML of one document says, without what makes much of little.

    Raises:
        ValueError: it is no YAML, is too long or nested too deep, or has aliases.
    """
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_YAML_BYTES:
        raise ValueError(f"it has {size:,} bytes, and {MOST_YAML_BYTES:,} are read")
    try:
        problem = _find_trick(yaml.parse(text, Loader=_LOADER))
        value: object = None if problem else yaml.load(text, Loader=_LOADER)  # noqa: S506 - safe
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"this is no YAML: {' '.join(str(error).split())}") from None
    if problem:
        raise ValueError(problem)
    return value


def _find_trick(events: Iterator[Any]) -> str:
    """Return what makes much of little in a document; empty: nothing does."""
    depth = 0
    for event in events:
        if type(event) is yaml.AliasEvent:
            where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
            return f"{where}aliases are not taken here; write it out"
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_YAML_LEVELS:
            return f"it is nested more than {_MOST_YAML_LEVELS} levels deep"
    return ""


class CuttingResponse(aiohttp.ClientResponse):
    """An answer whose JSON can be read by a library that knows nothing of depth."""

    async def json(self, **_: Any) -> Any:  # noqa: ANN401 - as aiohttp has it
        """Return what the whole answer says."""
        return parse_document(await self.read())

    async def start(self, connection: Any) -> CuttingResponse:  # noqa: ANN401 - the same
        """Begin to receive; the content is read by lines that are cut."""
        await super().start(connection)
        self.content = _CuttingContent(self.content)  # type: ignore[assignment]
        return self


class _CuttingContent:
    """A stream of lines, each a document; else it is what it was."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        return getattr(self._content, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield whole lines."""
        rest = b""
        async for data in self._content.iter_chunked(_CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield cut_line(line) + b"\n"
        if rest:
            yield cut_line(rest)


def cut_line(line: bytes) -> bytes:
    """Return a document in which nothing is nested too deep for Python."""
    is_harmless = line.count(b"{") + line.count(b"[") < _HARMLESS
    return line if is_harmless else cut_depth(line)


def open_cutting_session(
    security: ssl.SSLContext, headers: Mapping[str, str]
) -> aiohttp.ClientSession:
    """Open connections without a limit, of which all answers are read so."""
    connector = aiohttp.TCPConnector(limit=0, ssl=security)
    return aiohttp.ClientSession(
        connector=connector, headers=headers, response_class=CuttingResponse
    )
