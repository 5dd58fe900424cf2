"""Interface of stages whose requests cost money; `strandline plan --sample` estimates the costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from strandline.plan.stages.stage import Stage


@runtime_checkable
class PaidStage(Protocol):
    """A stage that sends paid requests to a service, and stores the responses in a log."""

    def log_to(self, folder: Path, name: str) -> Stage:
        """Return a copy of the stage that uses the log of a run.

        Args:
            folder: folder of the pipeline on the volume.
            name: name of the stage in the pipeline.
        """

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost of the tokens in the currency of the prices, or None if unpriced."""


# Message of a row that a recalling stage fails because the log has no response for it.
NO_ANSWER = "the log has no answer to its request"


@runtime_checkable
class RecallingStage(Protocol):
    """A paid stage that can repeat its work from the log; `strandline trace` uses it."""

    def recall(self, folder: Path, name: str) -> Stage:
        """Return a copy of the stage that sends nothing. Rows without a response in the log fail.

        Args:
            folder, name: see `PaidStage.log_to`.
        """

    def find_request(self, table: pa.Table, row: int) -> Mapping[str, Any] | None:
        """Return the request for a row of the stage's input, and the response if the log has it.

        The stage is a copy from `recall`, and set up. Return None if the request is unknown.

        Returns:
            Values that JSON can represent.
        """
