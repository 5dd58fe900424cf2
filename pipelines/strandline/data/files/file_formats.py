"""Formats of files with rows, by file name. The module opens no file."""

from __future__ import annotations

from enum import StrEnum

from strandline.data.files.opening import PACKED


class RowFormat(StrEnum):
    """A format whose files have rows."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"
    TEXT = "text"


ROW_ENDINGS = {
    ".csv": RowFormat.CSV,
    ".tsv": RowFormat.TSV,
    ".jsonl": RowFormat.JSONL,
    ".ndjson": RowFormat.JSONL,
    ".json": RowFormat.JSONL,
    ".parquet": RowFormat.PARQUET,
    ".arrow": RowFormat.ARROW,
    ".feather": RowFormat.ARROW,
    ".txt": RowFormat.TEXT,
}
# Formats with built-in compression: readers need random access to the file.
_SEEKABLE = frozenset({RowFormat.PARQUET, RowFormat.ARROW})


def find_ending(path: str) -> str:
    """Return the ending of a file name with the compression, as in `.csv.gz`, or ''."""
    name = path[path.rfind("/") + 1 :]
    packing = next((each for each in PACKED if name.lower().endswith(each)), "")
    at = name.rfind(".", 0, len(name) - len(packing))
    return name[at:] if at > 0 else name[len(name) - len(packing) :]


def find_format(path: str) -> RowFormat | None:
    """Return the format of a file with rows by the file name, or None for other files."""
    ending = find_ending(path).lower()
    packing = next((each for each in PACKED if ending.endswith(each)), "")
    kind = ROW_ENDINGS.get(ending.removesuffix(packing))
    return None if packing and kind in _SEEKABLE else kind
