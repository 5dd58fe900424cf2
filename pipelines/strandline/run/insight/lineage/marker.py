"""Records how far an attempt was reported to a lineage system, in a file beside its record.

Separate from the reporting module, because the parent of a driver reads the marker and must load as
little as possible.
"""

from __future__ import annotations

from contextlib import suppress

from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.whole_files import show_whole

MARKER = "lineage"
BEGUN, ENDED = b"begun", b"ended"


def read_marker(folder: PipelineFolder, number: int) -> bytes:
    """Return how far an attempt was reported: `BEGUN`, `ENDED`, or empty."""
    with suppress(OSError):
        return (folder.attempt(number) / MARKER).read_bytes()
    return b""


def write_marker(folder: PipelineFolder, number: int, state: bytes) -> None:
    """Record how far an attempt was reported."""
    show_whole(folder.attempt(number) / MARKER, state)
