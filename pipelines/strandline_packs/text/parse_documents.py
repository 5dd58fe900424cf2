"""The stage `parse-documents`: reads files of several formats as rows of text."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator

import pyarrow as pa
from pydantic import Field, field_validator
from selectolax.lexbor import LexborHTMLParser, LexborNode

from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.columns import find_column, list_strings
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of this mark
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class UndecodableError(ValueError):
    """Raised if the bytes are not text in any of the encodings that were tried."""


def decode_text(content: bytes, fallback: str | None) -> str:
    """Return the text of a file.

    Args:
        content: all bytes of the file.
        fallback: encoding for text without byte order mark that is not UTF-8; None rejects such
            text.

    Raises:
        UndecodableError: the content is binary, or valid in neither encoding.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decode(content, encoding)
    # Text in UTF-8 or in an 8-bit encoding has no zero byte.
    if b"\0" in content:
        msg = "binary"
        raise UndecodableError(msg)
    try:
        return content.decode()
    except UnicodeDecodeError:
        if fallback is None:
            msg = "not utf-8"
            raise UndecodableError(msg) from None
    return _decode(content, fallback)


def _decode(content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        msg = f"not {encoding}"
        raise UndecodableError(msg) from error


_BOILERPLATE = (
    "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form",
    "button", "select", "iframe", "svg", "[role=navigation]", "[aria-hidden=true]", "[hidden]",
)  # fmt: skip
_MAIN = ("article", "main", "[role=main]")
_BLOCKS = (
    "p", "div", "li", "ul", "ol", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "br",
    "hr", "tr", "pre", "blockquote", "section", "article", "main", "table", "figure", "td", "th",
)  # fmt: skip


def extract_html_text(html: str) -> str:
    """Return the main text of a page, one line per block; empty if there is no text."""
    tree = LexborHTMLParser(html)
    body = tree.body
    if body is None:
        return ""
    for node in body.css(", ".join(_BOILERPLATE)):
        node.decompose()
    main = _find_main(body)
    for node in main.css(", ".join(_BLOCKS)):
        if node.mem_id != main.mem_id:
            node.insert_before("\n")
            node.insert_after("\n")
    lines = (" ".join(line.split()) for line in main.text(separator="").split("\n"))
    return "\n".join(line for line in lines if line)


def _find_main(body: LexborNode) -> LexborNode:
    """Return the only node that is marked as the main part, else the whole body."""
    for selector in _MAIN:
        found = body.css(selector)
        # A page with several articles is a list, so the whole body counts.
        if len(found) == 1:
            return found[0]
    return body


DOCUMENT_SCHEMA = pa.schema(
    [pa.field("key", pa.string()), pa.field("format", pa.string()), pa.field("text", pa.string())]
)
_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".html": "html", ".htm": "html"}


class ParseDocuments(Stage):
    """Reads `content` into rows of key, format, text: JSON Lines, HTML by suffix, else plain."""

    class Params(Stage.Params):
        """Configures how to read the content."""

        text_field: str = Field(default="text", description="Field of a JSON line with its text.")
        fallback_encoding: str | None = Field(
            default="cp1252",
            description=(
                "Encoding of text that is not UTF-8 and has no byte order mark; null drops such "
                "text."
            ),
        )
        bad_rows: BadInput = Field(
            default=BadInput.DROP,
            description="Undecodable files and lines that are not JSON: `drop` and count them, or "
            "`fail` the source.",
        )

        @field_validator("fallback_encoding")
        @classmethod
        def _check_encoding(cls, name: str | None) -> str | None:
            try:
                "".encode(name or "utf-8")
            except LookupError:
                msg = f"{name!r} is not a text encoding that Python supports"
                raise ValueError(msg) from None
            return name

    params: Params
    keeps_columns = False
    adds_columns = tuple(DOCUMENT_SCHEMA.names)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "content")

    def process(self, task: Task) -> Task | None:
        """Return a row per document.

        The key of a JSON line is the file's key, `#L`, and the line number.

        Raises:
            UnreadableFileError: content can't be parsed, and `badRows` is `fail`.
        """
        rows: list[tuple[str, str, str]] = []
        keys = list_strings(task.table, "key")
        contents = find_column(task.table, "content").to_pylist()
        for key, content in zip(keys, contents, strict=True):
            kind = _FORMATS.get(key[key.rfind(".") :].lower(), "plain")
            rows.extend((name, kind, text) for name, text in self._parse(key, kind, content))
        if not rows:
            return None
        arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        return task.replace(pa.Table.from_arrays(arrays, schema=DOCUMENT_SCHEMA))

    def _parse(self, key: str, kind: str, content: bytes) -> Iterator[tuple[str, str]]:
        try:
            text = decode_text(content, self.params.fallback_encoding)
        except UndecodableError as error:
            self._reject(key, str(error))
            return
        if kind == "jsonl":
            yield from self._parse_lines(key, text)
        else:
            yield key, extract_html_text(text) if kind == "html" else text

    def _parse_lines(self, key: str, text: str) -> Iterator[tuple[str, str]]:
        # Not `splitlines`: JSON may contain U+2028 and U+0085 within a text.
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            found = _read_field(line, self.params.text_field)
            if found is None:
                self._reject(f"{key}#L{number}", "not a JSON object with text")
            else:
                yield f"{key}#L{number}", found

    def _reject(self, key: str, reason: str) -> None:
        if self.params.bad_rows is BadInput.FAIL:
            msg = f"{key}: {reason}"
            raise UnreadableFileError(msg)
        self.count(f"dropped: {reason}")


def _read_field(line: str, field: str) -> str | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    value = row.get(field) if isinstance(row, dict) else None
    # JSON can escape unpaired surrogates, which no column can hold.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None
