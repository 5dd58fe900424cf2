"""Names of files below the root of outputs, and the source that a name belongs to.

The ledger, not this module, decides which files are valid.
"""

from __future__ import annotations

from strandline.plan.receipt import Output

TEMPORARY = ".tmp"
OWNER = ".strandline-owner"
CARD = "README.md"
MANIFEST = "_manifest"
INDEX = "index.json"  # entry point for readers of some formats
# Files at the root that are not outputs.
NO_OUTPUTS = frozenset({OWNER, CARD, MANIFEST, INDEX, f".{MANIFEST}.tmp", f".{INDEX}.tmp"})
SHARED = "shared"  # folder of files that several sources share
FAN_OUT = 3  # hex digits: 4,096 folders; ten million sources put about 2,400 sources in each folder


DESCRIPTIONS = "_strandline"  # a folder at the root that readers of data ignore
DEAD_LETTERS = f"{DESCRIPTIONS}/dead-letters"
CUTS = f"{DESCRIPTIONS}/kept"
# Folders that have a subfolder per source, like the root, but contain no data for readers.
ASIDES = (DEAD_LETTERS, CUTS)


def name_source_folder(source: bytes) -> str:
    """Return the folder of a source's outputs, relative to the output root."""
    text = source.hex()
    return f"{text[:FAN_OUT]}/{text}"


def read_source_folder(name: str) -> bytes | None:
    """Return the source whose folder contains a file, or None if no source's folder does."""
    folder = drop_aside(name).rpartition("/")[0]
    try:
        source = bytes.fromhex(folder.rpartition("/")[2])
    except ValueError:
        return None
    return source if name_source_folder(source) == folder else None


def drop_aside(name: str) -> str:
    """Return a name without a leading folder from `ASIDES`."""
    for aside in ASIDES:
        name = name.removeprefix(f"{aside}/")
    return name


def name_output(source: bytes, output: Output) -> str:
    """Return the file name of an output, relative to the output root."""
    if output.part is not None:
        return name_shared(output.part.file, output.suffix)
    if output.dead_stage is not None:
        name = f"{output.token.hex()}.{output.dead_stage}.parquet"
        return f"{DEAD_LETTERS}/{name_source_folder(source)}/{name}"
    if output.cut is not None:
        name = name_cut(output.token, *output.cut)
        return f"{CUTS}/{name_source_folder(source)}/{name}"
    return f"{name_source_folder(source)}/{output.token.hex()}{output.suffix}"


def name_cut(token: bytes, stage: str, slot: int) -> str:
    """Return the file name of a cut in the folder of its source."""
    return f"{token.hex()}.{stage}.{slot}.arrow"


def name_shared(file: bytes, suffix: str) -> str:
    """Return the name of a shared file, relative to the output root."""
    return f"{name_shared_folder(file)}/{file.hex()}{suffix}"


def name_shared_folder(file: bytes) -> str:
    """Return the folder of a shared file, relative to the output root."""
    return f"{SHARED}/{file.hex()[:FAN_OUT]}"
