"""Tokenizers as files, as Hugging Face's library writes them.

It must not know what is counted or made of their tokens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from strandline.data.files.opening import open_binary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` at a path or URL; it cuts and pads as that says.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is no tokenizer.
    """
    # A worker has the cores that its pool gives it; a pool of threads would take all.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra's

    with open_binary(path) as file:
        content = file.read()
    try:
        return Tokenizer.from_str(content.decode())
    except Exception as error:  # it raises nothing more particular
        msg = f"{Path(path).name}: no tokenizer that can be read ({error})"
        raise ValueError(msg) from error


def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` at a path or URL; it cuts and pads nothing.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is no tokenizer.
    """
    tokenizer = read_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def list_special(tokenizer: Tokenizer) -> set[int]:
    """Return the tokens of a tokenizer that are not for text."""
    added = tokenizer.get_added_tokens_decoder()
    return {number for number, token in added.items() if token.special}
