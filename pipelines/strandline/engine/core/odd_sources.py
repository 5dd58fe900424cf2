"""What a source stage lists and no ledger can hold: it gets a name, and fails under it. Pure.

So one odd source takes no other along. It must not know which stage has listed it.
"""

from __future__ import annotations

from strandline.ledger.records.entries import ListedSource
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key, digest_version
from strandline_api.texts import is_unicode, repair


def identify(source: Source, ordinal: int) -> ListedSource:
    """Return a source as the ledger sees it; what it could not keep is escaped."""
    # A stage of the user's may have put anything there.
    key: object = source.key
    version: object = source.version
    if type(key) is str and key.isascii() and type(version) is str:  # as most are; no more is asked
        return ListedSource(digest_key(key), digest_version(version), key, ordinal)
    name = key if isinstance(key, str) and is_unicode(key) else _format(key)
    state = version if isinstance(version, str) else _format(version)
    return ListedSource(digest_key(name), digest_version(state), name, ordinal)


def explain_odd(source: Source) -> str | None:
    """Explain why a source can't be worked on; None where it can."""
    known: dict[str, object] = {"key": source.key, "version": source.version}
    for name, value in known.items():
        if not isinstance(value, str):
            return f"its {name} is {type(value).__name__}; it must be text"
    if not is_unicode(source.key):
        return "its key holds half a character, which UTF-8 can't spell; give it another key"
    return None


def _format(value: object) -> str:
    return repair(value if isinstance(value, str) else repr(value))
