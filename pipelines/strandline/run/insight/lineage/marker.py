"""How far an attempt was reported to a lineage system, in a file beside its record.

Apart from what reports, since the parent of a driver reads it and loads no more than it must.
"""

from __future__ import annotations

from contextlib import suppress

from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.whole_files import show_whole

MARKER = "lineage"
BEGUN, ENDED = b"begun", b"ended"


def read_marker(folder: PipelineFolder, number: int) -> bytes:
    """Return what was reported of an attempt: nothing, `BEGUN` or `ENDED`."""
    with suppress(OSError):
        return (folder.attempt(number) / MARKER).read_bytes()
    return b""


def write_marker(folder: PipelineFolder, number: int, state: bytes) -> None:
    """Write down what was reported of an attempt."""
    show_whole(folder.attempt(number) / MARKER, state)
