"""Reads the text of an answer: a string, a list of parts, or missing if there is only reasoning.

This module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from strandline_packs.models.asking.answers import RowFault

# Fields for a model's reasoning, by the names that servers use.
_REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_TEXT_PARTS = frozenset({"text", "output_text"})
_REASONING_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking", "reasoning_text"})
# Matches reasoning at the start, as in `<think>...</think>`, or all text without an end tag.
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)\s*", re.DOTALL)
_UNCLEAN = re.compile("[\ud800-\udfff]")
_NO_TEXT = RowFault("malformed", "the answer has no text")
_ONLY_REASONING = RowFault("malformed", "the answer has reasoning but no text")


class TextContent(NamedTuple):
    """The content of a message.

    Attributes:
        text: text of the answer.
        refusal: the model's refusal; empty if the model answers.
        fault: reason to reject the text, or None for a valid text.
    """

    text: str
    refusal: str = ""
    fault: RowFault | None = None


def read_text_content(message: Mapping[str, Any]) -> TextContent:
    """Return the content of an assistant's message."""
    refusal = message.get("refusal")
    if refusal:
        return TextContent("", str(refusal))
    content, has_reasoning = message.get("content"), any(message.get(each) for each in _REASONING)
    if isinstance(content, list):
        result = _join_parts(content)
        has_reasoning |= any(_read_kind(part) in _REASONING_PARTS for part in content)
    elif isinstance(content, str):
        result = TextContent(content)
    else:
        result = TextContent("", fault=_NO_TEXT)
    has_reasoning |= _THOUGHT.match(result.text) is not None
    if has_reasoning and not result.refusal and not _THOUGHT.sub("", result.text, count=1).strip():
        return TextContent("", fault=_ONLY_REASONING)
    return result


def find_text_fault(text: str) -> RowFault | None:
    """Return the reason why a text can't be stored, or None if it can."""
    complaint = find_unclean(text)
    return None if complaint is None else RowFault("malformed", f"the answer: {complaint}")


def find_unclean(text: str) -> str | None:
    """Return the fault of a text's characters, if any. Files can't hold unpaired surrogates."""
    match = _UNCLEAN.search(text)
    if match is None:
        return None
    return f"invalid Unicode, an unpaired surrogate at position {match.start()}"


def _join_parts(parts: list[Any]) -> TextContent:
    """Concatenate the text parts of a content."""
    texts = []
    for part in parts:
        kind = _read_kind(part)
        if kind == "refusal":
            return TextContent("", str(part.get("refusal") or "without words"))
        text = part if isinstance(part, str) else part.get("text") if kind else None
        if kind in _TEXT_PARTS and isinstance(text, str):
            texts.append(text)
        elif kind not in _REASONING_PARTS:
            msg = f"the answer has a part that is not text ({str(kind)[:40]!r})"
            return TextContent("", fault=RowFault("malformed", msg))
    return TextContent("".join(texts), fault=None if texts else _NO_TEXT)


def _read_kind(part: object) -> str | None:
    """Return the kind of a content part, or None for an invalid part."""
    if isinstance(part, str):
        return "text"
    if not isinstance(part, Mapping):
        return None
    return str(part.get("type", "text" if "text" in part else ""))
