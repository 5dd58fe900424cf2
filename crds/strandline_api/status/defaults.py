"""The namespace defaults that a pipeline last found, and the output location that they gave.

The status keeps this record for two purposes: an operator that starts while the defaults are
missing waits for them, and defaults that are added or changed later do not move existing outputs.
This module must not depend on where defaults are stored.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from strandline_api.api_model import evolve
from strandline_api.notation.times import Time
from strandline_api.status.records import Name, Record

# A ConfigMap that is replaced by deletion and creation reappears within this time, in seconds.
DEFAULTS_WAIT_SECONDS = 300.0
_MAX_URL = 2048


class DefaultOutput(Record):
    """The output location that the namespace's defaults give. Empty for the ledger's claim."""

    url: Annotated[str, Field(max_length=_MAX_URL)] = Field(
        default="",
        description=(
            "Folder or URL from the namespace's defaults, such as 's3://team/clean'. The outputs "
            "are in its folder '<namespace>/<name>'."
        ),
    )
    claim_name: Name = Field(
        default="", description="Name of the persistent volume claim for outputs."
    )


class DefaultsRecord(Record):
    """Defaults that the pipeline last found in its namespace."""

    digest: Annotated[str, Field(max_length=64)] = Field(
        default="",
        description=(
            "Digest of the namespace's defaults that were last found. Absent if there were none."
        ),
    )
    missing_since: Time | None = Field(
        default=None,
        description=(
            "Time since which the ConfigMap of those defaults is missing. No attempt is created "
            "for five minutes from then. Absent while it exists."
        ),
    )
    output: DefaultOutput | None = Field(
        default=None,
        description=(
            "Output location of the first attempt, used because the pipeline names none. It is "
            "empty for the ledger's claim. Later defaults do not change it. Absent before the "
            "first attempt, and if the pipeline names its own."
        ),
    )

    @property
    def is_known(self) -> bool:
        """Return True if the namespace had defaults."""
        return bool(self.digest)

    def note(self, digest: str, now: float) -> Self:
        """Return the record after the operator has looked up the defaults again.

        Args:
            digest: digest of the defaults, or empty if their ConfigMap is missing.
            now: seconds since the epoch.
        """
        if digest:
            return evolve(self, digest=digest, missing_since=None)
        if not self.is_known:
            return self
        if self.is_awaited(now):
            since = now if self.missing_since is None else self.missing_since
            return evolve(self, missing_since=since)
        # The wait is over, so treat the namespace as one without defaults.
        return evolve(self, digest="", missing_since=None)

    def is_awaited(self, now: float) -> bool:
        """Return True if missing defaults may still reappear."""
        since = now if self.missing_since is None else self.missing_since
        return self.is_known and now - since < DEFAULTS_WAIT_SECONDS
