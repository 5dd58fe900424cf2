"""Runs a case on fixed-size pools of bare Ray actors, without fault tolerance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from strandline_bench.engines.rivals.bare_chain import drive_chain

if TYPE_CHECKING:  # keep workers from importing the modules of the examples
    from strandline_bench.engines.cases import Case


def run(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case on a chain of actor pools with the case's sizes."""
    items = case.items()
    begin()
    batches = (items[at : at + case.batch] for at in range(0, len(items), case.batch))
    stages = zip(case.works, case.sizes, strict=True)
    drive_chain(batches, stages, case.cpu, note=lambda _left: None)
