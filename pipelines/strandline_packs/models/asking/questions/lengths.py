"""Measures prompts with the model's tokenizer, and treats prompts that are too long.

The module must not depend on servers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from strandline_packs.models.tokenizer_files import read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# A separate choice from `BadInput`: a long prompt is readable and can be cut, and `fail` fails the
# row instead of the file.
class TooLong(StrEnum):
    """Treatment of a row with a prompt that is too long."""

    TRUNCATE = "truncate"
    DROP = "drop"
    FAIL = "fail"


class LengthLimit:
    """Limit for the tokens of a prompt, including the system text.

    Args:
        path: path or URL of a `tokenizer.json`.
        most: maximum number of tokens.
        system: text before every prompt.

    Raises:
        ValueError: the file is not a tokenizer, or the system text alone is too long.
    """

    def __init__(self, path: str, most: int, system: str | None) -> None:
        self._tokenizer: Tokenizer = read_tokenizer(path)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.most = most
        self._left = most - self._count(system or "")
        if self._left < 1:
            msg = f"`system` alone has {most - self._left} tokens, and `maxPromptTokens` is {most}"
            raise ValueError(msg)

    def measure(self, prompt: str) -> int:
        """Return the tokens of a prompt with the system's text."""
        return self.most - self._left + self._count(prompt)

    def cut(self, prompt: str) -> str:
        """Return the longest beginning of a prompt within the limit."""
        offsets = self._tokenizer.encode(prompt, add_special_tokens=False).offsets
        return prompt[: offsets[self._left - 1][1]] if len(offsets) > self._left else prompt

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
