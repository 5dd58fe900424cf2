"""OpenAI's protocol, which most model servers support: chat, completions, and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from strandline_packs.models.asking.answers import Endpoint, Usage, Verdict
from strandline_packs.models.asking.protocols.pictures import encode_picture
from strandline_packs.models.asking.protocols.port import AnswerParts, RowQuestion
from strandline_packs.models.asking.protocols.usage import read_count
from strandline_packs.models.asking.verdicts.messages import describe_foreign, judge_message
from strandline_packs.models.asking.verdicts.vectors import judge_vectors

PROBE_TEXT = "."
# Newer models of OpenAI accept only the first name, many other servers only the second.
_LENGTHS = ("max_completion_tokens", "max_tokens")


class OpenAiProtocol:
    """See `ModelProtocol`."""

    name = "OpenAI's protocol"
    paths: Mapping[Endpoint, str] = MappingProxyType(
        {
            Endpoint.CHAT: "chat/completions",
            Endpoint.COMPLETIONS: "completions",
            Endpoint.EMBEDDINGS: "embeddings",
        }
    )

    def list_headers(self, key: str | None) -> dict[str, str]:
        return {} if key is None else {"authorization": f"Bearer {key}"}

    def build_body(
        self,
        endpoint: Endpoint,
        model: str,
        parameters: Mapping[str, Any],
        question: RowQuestion,
    ) -> dict[str, Any]:
        body = {"model": model, **parameters}
        if endpoint is Endpoint.CHAT:
            return {**body, "messages": _build_messages(question)}
        name = "input" if endpoint is Endpoint.EMBEDDINGS else "prompt"
        return {**body, name: question.prompt}

    def complain(self, body: Mapping[str, Any], text: str, complaint: str) -> dict[str, Any]:
        return {**body, "messages": [*body["messages"], *list_complaint(text, complaint)]}

    def shrink(self, body: Mapping[str, Any], *, is_short: bool = True) -> dict[str, Any]:
        small = dict(body)
        if "messages" in small:
            small["messages"] = [{"role": "user", "content": PROBE_TEXT}]
        for name in {"prompt", "input"} & small.keys():
            small[name] = PROBE_TEXT
        # An embedding (`input`) has no length to limit.
        if is_short and "input" not in small:
            given = [name for name in _LENGTHS if name in small]
            small[given[0] if given else _LENGTHS[-1]] = 1
        return small

    def count_items(self, body: Mapping[str, Any]) -> int:
        texts = body.get("input")  # several texts, each with an embedding
        return len(texts) if isinstance(texts, list) else 1

    def find_items(self, body: Mapping[str, Any], endpoint: Endpoint) -> object:
        return body.get("data" if endpoint is Endpoint.EMBEDDINGS else "choices")

    def judge(self, parts: AnswerParts, endpoint: Endpoint) -> Verdict:
        item, usage, model = parts.item, self.read_usage(parts.body), parts.model
        if endpoint is Endpoint.EMBEDDINGS:
            # A single text never had more than its first embedding read.
            items = parts.items if parts.expected > 1 else [item]
            found = judge_vectors(items, parts.expected, usage, model)
            return describe_foreign(self.name) if found is None else found
        is_chat = endpoint is Endpoint.CHAT
        message = item.get("message") if is_chat else {"content": item.get("text")}
        if not isinstance(message, Mapping):
            return describe_foreign(self.name)
        return judge_message(message, item.get("finish_reason"), usage, model)

    def read_usage(self, body: Mapping[str, Any]) -> Usage:
        usage = body.get("usage")
        if not isinstance(usage, Mapping):
            return Usage()
        prompt = read_count(usage, "prompt_tokens", "input_tokens")
        completion = read_count(usage, "completion_tokens", "output_tokens")
        # Some servers count reasoning tokens only in the total.
        return Usage(prompt, max(completion, read_count(usage, "total_tokens") - prompt))


def build_conversation(
    model: str, parameters: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the request body for a conversation in the user's own messages."""
    return {"model": model, **parameters, "messages": list(messages)}


def list_complaint(text: str, complaint: str) -> list[dict[str, Any]]:
    """Return the messages that follow an invalid answer and request a correction."""
    wanted = f"That is not what was asked for: {complaint}. Answer again, with nothing else."
    return [{"role": "assistant", "content": text}, {"role": "user", "content": wanted}]


def _build_messages(question: RowQuestion) -> list[dict[str, Any]]:
    first = [{"role": "system", "content": question.system}] if question.system else []
    if not question.pictures:
        return [*first, {"role": "user", "content": question.prompt}]
    pictures = [encode_picture(each) for each in question.pictures]
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:{each.kind};base64,{each.data}"}}
        for each in pictures
    ]
    text = {"type": "text", "text": question.prompt}
    return [*first, {"role": "user", "content": [*parts, text]}]
