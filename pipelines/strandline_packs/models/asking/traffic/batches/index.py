"""The batch interface of each protocol. A new interface needs a module, and a line here."""

from __future__ import annotations

from strandline_packs.models.asking.answers import Endpoint
from strandline_packs.models.asking.traffic.batches.anthropic import AnthropicBatches
from strandline_packs.models.asking.traffic.batches.openai import OpenAiBatches
from strandline_packs.models.asking.traffic.batches.port import BatchInterface


def open_interface(endpoint: Endpoint, window: str) -> BatchInterface:
    """Return the batch interface of an endpoint's protocol.

    Args:
        window: time in which the vendor answers; Anthropic always takes up to a day.
    """
    if endpoint is Endpoint.MESSAGES:
        return AnthropicBatches()
    return OpenAiBatches(endpoint, window)
