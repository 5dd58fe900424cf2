"""The fingerprint of the pipeline that wrote a ledger.

Digests of code have an entry of their own. Older releases ignore this entry and compare only the
other entry, so a user can downgrade and continue a run.
"""

from __future__ import annotations

from typing import Any

from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import Fingerprint, split_code

_NAME, _CODE = "fingerprint", "code"


def read_fingerprint(store: Store) -> Fingerprint | None:
    """Return the fingerprint of the last attempt, or None before the first attempt."""
    known = store.read_meta(_NAME)
    if known is None:
        return None
    # Some older ledgers have the digests of code among the other parts.
    return Fingerprint(known["digest"], {**known["parts"], **(store.read_meta(_CODE) or {})})


def render_fingerprint(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return the `meta` entries of a fingerprint. The caller writes them with other facts."""
    parts, code = split_code(fingerprint.parts)
    return {_NAME: {"digest": fingerprint.digest, "parts": parts}, _CODE: code}
