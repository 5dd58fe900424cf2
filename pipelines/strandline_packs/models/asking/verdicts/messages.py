"""Judges a model's message, in any protocol.

This module does no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from strandline_packs.models.asking.answers import ModelAnswer, RowFault, Setback, Usage
from strandline_packs.models.asking.verdicts.contents import find_text_fault, read_text_content
from strandline_packs.models.asking.verdicts.endings import find_ending_fault
from strandline_packs.models.asking.verdicts.refusal_words import cut
from strandline_packs.models.asking.verdicts.vectors import judge_vector


def judge_message(
    message: Mapping[str, Any], finish: object, usage: Usage, model: str
) -> ModelAnswer | RowFault | Setback:
    """Return the verdict on a message.

    Args:
        finish: the finish reason in the server's spelling.
    """
    content = read_text_content(message)
    if content.refusal:
        why = f"the model refuses to answer: {cut(content.refusal)}"
        return RowFault("refused", why, content.refusal)
    # Without a finish reason the answer may be incomplete, so the request is retried.
    if not isinstance(finish, str):
        return Setback("an answer without a finish reason")
    # Check the finish reason first: a truncated answer may lack text because of the truncation.
    fault = find_ending_fault(cut(finish)) or content.fault or find_text_fault(content.text)
    if fault is not None:
        return fault._replace(answer=content.text or json.dumps(message, ensure_ascii=False))
    return ModelAnswer(content.text, None, finish, usage.prompt, usage.completion, model)


def describe_foreign(protocol: str, words: str = "") -> Setback:
    """Return the verdict on an answer in another protocol, with the beginning of its text."""
    more = f": {words}" if words else ""
    return Setback(f"an answer that is not of {protocol}{more}")


def find_answer_fault(answer: ModelAnswer) -> RowFault | None:
    """Return the fault of a logged answer, if any. Earlier versions logged bad answers too."""
    if answer.vector is None:
        return find_ending_fault(answer.finish) or find_text_fault(answer.text)
    verdict = judge_vector(answer.vector.tolist(), Usage(), "")
    return verdict if isinstance(verdict, RowFault) else None
