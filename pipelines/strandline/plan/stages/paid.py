"""Interface of stages whose requests cost money; `strandline plan --sample` estimates the costs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

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
