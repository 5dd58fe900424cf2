"""The fingerprint that a ledger keeps of the pipeline that wrote it.

Digests of code have an entry of their own. A release that knows no such digests compares the other
entry alone, so a run that goes back to it goes on.
"""

from __future__ import annotations

from typing import Any

from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import Fingerprint, split_code

_NAME, _CODE = "fingerprint", "code"


def read_fingerprint(store: Store) -> Fingerprint | None:
    """Return the fingerprint of the last attempt; None before the first one."""
    known = store.read_meta(_NAME)
    if known is None:
        return None
    # Some ledgers have the code among the other parts.
    return Fingerprint(known["digest"], {**known["parts"], **(store.read_meta(_CODE) or {})})


def render_fingerprint(fingerprint: Fingerprint) -> dict[str, Any]:
    """Render the entries of a fingerprint, to be written with other facts of an attempt."""
    parts, code = split_code(fingerprint.parts)
    return {_NAME: {"digest": fingerprint.digest, "parts": parts}, _CODE: code}
