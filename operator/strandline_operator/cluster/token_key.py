"""Manages the key from which tokens of attempts derive, in a Secret next to the operator.

The first operator of an installation creates the key, so no chart or Git repository contains it.
Later operators read the key, because an attempt may outlive an operator.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Mapping

from strandline_api.names import MANAGED_BY_LABEL, MANAGER
from strandline_api.outcome.reader_token import KEY_BYTES
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import ApiError, Conflict, Gone, TooMany, Unavailable
from strandline_operator.model.plan import Resource

_LOGGER = logging.getLogger(__name__)
_FIELD = "key"
_PAUSE = 2.0  # seconds between retries while the server is unavailable
_TRIES_OF_A_RACE = 3


class TokenKeyError(ValueError):
    """Raised if the Secret of that name has other contents. The message is one sentence."""


def name_key(account: str) -> str:
    """Return the name of the Secret, derived from the operator's service account."""
    return f"{account}-attempt-tokens"


async def read_key(
    api: Api,
    account: str,
    draw: Callable[[int], bytes],
    sleep: Callable[[float], Awaitable[None]],
) -> bytes:
    """Return the key, and create it if it is missing. Wait while the server is unavailable.

    If the Secret can't be used, the key is lost with this process. After a restart, the operator
    can't notify drivers of running attempts about removed nodes, and ended drivers wait until a
    timeout.

    Args:
        account: namespace and name of the operator's service account; empty outside a cluster.
        draw: function that returns the given number of random bytes.

    Raises:
        TokenKeyError: if the Secret contains no key.
    """
    namespace, _, name = account.partition("/")
    if not name:
        return draw(KEY_BYTES)
    while True:
        try:
            return await _read_or_make(api, namespace, name_key(name), draw)
        except (TooMany, Unavailable, Gone) as error:
            _LOGGER.warning("the token key can't be read now: %s", error)
            await sleep(_PAUSE)
        except ApiError as error:
            _LOGGER.error(  # noqa: TRY400 - the server's message is enough
                "the Secret %s/%s can't be read or created, so running drivers will reject the "
                "next operator: %s; grant the operator the Role from the chart",
                namespace,
                name_key(name),
                error,
            )
            return draw(KEY_BYTES)


async def _read_or_make(api: Api, namespace: str, name: str, draw: Callable[[int], bytes]) -> bytes:
    for _ in range(_TRIES_OF_A_RACE):
        found = await api.get(Resource.SECRET, namespace, name)
        if found is not None:
            return _parse(found, f"{namespace}/{name}")
        key = draw(KEY_BYTES)
        try:
            await api.create(Resource.SECRET, namespace, _render(namespace, name, key))
        except Conflict:  # another operator has created the Secret in the meantime
            continue
        return key
    raise Unavailable(0, "", f"the Secret {namespace}/{name} is repeatedly created and deleted")


def _parse(secret: Body, name: str) -> bytes:
    data = secret.get("data")
    text = data.get(_FIELD) if isinstance(data, Mapping) else None
    try:
        key = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise TokenKeyError(
            f"the Secret {name} must have {KEY_BYTES} bytes as {_FIELD!r}; delete it, and the "
            "operator creates a new one"
        )
    return key


def _render(namespace: str, name: str, key: bytes) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER},
        },
        "type": "Opaque",
        "data": {_FIELD: base64.b64encode(key).decode()},
        "immutable": True,
    }
