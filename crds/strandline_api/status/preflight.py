"""The result of a pipeline's preflight check of stages and parameters.

The status keeps the result, so the same pipeline is checked only once per image. This module must
not depend on how the check works.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from strandline_api.notation.times import Time
from strandline_api.status.enums import MAX_ENUM_TEXT
from strandline_api.status.records import Count, Record, Sentence, read_value
from strandline_api.texts import fitting

MAX_IMAGE = 512


class PreflightVerdict(StrEnum):
    """The verdict of the check. Verdicts of other versions count as `UNKNOWN`."""

    PENDING = "Pending"
    PASSED = "Passed"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Preflight(Record):
    """The last preflight check."""

    key: Annotated[str, Field(max_length=64)] = Field(
        default="", description="Digest of the checked pipeline, its code, and its image."
    )
    verdict: Annotated[
        PreflightVerdict,
        read_value(PreflightVerdict, PreflightVerdict.UNKNOWN),
        WithJsonSchema({"type": "string", "maxLength": MAX_ENUM_TEXT}),
    ] = Field(
        default=PreflightVerdict.UNKNOWN,
        description=(
            "One of Pending, Passed, Failed or Unknown. After Unknown, the run continues, and its "
            "attempt reports errors."
        ),
    )
    message: Sentence = Field(
        default="", description="The error found, or the reason that the check gave no result."
    )
    image: Annotated[str, Field(max_length=MAX_IMAGE), BeforeValidator(fitting(MAX_IMAGE))] = Field(
        default="", description="Digest of the image that ran the check, if known."
    )
    generation: Count = Field(
        default=0, description="The metadata.generation of the pipeline that was checked."
    )
    time: Time | None = Field(
        default=None, description="Time of the result, or start of the check."
    )
