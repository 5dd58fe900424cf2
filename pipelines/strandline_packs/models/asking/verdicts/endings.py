"""Recognizes the finish reasons of several vendors. Unknown reasons count as faults."""

from __future__ import annotations

from functools import lru_cache

from strandline_packs.models.asking.answers import RowFault

_GOOD = frozenset(
    {
        *("stop", "eos", "eos_token", "end_turn", "end", "stop_sequence", "stop_token"),
        *("complete", "completed", "finished", "done"),
    }
)
_LENGTH = frozenset(
    {
        *("length", "max_tokens", "max_output_tokens", "max_new_tokens", "max_length"),
        *("model_length", "context_length", "context_length_exceeded", "token_limit", "truncated"),
        *("model_context_window_exceeded", "incomplete", "limit", "error_limit"),
    }
)
_FILTER = frozenset(
    {
        *("content_filter", "content_filtered", "content_filter_error", "filtered", "filter"),
        *("safety", "image_safety", "recitation", "image_recitation", "language", "blocklist"),
        *("prohibited_content", "image_prohibited_content", "spii", "sensitive", "moderation"),
        *("guardrail_intervened", "guardrails", "flagged", "blocked", "error_toxic", "refusal"),
        *("content_policy_violation", "policy_violation", "data_inspection_failed"),
    }
)
_CALLS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
# Matches `FINISH_REASON_STOP` and `FinishReason.STOP`.
_PREFIXES = ("finish_reason_", "finishreason.")


@lru_cache(maxsize=256)
def find_ending_fault(finish: str) -> RowFault | None:
    """Return the fault that a finish reason implies, or None for a complete answer."""
    name = finish.strip().lower().replace("-", "_").replace(" ", "_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    # The message already explains these two names.
    shown = "" if name in {"length", "content_filter"} else f" ({finish[:40]!r})"
    if name in _GOOD:
        return None
    if name in _LENGTH:
        msg = f"the answer was cut short{shown} at the maximum number of tokens"
        return RowFault("cut short", msg)
    if name in _FILTER:
        return RowFault("refused", f"the server's content filter cut the answer off{shown}")
    if name in _CALLS:
        return RowFault("malformed", "the model called a tool instead of answering")
    msg = f"the server ended the answer with {finish[:40]!r}, an unknown finish reason"
    return RowFault("malformed", msg)
