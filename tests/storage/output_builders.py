"""Writes a single output for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.ports import OutputStore


def write_output(
    outputs: OutputStore, source: bytes, name: str, write_content: Callable[[BinaryIO], None]
) -> Content:
    """Write one output durably in its own group."""
    with outputs.grouped() as group:
        return group.write(source, name, write_content)
