"""Parameters of all file sources: accounts and endpoints of the stores that a source lists.

The module must not depend on how requests to a store are made.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from strandline.data.files.globs import is_url, parse_pattern
from strandline.storage.access.store_access import StoreAccess, find_faults


class StorageOptions(BaseModel):
    """The account and endpoint for a source's stores."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    anonymous: bool = Field(default=False, description="Send requests without credentials.")
    requester_pays: bool = Field(
        default=False, description="Pay for transfers from buckets that require it."
    )
    endpoint: str | None = Field(
        default=None, description="URL of a server that speaks S3 or Google's protocol."
    )
    credentials: dict[str, str] = Field(
        default_factory=dict,
        description="Parts of the credentials, such as `accessKeyId`, each as the name of an "
        "environment variable that holds the value; secrets themselves are rejected.",
    )

    def build_access(self) -> StoreAccess:
        """Return the options in the form that the `storage` package expects."""
        return StoreAccess(
            self.anonymous, self.requester_pays, self.endpoint, dict(self.credentials)
        )


def list_access(patterns: Iterable[str], options: StorageOptions | None) -> dict[str, StoreAccess]:
    """Return the access options for the base URL of each pattern in a store."""
    if options is None:
        return {}
    parsed = [parse_pattern(pattern) for pattern in patterns]
    # The options apply only to stores, so skip local folders in the same list.
    return {pattern.base: options.build_access() for pattern in parsed if is_url(pattern.base)}


def check_access(patterns: Iterable[str], options: StorageOptions | None) -> StorageOptions | None:
    """Return the options unchanged if they are valid.

    Raises:
        ValueError: if a store does not support the options, or a value is not a variable name.
    """
    for url, access in list_access(patterns, options).items():
        for fault in find_faults(url.partition("://")[0], access):
            raise ValueError(fault)
    return options
