"""Records whether the start and the end of an attempt were reported to a lineage system.

The parent of a driver reads this marker and must load as little as possible, so the module is
separate from `reporting`.
"""

from __future__ import annotations

from contextlib import suppress

from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.whole_files import show_whole

MARKER = "lineage"
BEGUN, ENDED = b"begun", b"ended"


def read_marker(folder: PipelineFolder, number: int) -> bytes:
    """Return the last event that was reported, `BEGUN` or `ENDED`, or an empty string."""
    with suppress(OSError):
        return (folder.attempt(number) / MARKER).read_bytes()
    return b""


def write_marker(folder: PipelineFolder, number: int, state: bytes) -> None:
    """Record the last event that was reported."""
    show_whole(folder.attempt(number) / MARKER, state)
