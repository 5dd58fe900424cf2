"""Parameters of the connection to model servers: addresses, keys, headers, and timeouts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110
# Headers that have a parameter of their own, or that describe the body.
_SET_ELSEWHERE = {
    "authorization": "`key`",
    "x-api-key": "`key`",
    "content-type": "the stage",
    "content-length": "the stage",
    "host": "`url`",
}


class ConnectionPart(BaseModel):
    """Base of groups of parameters."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class KeyParams(ConnectionPart):
    """Configures where to find a server's key."""

    env: str = Field(
        min_length=1,
        description="Name of an environment variable of the workers that holds the key.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not _VARIABLE.fullmatch(self.env):
            msg = "`env` must be the name of an environment variable, not the key itself"
            raise ValueError(msg)  # omits the value, which may be a key
        return self

    def read(self, purpose: str) -> str:
        """Return the secret from this process' environment.

        Raises:
            ValueError: the variable is not set, or has characters that no header may have.
        """
        key = os.environ.get(self.env, "").strip()
        if not _is_header_value(key):
            msg = f"the environment variable {self.env} has no key for {purpose}; set it"
            raise ValueError(msg)
        return key


class TimeoutParams(ConnectionPart):
    """Configures the timeouts of a request, in seconds."""

    connect: float = Field(default=10.0, gt=0, description="Maximum number of seconds to connect.")
    read: float = Field(
        default=300.0, gt=0, description="Maximum number of seconds without receiving a byte."
    )
    total: float = Field(
        default=600.0, gt=0, description="Maximum number of seconds for the whole request."
    )


def check_url(url: str) -> str:
    """Return a valid address of a server.

    Raises:
        ValueError: the address is not of HTTP, or contains a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        msg = "`url` must begin with http:// or https:// and have a host"
        raise ValueError(msg)
    # Messages show the URL, so the URL must not contain secrets.
    if parts.username or parts.password or parts.query:
        msg = "`url` must have no name, password or query; set the key by `key: {env: NAME}`"
        raise ValueError(msg)
    return url


class ServerParams(ConnectionPart):
    """A server of a group that answers the same requests."""

    url: Annotated[str, AfterValidator(check_url)] = Field(
        description="Address of the server, such as `http://127.0.0.1:8000/v1`."
    )
    weight: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Share of the requests, relative to the other servers' weights.",
    )
    fallback: bool = Field(
        default=False,
        description="Whether the server gets requests only while no other server answers.",
    )
    key: KeyParams | None = Field(
        default=None, description="Location of this server's key; by default the stage's `key`."
    )


class BatchParams(ConnectionPart):
    """Configures requests through the vendor's batch interface."""

    poll_seconds: float = Field(
        default=60.0, gt=0, description="Seconds between two looks at a batch."
    )
    window: str = Field(
        default="24h",
        min_length=1,
        description="Time within which the vendor must answer, as OpenAI's interface names it.",
    )


HeaderParams = dict[str, str | KeyParams]


def check_headers(headers: HeaderParams) -> HeaderParams:
    """Return valid headers.

    Raises:
        ValueError: a name or value is impossible in HTTP, or a parameter sets the header.
    """
    for name, value in headers.items():
        if not _HEADER.fullmatch(name):
            msg = f"`headers`: {name!r} is not the name of a header"
            raise ValueError(msg)
        if name.lower() in _SET_ELSEWHERE:
            msg = f"`headers` must not contain {name!r}, which is set by "
            raise ValueError(msg + _SET_ELSEWHERE[name.lower()])
        if isinstance(value, str) and not _is_header_value(value):
            msg = f"`headers`: the value of {name!r} must be printable ASCII, and not empty"
            raise ValueError(msg)
    return headers


def read_headers(headers: Mapping[str, str | KeyParams]) -> tuple[dict[str, str], list[str]]:
    """Return the headers with their values, and the values that are secret.

    Raises:
        ValueError: an environment variable is not set.
    """
    found = {
        name: value if isinstance(value, str) else value.read(f"the header {name!r}")
        for name, value in headers.items()
    }
    return found, [found[name] for name, value in headers.items() if not isinstance(value, str)]


def _is_header_value(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable()
