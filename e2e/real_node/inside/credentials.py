"""Creates keys and tokens of a cluster that runs as long as one command.

This module must not depend on where these are written.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

# SEC 1 encoding of a P-256 key: this prefix, the 32 bytes of the key, this suffix.
KEY_BEGIN, KEY_END = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")


def make_key() -> str:
    """Return a new private key in PEM format, which signs service account tokens."""
    # Start the key with a zero byte, so that its number stays below the curve's order.
    der = KEY_BEGIN + b"\0" + secrets.token_bytes(31) + KEY_END
    lines = base64.encodebytes(der).decode().replace("\n", "")
    body = "\n".join(lines[at : at + 64] for at in range(0, len(lines), 64))
    return f"-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n"


def make_token() -> str:
    """Return a new login token."""
    return secrets.token_hex(16)


def write_private(path: Path, text: str) -> None:
    """Write a file that no other user may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
