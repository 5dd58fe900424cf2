"""Writing outputs where a test needs only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.ports import OutputStore


def write_output(
    outputs: OutputStore, source: bytes, name: str, write_content: Callable[[BinaryIO], None]
) -> Content:
    """Write one output durably, as a group of its own."""
    with outputs.grouped() as group:
        return group.write(source, name, write_content)
