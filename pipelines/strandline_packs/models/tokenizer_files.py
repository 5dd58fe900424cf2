"""Reads tokenizer files in the format of Hugging Face's library.

The module must not depend on the use of tokens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from strandline.data.files.opening import open_binary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def read_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json`, with the file's truncation and padding.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is not a tokenizer.
    """
    # A worker may use only the cores of its pool, and the library's threads would use all cores.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer  # noqa: PLC0415 - an extra's

    with open_binary(path) as file:
        content = file.read()
    try:
        return Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises plain `Exception`
        msg = f"{Path(path).name}: not a readable tokenizer ({error})"
        raise ValueError(msg) from error


def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer of a `tokenizer.json` at a path or URL, without truncation and padding.

    Raises:
        ImportError: `tokenizers` is not installed.
        ValueError: the file is not a tokenizer.
    """
    tokenizer = read_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def list_special(tokenizer: Tokenizer) -> set[int]:
    """Return the special tokens of a tokenizer."""
    added = tokenizer.get_added_tokens_decoder()
    return {number for number, token in added.items() if token.special}
