"""Derives tokens: names for the nodes of a source's task tree, which the ledger counts.

A token depends only on the source, its version, the path of stages, and the slot: never on content,
process ids, or clocks. So a replay gives every node the same name as the first try.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

TOKEN_BYTES = 16
VERSION_BYTES = 8
# Create the hash states once: copying a state takes less than half the time of creating a state
# with a `person` string.
_KEY = blake2b(digest_size=TOKEN_BYTES)
_VERSION = blake2b(digest_size=VERSION_BYTES)
# The `person` strings keep tokens of different kinds distinct, even for equal input.
_ROOT = blake2b(digest_size=TOKEN_BYTES, person=b"root")
_CHILD = blake2b(digest_size=TOKEN_BYTES, person=b"child")
_DEAD = blake2b(digest_size=TOKEN_BYTES, person=b"dead")
_SHARED = blake2b(digest_size=TOKEN_BYTES, person=b"shared")


def digest_key(key: str) -> bytes:
    """Return a source's 128-bit identity, which is the key in the ledger and in output names."""
    state = _KEY.copy()
    state.update(_encode(key))
    return state.digest()


def digest_version(version: str) -> bytes:
    """Return 64 bits that distinguish the versions of a source."""
    state = _VERSION.copy()
    state.update(_encode(version))
    return state.digest()


def derive_root(source: bytes, version: bytes) -> bytes:
    """Return the token of a source's root task.

    A new version of the source gets new tokens, and therefore new output names.
    """
    state = _ROOT.copy()
    state.update(source + version)
    return state.digest()


def derive_child(parents: Sequence[bytes], stage: str, slot: int) -> bytes:
    """Return the token of one result of `stage`, from the tokens of its parents (16 bytes each).

    The slot is the position in the stage's result. Filtered and failed tasks also have slots.
    """
    state = _CHILD.copy()
    state.update(b"".join((*parents, stage.encode(), slot.to_bytes(8, "big"))))
    return state.digest()


def derive_dead(parents: Sequence[bytes], stage: str, rows: Iterable[int]) -> bytes:
    """Return the token of the dead letters of `stage` for rows of `parents`.

    Different rows give different tokens, so two tries with different failed rows produce different
    files.
    """
    state = _DEAD.copy()
    state.update(b"".join((*parents, stage.encode())))
    for row in rows:
        # Encode rows with a fixed width: otherwise rows 1 and 23 would look like rows 12 and 3.
        state.update(row.to_bytes(8, "big"))
    return state.digest()


def derive_shared(tokens: Iterable[bytes]) -> bytes:
    """Return the name of a shared file, which depends on its tasks and their order."""
    state = _SHARED.copy()
    for token in tokens:
        state.update(token)
    return state.digest()


def _encode(text: str) -> bytes:
    try:
        return text.encode()  # three times as fast as a call with an error handler
    except UnicodeEncodeError:  # an unpaired surrogate, which names of files may contain
        return text.encode("utf-8", "surrogatepass")
