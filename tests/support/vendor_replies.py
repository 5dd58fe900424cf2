"""Replies of several vendors' servers: good answers, and replies that must not count as answers.

The forms come from the vendors' documentation or from bug reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from strandline_packs.models.asking.answers import Reply

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def refuse(status: int, message: str, code: str, headers: Mapping[str, str] | None = None) -> Reply:
    error = {"error": {"message": message, "type": "error", "code": code}}
    return Reply(status, headers or {}, json.dumps(error).encode())


def give(body: object, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(200, headers or {}, json.dumps(body).encode())


def choose(content: object = "an answer", finish: object = "stop", **message: Any) -> Reply:
    """Return a reply with one choice."""
    told = {"role": "assistant", "content": content, **message}
    return give({"choices": [{"message": told, "finish_reason": finish}], "usage": USAGE})


def embed(vector: object) -> Reply:
    return give({"data": [{"embedding": vector}], "usage": {"prompt_tokens": 7}})


# Finish reasons of good answers, by vendor.
GOOD_ENDINGS = {
    "openai": "stop",
    "gemini": "STOP",
    "vertex": "FINISH_REASON_STOP",
    "anthropic": "end_turn",
    "anthropic, at a sequence": "stop_sequence",
    "cohere": "COMPLETE",
    "tgi": "eos_token",
    "llama.cpp": "eos",
}
LENGTH_ENDINGS = {
    "openai": "length",
    "gemini": "MAX_TOKENS",
    "vertex": "FINISH_REASON_MAX_TOKENS",
    "anthropic": "max_tokens",
    "anthropic, of the window": "model_context_window_exceeded",
    "mistral": "model_length",
    "responses": "max_output_tokens",
    "cohere": "ERROR_LIMIT",
}
FILTER_ENDINGS = {
    "openai": "content_filter",
    "gemini": "SAFETY",
    "gemini, of a source": "RECITATION",
    "gemini, of a list": "BLOCKLIST",
    "gemini, of persons": "SPII",
    "gemini, prohibited": "PROHIBITED_CONTENT",
    "anthropic": "refusal",
    "bedrock": "guardrail_intervened",
    "bedrock, filtered": "content_filtered",
    "zhipu": "sensitive",
    "cohere": "ERROR_TOXIC",
}
FAILED_ENDINGS = {
    "vllm": "abort",
    "mistral": "error",
    "deepseek": "insufficient_system_resource",
    "zhipu": "network_error",
    "gemini": "OTHER",
    "gemini, of a call": "MALFORMED_FUNCTION_CALL",
    "vertex": "FINISH_REASON_UNSPECIFIED",
    "cohere": "USER_CANCEL",
    "ollama": "load",
    "anthropic": "pause_turn",
    "openai": "tool_calls",
    "nobody": "",
    "of tomorrow": "quantum_decoherence",
    "dashscope": "null",
}
# Contents that are not an answer despite a good finish reason.
NO_ANSWERS = {
    "deepseek: reasoning": choose("", reasoning_content="Let me think"),
    "vllm: reasoning": choose(None, reasoning="Let me think"),
    "ollama: thinking": choose("\n", thinking="Let me think"),
    "openrouter: reasoning": choose("", reasoning_details=[{"type": "reasoning.text"}]),
    "mistral: thinking alone": choose([{"type": "thinking", "thinking": [{"text": "Hm"}]}]),
    "qwen: thoughts alone": choose("<think>\nLet me think.\n</think>\n\n"),
    "qwen: thoughts without end": choose("<think>\nLet me think, and think"),
    "anthropic: a call": choose([{"type": "tool_use", "name": "f", "input": {}}]),
    "anthropic: no parts": choose([]),
    "openai: an audio": choose([{"type": "audio", "data": "AA=="}]),
    "openai: no content": choose(None),
    "openai: a refusal in parts": choose([{"type": "refusal", "refusal": "No."}]),
    "half a character": choose("smile \ud83d!"),
    "half a character in parts": choose([{"type": "text", "text": "\udc00"}]),
    "a number": choose(7),
    "an object": choose({"text": "x"}),
}
ANSWERS = {
    "text": (choose("an answer"), "an answer"),
    "no text, and no thoughts": (choose(""), ""),
    "parts": (
        choose([{"type": "text", "text": "an "}, {"type": "text", "text": "answer"}]),
        "an answer",
    ),
    "output_text": (choose([{"type": "output_text", "text": "an answer"}]), "an answer"),
    "strings": (choose(["an ", "answer"]), "an answer"),
    "parts behind thoughts": (
        choose([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "an answer"}]),
        "an answer",
    ),
    "thoughts beside": (choose("an answer", reasoning_content="Hm"), "an answer"),
    "thoughts before": (choose("<think>Hm</think>an answer"), "<think>Hm</think>an answer"),
    "a whole character": (choose("smile \U0001f600"), "smile \U0001f600"),
}
NO_VECTORS: dict[str, Reply] = {
    "empty": embed([]),
    "NaN": Reply(200, {}, b'{"data": [{"embedding": [0.5, NaN]}]}'),
    "infinite": Reply(200, {}, b'{"data": [{"embedding": [-Infinity, 0.5]}]}'),
    "null": embed([0.5, None]),
    "too large": embed([1e39]),
    "far too large": embed([10**400]),
    "texts": embed(["0.5"]),
    "booleans": embed([True]),
}
# Errors with a success status: the reply, its kind, and the server's message.
HIDDEN_ERRORS: dict[str, tuple[Reply, str, str]] = {
    "openrouter: busy": (
        give({"error": {"code": 429, "message": "Rate limited upstream"}}),
        "busy",
        "429: Rate limited upstream",
    ),
    "openrouter: of the choice": (
        give(
            {
                "choices": [
                    {
                        "error": {"code": 502, "message": "Provider returned error"},
                        "message": {"content": "an answ"},
                        "finish_reason": "error",
                    }
                ]
            }
        ),
        "setback",
        "502: Provider returned error",
    ),
    "openrouter: no credits": (
        give({"error": {"code": 402, "message": "Insufficient credits"}}),
        "barred",
        "402: Insufficient credits",
    ),
    "openai: no quota": (
        give({"error": {"code": "insufficient_quota", "message": "You exceeded your quota"}}),
        "barred",
        "402: You exceeded your quota",
    ),
    "anthropic: overloaded": (
        give({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        "busy",
        "503: Overloaded",
    ),
    "gemini: exhausted": (
        give([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota"}}]),
        "busy",
        "429: Quota",
    ),
    "gemini: a bad argument": (
        give({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Bad field"}}),
        "unfit",
        "400: Bad field",
    ),
    "vllm: of its own kind": (
        give({"object": "error", "message": "max context is 8", "code": 400}),
        "unfit",
        "400: max context is 8",
    ),
    "minimax: busy": (
        give({"choices": None, "base_resp": {"status_code": 429, "status_msg": "rate limit"}}),
        "busy",
        "429: rate limit",
    ),
    "a key": (
        give({"error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
        "barred",
        "401: invalid x-api-key",
    ),
    "no model": (
        give({"error": {"code": "model_not_found", "message": "no such model"}}),
        "barred",
        "404: no such model",
    ),
    "azure: filtered": (
        give({"error": {"code": "content_filter", "message": "The prompt was filtered"}}),
        "fault",
        "The prompt was filtered",
    ),
    "a string": (give({"error": "the model crashed"}), "setback", "500: the model crashed"),
    "unknown": (give({"error": {"code": 7, "message": "oops"}}), "setback", "500: oops"),
    "cloudflare": (
        give({"success": False, "errors": [{"code": 503, "message": "no capacity"}]}),
        "busy",
        "503: no capacity",
    ),
    "fastapi": (give({"detail": "model is loading"}), "setback", "500: model is loading"),
    "a page": (Reply(200, {}, b"<html>sign in</html>"), "setback", "not of OpenAI's protocol"),
    "plain text": (Reply(200, {}, b"upstream timed out"), "setback", "upstream timed out"),
    "half a character": (
        give({"error": {"code": 500, "message": "bad \ud83d"}}),
        "setback",
        "500: bad ?",
    ),
    "an array of arrays": (Reply(200, {}, b"[" * 100_000), "setback", "not of OpenAI's protocol"),
    "Latin-1": (Reply(200, {}, '{"error": "né"}'.encode("latin-1")), "setback", "not of OpenAI's"),
}
# Usage values that contain no token counts.
NO_USAGE: dict[str, object] = {
    "missing": None,
    "empty": {},
    "zero": {"prompt_tokens": 0, "completion_tokens": 0},
    "null": {"prompt_tokens": None, "completion_tokens": None},
    "texts": {"prompt_tokens": "seven"},
    "negative": {"prompt_tokens": -7, "completion_tokens": -3},
    "a list": [7, 3],
    "without end": {"prompt_tokens": 10**30, "completion_tokens": 10**30},
    "booleans": {"prompt_tokens": False},
}
