"""Account and endpoint of a store: translates Strandline's options to those of the libraries.

The functions do no I/O, and take the environment as an argument. The options contain only names of
environment variables with secrets, never secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Matches S3 access key ids. A text of this form is a key, although it is also a valid variable
# name.
_KEY = re.compile(r"(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\Z")


class StoreAccess(NamedTuple):
    """Access options for stores below a URL.

    Attributes:
        anonymous: True to send no credentials.
        requester_pays: True if the requesting account pays for the transfer.
        endpoint: URL of the server, or None for the default of the cloud or the environment.
        credentials: names of environment variables, by field of the credentials.
    """

    anonymous: bool = False
    requester_pays: bool = False
    endpoint: str | None = None
    credentials: Mapping[str, str] = {}


class _Library(NamedTuple):
    """A library's names for the access options, or None for an option that the store lacks."""

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
    # No endpoint: Azure's library derives the server's name from the account, or reads a connection
    # string.
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
    """Yield a sentence for each unsupported option and each invalid variable name.

    The sentences do not repeat an invalid name, because the name may be a secret.
    """
    library = _LIBRARIES.get(protocol)
    if library is None:
        yield f"{protocol}:// does not support storageOptions; s3://, gs:// and abfs:// do"
        return
    if access.requester_pays and library.requester_pays is None:
        yield f"{protocol}:// does not support requesterPays: the owner of the store always pays"
    if access.endpoint is not None and library.endpoint is None:
        yield (
            f"{protocol}:// does not support an endpoint; set credentials.connectionString, which "
            "contains one"
        )
    if access.anonymous and access.credentials:
        yield "anonymous and credentials are mutually exclusive"
    for part, variable in access.credentials.items():
        if part not in library.credentials:
            there = ", ".join(library.credentials)
            yield f"{protocol}:// does not support credentials.{part}; supported: {there}"
        elif not _VARIABLE.match(variable) or _KEY.match(variable):
            yield (
                f"credentials.{part} must be the name of an environment variable, such as "
                "READER_KEY, not the secret itself"
            )


def build_arguments(
    protocol: str, access: StoreAccess, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the arguments for the library of a protocol.

    Raises:
        PermissionError: if an environment variable for a secret is not set.
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
