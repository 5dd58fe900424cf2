"""Keys and tokens of a cluster that lives for one command.

This room must not know where they are written.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

# An EC key on P-256 in SEC 1's form is this, 32 bytes, and that.
KEY_BEGIN, KEY_END = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")


def make_key() -> str:
    """Make a key that signs the tokens of service accounts, as PEM."""
    # 31 random bytes: with a zero before them the number is surely below the curve's order.
    der = KEY_BEGIN + b"\0" + secrets.token_bytes(31) + KEY_END
    lines = base64.encodebytes(der).decode().replace("\n", "")
    body = "\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n"


def make_token() -> str:
    """Make what a user logs in with."""
    return secrets.token_hex(16)


def write_private(path: Path, text: str) -> None:
    """Write a file that no other user may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
