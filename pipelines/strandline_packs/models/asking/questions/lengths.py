"""How long a prompt is, by the tokenizer of the model; and what becomes of one that is too long.

It must not know servers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from strandline_packs.models.tokenizer_files import read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# A long prompt is no `BadInput`: it can be read, and be cut; `fail` fails its row, not its file.
class TooLong(StrEnum):
    """What becomes of a row whose prompt is too long."""

    TRUNCATE = "truncate"
    DROP = "drop"
    FAIL = "fail"


class LengthLimit:
    """Tokens that a prompt may have, the system's text among them.

    Args:
        path: of a `tokenizer.json`, or its URL.
        most: tokens.
        system: text that goes before each prompt.

    Raises:
        ValueError: the file is no tokenizer, or the system's text is too long by itself.
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
        """Return the beginning of a prompt that is as long as it may be."""
        offsets = self._tokenizer.encode(prompt, add_special_tokens=False).offsets
        return prompt[: offsets[self._left - 1][1]] if len(offsets) > self._left else prompt

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
