"""Renders an attempt's Secret, with the token by which workers authenticate to the driver.

Every account that may read pods or RayJobs can read the variables in a pod's spec, but few accounts
may read Secrets.
"""

from __future__ import annotations

from typing import Any

from strandline_api.outcome.reader_token import derive_notice_token
from strandline_operator.model.plan import Manifest
from strandline_operator.render.order import Order

NOTICE_KEY = "notice"


def render_secret(order: Order, metadata: dict[str, Any]) -> Manifest | None:
    """Render the Secret, or return None if the operator has no key."""
    key = order.limits.token_key
    if not key:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "stringData": {NOTICE_KEY: derive_notice_token(key, order.uid)},
        "immutable": True,
    }
