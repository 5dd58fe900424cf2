"""What a driver is asked for: by options of a command, and on as arguments of another process.

One type at both ends, so that no option can be known to one of them alone. It must not know how a
driver is started, nor what it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """What the command line says, by the names of its options; see `take_engine`.

    Attributes:
        after: a cause, or a word that a newer operator knows.
        trigger: why the attempt is made.
        dead_letters: the stage whose dead letters are tried again.
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
        """Return the request as arguments, but for what differs from attempt to attempt."""
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
