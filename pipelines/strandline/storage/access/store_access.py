"""The account for a store, and where it stands: options of ours as the libraries call them.

Pure but for the environment, which comes in as an argument. A secret is only ever named here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Prefixes of S3's keys: such a text is a key, although a variable could have that name.
_KEY = re.compile(r"(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\Z")


class StoreAccess(NamedTuple):
    """How stores below a URL are asked.

    Attributes:
        anonymous: without any credentials.
        requester_pays: the account that asks pays for what is sent.
        endpoint: URL of the server; None: the one of the cloud, or what the environment says.
        credentials: by part of the credentials, the environment variable that has it.
    """

    anonymous: bool = False
    requester_pays: bool = False
    endpoint: str | None = None
    credentials: Mapping[str, str] = {}


class _Library(NamedTuple):
    """What the library of a store calls our options; None: the store has no such thing."""

    anonymous: Mapping[str, Any]
    requester_pays: str | None
    endpoint: str | None
    credentials: Mapping[str, str]


_S3 = _Library(
    {"anon": True},
    "requester_pays",
    "endpoint_url",
    {"accessKeyId": "key", "secretAccessKey": "secret", "sessionToken": "token"},
)
_GOOGLE = _Library({"token": "anon"}, "requester_pays", "endpoint_url", {"keyFile": "token"})
_AZURE = _Library(
    {"anon": True},
    None,
    # Azure's library builds the server's name from the account's, or reads a connection string.
    None,
    {
        "accountName": "account_name",
        "accountKey": "account_key",
        "sasToken": "sas_token",
        "connectionString": "connection_string",
        "tenantId": "tenant_id",
        "clientId": "client_id",
        "clientSecret": "client_secret",
    },
)
_LIBRARIES: dict[str, _Library] = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("abfs", "abfss", "az"), _AZURE),
}


def find_faults(protocol: str, access: StoreAccess) -> Iterator[str]:
    """Yield a sentence for everything that stores of a protocol can't do, or that is no name.

    None of them repeats what stands where a variable's name should.
    """
    library = _LIBRARIES.get(protocol)
    if library is None:
        yield f"{protocol}:// takes no storageOptions; s3://, gs:// and abfs:// do"
        return
    if access.requester_pays and library.requester_pays is None:
        yield f"{protocol}:// has no requesterPays: its stores have their owner pay"
    if access.endpoint is not None and library.endpoint is None:
        yield (
            f"{protocol}:// takes no endpoint; a connection string has one: "
            "credentials.connectionString"
        )
    if access.anonymous and access.credentials:
        yield "anonymous and credentials exclude each other"
    for part, variable in access.credentials.items():
        if part not in library.credentials:
            there = ", ".join(library.credentials)
            yield f"{protocol}:// has no credentials.{part}; there are {there}"
        elif not _VARIABLE.match(variable) or _KEY.match(variable):
            yield (
                f"credentials.{part} is the name of an environment variable, such as "
                "READER_KEY, and never the secret itself"
            )


def build_arguments(
    protocol: str, access: StoreAccess, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the library of a protocol is given.

    Raises:
        PermissionError: a variable that is to have a secret is not set here.
    """
    library = _LIBRARIES[protocol]
    arguments: dict[str, Any] = dict(library.anonymous) if access.anonymous else {}
    if access.requester_pays and library.requester_pays is not None:
        arguments[library.requester_pays] = True
    if access.endpoint is not None and library.endpoint is not None:
        arguments[library.endpoint] = access.endpoint
    for part, variable in access.credentials.items():
        if not environment.get(variable):
            msg = f"the environment variable {variable} is not set (credentials.{part})"
            raise PermissionError(msg)
        arguments[library.credentials[part]] = environment[variable]
    return arguments
