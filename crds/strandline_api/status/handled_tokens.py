"""Records which annotation requests the operator has handled.

This module must not depend on the source of a request, or on the response to it.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field

from strandline_api import texts
from strandline_api.names import CANCEL_ANNOTATION, REPAIR_ANNOTATION, RETRY_ANNOTATION
from strandline_api.status.records import Record

_MAX_TOKEN = 256


def _shorten(token: str) -> str:
    text = texts.repair(token)
    if len(text) <= _MAX_TOKEN:
        return text
    # Use a digest, because the prefixes of two long requests may be equal.
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class HandledTokens(Record):
    """The last annotation request of each kind, so that no request is handled twice."""

    retry: Annotated[str, Field(max_length=_MAX_TOKEN)] = Field(
        default="",
        description=(
            "Last value of the annotation 'strandline.dev/retry' that was handled. Any other text, "
            "such as '2', requests an attempt."
        ),
    )
    cancel: Annotated[str, Field(max_length=_MAX_TOKEN)] = Field(
        default="",
        description=(
            "Last value of the annotation 'strandline.dev/cancel' that was handled. Any other "
            "text, such as '2', ends the run."
        ),
    )
    repair: Annotated[str, Field(max_length=_MAX_TOKEN)] = Field(
        default="",
        description=(
            "Last value of the annotation 'strandline.dev/repair' that was handled. Any other "
            "text, such as '2', requests an attempt that restores missing or damaged outputs."
        ),
    )

    @classmethod
    def from_annotations(cls, annotations: Mapping[str, str]) -> Self:
        """Read a pipeline's current request annotations, to compare them with handled requests.

        An empty value requests nothing. A long value is stored as a digest.
        """
        return cls(
            retry=_shorten(annotations.get(RETRY_ANNOTATION, "")),
            cancel=_shorten(annotations.get(CANCEL_ANNOTATION, "")),
            repair=_shorten(annotations.get(REPAIR_ANNOTATION, "")),
        )
