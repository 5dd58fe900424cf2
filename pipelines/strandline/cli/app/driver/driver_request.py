"""Defines the request for a driver: built from command options, passed as process arguments.

The command and the driver use the same type, so they can't disagree about options. The module must
not depend on the start of a driver, or on a driver's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """Options from the command line; see `take_engine`.

    Attributes:
        after: cause of the previous attempt's end, or None. A newer operator may pass an unknown
            cause.
        trigger: reason for the attempt.
        dead_letters: stage whose dead letters are retried, or None.
    """

    file: Path
    settings: tuple[str, ...]
    volume: Path
    engine: str | None
    address: str | None
    workers: int | None
    after: str | None
    as_json: bool
    trigger: str | None = None
    dead_letters: str | None = None

    def build_arguments(self) -> list[str]:
        """Return the request as process arguments, without options that change per attempt."""
        words = [str(self.file), "--volume", str(self.volume)]
        for setting in self.settings:
            words += ["--set", setting]
        options = {
            "--engine": self.engine,
            "--address": self.address,
            "--workers": self.workers,
        }
        for name, value in options.items():
            words += [] if value is None else [name, str(value)]
        return words + ["--json"] * self.as_json
