"""Replaces names of listed sources that no ledger can store, so that only these sources fail.

The other sources must not be affected. This module has no side effects, and must not depend on the
stage that listed the source.
"""

from __future__ import annotations

from strandline.ledger.records.entries import ListedSource
from strandline.plan.stages.ends import Source
from strandline.plan.token import digest_key, digest_version
from strandline_api.texts import is_unicode, repair


def identify(source: Source, ordinal: int) -> ListedSource:
    """Return the source as the ledger records it. Characters that can't be stored are escaped."""
    # A user's stage may have set any object here.
    key: object = source.key
    version: object = source.version
    if type(key) is str and key.isascii() and type(version) is str:  # the usual case
        return ListedSource(digest_key(key), digest_version(version), key, ordinal)
    name = key if isinstance(key, str) and is_unicode(key) else _format(key)
    state = version if isinstance(version, str) else _format(version)
    return ListedSource(digest_key(name), digest_version(state), name, ordinal)


def explain_odd(source: Source) -> str | None:
    """Explain why a source can't be processed, or return None if it can."""
    known: dict[str, object] = {"key": source.key, "version": source.version}
    for name, value in known.items():
        if not isinstance(value, str):
            return f"the source's {name} must be text, not {type(value).__name__}"
    if not is_unicode(source.key):
        return (
            "the source's key contains an unpaired surrogate, which UTF-8 can't encode; give the "
            "source another key"
        )
    return None


def _format(value: object) -> str:
    return repair(value if isinstance(value, str) else repr(value))
