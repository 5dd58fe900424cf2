"""All protocols by endpoint. A new protocol needs a module, endpoints, and a line here."""

from __future__ import annotations

from strandline_packs.models.asking.answers import Endpoint
from strandline_packs.models.asking.protocols.anthropic import AnthropicProtocol
from strandline_packs.models.asking.protocols.openai import OpenAiProtocol
from strandline_packs.models.asking.protocols.port import ModelProtocol

PROTOCOLS: tuple[ModelProtocol, ...] = (OpenAiProtocol(), AnthropicProtocol())
_BY_ENDPOINT = {endpoint: protocol for protocol in PROTOCOLS for endpoint in protocol.paths}


def find_protocol(endpoint: Endpoint) -> ModelProtocol:
    """Return the protocol that has an endpoint."""
    return _BY_ENDPOINT[endpoint]
