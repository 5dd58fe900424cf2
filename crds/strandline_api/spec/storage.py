"""Storage of a pipeline on a cluster: claims and locations.

A run on a laptop parses the same fields and ignores them. This module must not depend on how a
claim is created.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from strandline_api.api_model import ApiModel, ObjectName, validated_by
from strandline_api.notation.quantities import Quantity

DEFAULT_CLAIM_SIZE = "10Gi"


class LedgerStorage(ApiModel):
    """The claim for the ledger and the attempts' folders."""

    model_config = validated_by(
        (
            "!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))",
            (
                "give 'claimName' for a claim that exists, or 'size' and 'storageClassName' for a "
                "new one"
            ),
        ),
        (
            " && ".join(
                f"has(self.{name}) == has(oldSelf.{name}) && "
                f"(!has(self.{name}) || self.{name} == oldSelf.{name})"
                for name in ("claimName", "storageClassName", "accessMode")
            ),
            "the ledger cannot be moved, and only 'size' may change; create another pipeline",
        ),
    )

    claim_name: ObjectName | None = Field(
        default=None,
        description=(
            "Name of an existing persistent volume claim. The operator creates one when unset."
        ),
    )
    size: Quantity | None = Field(
        default=None,
        description=(
            f"Size of the claim that the operator creates, such as '100Gi'. {DEFAULT_CLAIM_SIZE} "
            "when unset. A larger size expands the claim if its storage class allows it."
        ),
    )
    storage_class_name: ObjectName | None = Field(
        default=None,
        description=(
            "Storage class of the claim that the operator creates. The cluster's default when "
            "unset."
        ),
    )
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod"] = Field(
        default="ReadWriteOnce", description="Access mode of the claim that the operator creates."
    )

    @property
    def claim_size(self) -> str:
        """Size of the claim to create, as the user wrote it, such as `20Gi`."""
        return DEFAULT_CLAIM_SIZE if self.size is None else str(self.size)

    @model_validator(mode="after")
    def _check_one_claim(self) -> Self:
        if self.claim_name is not None and (self.size is not None or self.storage_class_name):
            raise ValueError(
                "give 'claimName' for a claim that exists, "
                "or 'size' and 'storageClassName' for a new one, not both",
            )
        return self


class OutputStorage(ApiModel):
    """The location of results, unless the sink has its own URL."""

    model_config = validated_by(
        ("!has(self.url) || !has(self.claimName)", "give 'url' or 'claimName'")
    )

    url: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="URL or folder of the results, such as 's3://bucket/corpus'."
    )
    claim_name: ObjectName | None = Field(
        default=None,
        description=(
            "Name of a persistent volume claim that the head and all workers can mount "
            "(ReadWriteMany)."
        ),
    )

    @model_validator(mode="after")
    def _check_one_target(self) -> Self:
        if self.url is not None and self.claim_name is not None:
            raise ValueError("give 'url' or 'claimName', not both")
        return self


class Storage(ApiModel):
    """The locations of the ledger and the results on a cluster."""

    ledger: LedgerStorage = Field(
        default_factory=LedgerStorage,
        description=(
            "The persistent volume claim that holds the ledger and the folders of the attempts."
        ),
    )
    output: OutputStorage = Field(
        default_factory=OutputStorage,
        description=(
            "Where the workers write results. When unset, they go to the ledger's claim, through "
            "the head."
        ),
    )
    retention: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description=(
            "What happens to a claim that the operator created when the pipeline is deleted: "
            "'Retain' keeps it, 'Delete' deletes it."
        ),
    )
