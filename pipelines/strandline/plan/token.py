"""Names for the nodes of a source's task tree, the things the ledger counts.

A token depends on the source, its version, the path of stages and the slot alone: never on
content, process ids or clocks. So a replay names every node as the first try did.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

TOKEN_BYTES = 16
VERSION_BYTES = 8
# Begun once: a copy takes less than half as long as a beginning with a name.
_KEY = blake2b(digest_size=TOKEN_BYTES)
_VERSION = blake2b(digest_size=VERSION_BYTES)
_ROOT = blake2b(digest_size=TOKEN_BYTES, person=b"root")
_CHILD = blake2b(digest_size=TOKEN_BYTES, person=b"child")
_DEAD = blake2b(digest_size=TOKEN_BYTES, person=b"dead")
_SHARED = blake2b(digest_size=TOKEN_BYTES, person=b"shared")


def digest_key(key: str) -> bytes:
    """Return a source's 128-bit identity, which keys the ledger and names outputs."""
    state = _KEY.copy()
    state.update(_encode(key))
    return state.digest()


def digest_version(version: str) -> bytes:
    """64 bits of a source's version; enough to tell a source's versions apart."""
    state = _VERSION.copy()
    state.update(_encode(version))
    return state.digest()


def derive_root(source: bytes, version: bytes) -> bytes:
    """Return the token of a source's root task.

    A new version gets new tokens, so new output names.
    """
    state = _ROOT.copy()
    state.update(source + version)
    return state.digest()


def derive_child(parents: Sequence[bytes], stage: str, slot: int) -> bytes:
    """Return the token of slot `slot` of what `stage` made of `parents` (each 16 bytes).

    Slots are positions in the stage's result; filtered and failed ones are counted too.
    """
    state = _CHILD.copy()
    state.update(b"".join((*parents, stage.encode(), slot.to_bytes(8, "big"))))
    return state.digest()


def derive_dead(parents: Sequence[bytes], stage: str, rows: Iterable[int]) -> bytes:
    """Return the token of the dead letters that `stage` made of rows of `parents`.

    Other rows give another token: two tries that disagree on them are told apart.
    """
    state = _DEAD.copy()
    state.update(b"".join((*parents, stage.encode())))
    for row in rows:
        state.update(row.to_bytes(8, "big"))
    return state.digest()


def derive_shared(tokens: Iterable[bytes]) -> bytes:
    """Return the name of a file that tasks share; the same ones in the same order give the same."""
    state = _SHARED.copy()
    for token in tokens:
        state.update(token)
    return state.digest()


def _encode(text: str) -> bytes:
    try:
        return text.encode()  # takes a third as long as with a name for errors
    except UnicodeEncodeError:  # half a surrogate, as names of files may have
        return text.encode("utf-8", "surrogatepass")
