"""Anthropic's protocol: the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from strandline_packs.models.asking.answers import Endpoint, Usage, Verdict
from strandline_packs.models.asking.protocols.openai import PROBE_TEXT, list_complaint
from strandline_packs.models.asking.protocols.pictures import encode_picture
from strandline_packs.models.asking.protocols.port import AnswerParts, RowQuestion
from strandline_packs.models.asking.protocols.usage import read_count
from strandline_packs.models.asking.verdicts.messages import judge_message

_VERSION = "2023-06-01"  # value of a required header
# The API requires a limit on answer tokens and has no default.
_MOST_TOKENS = 4096
_PROMPT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class AnthropicProtocol:
    """See `ModelProtocol`."""

    name = "Anthropic's protocol"
    paths: Mapping[Endpoint, str] = MappingProxyType({Endpoint.MESSAGES: "messages"})

    def list_headers(self, key: str | None) -> dict[str, str]:
        headers = {"anthropic-version": _VERSION}
        return headers if key is None else {**headers, "x-api-key": key}

    def build_body(
        self,
        endpoint: Endpoint,  # noqa: ARG002 - the protocol has one endpoint
        model: str,
        parameters: Mapping[str, Any],
        question: RowQuestion,
    ) -> dict[str, Any]:
        # `parameters` comes last and may replace the limit.
        body = {"model": model, "max_tokens": _MOST_TOKENS, **parameters}
        if question.system:
            body["system"] = question.system
        pictures = [
            {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
            for kind, data in map(encode_picture, question.pictures)
        ]
        text = {"type": "text", "text": question.prompt}
        return {**body, "messages": [{"role": "user", "content": [*pictures, text]}]}

    def complain(self, body: Mapping[str, Any], text: str, complaint: str) -> dict[str, Any]:
        return {**body, "messages": [*body["messages"], *list_complaint(text, complaint)]}

    def shrink(self, body: Mapping[str, Any], *, is_short: bool = True) -> dict[str, Any]:
        small = {**body, "messages": [{"role": "user", "content": PROBE_TEXT}]}
        return {**small, "max_tokens": 1} if is_short else small

    def count_items(self, body: Mapping[str, Any]) -> int:  # noqa: ARG002
        return 1

    def find_items(self, body: Mapping[str, Any], endpoint: Endpoint) -> object:  # noqa: ARG002
        return [body] if body.get("type") == "message" else None

    def judge(self, parts: AnswerParts, endpoint: Endpoint) -> Verdict:  # noqa: ARG002
        usage = self.read_usage(parts.body)
        return judge_message(parts.item, parts.item.get("stop_reason"), usage, parts.model)

    def read_usage(self, body: Mapping[str, Any]) -> Usage:
        usage = body.get("usage")
        if not isinstance(usage, Mapping):
            return Usage()
        # The first count excludes tokens that are read from or written to the cache.
        prompt = sum(read_count(usage, name) for name in _PROMPT_COUNTS)
        return Usage(prompt, read_count(usage, "output_tokens"))
