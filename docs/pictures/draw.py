"""Draws run.svg, the picture in the README, from a real run of the main example: `make picture`."""

from __future__ import annotations

import io
import re
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from strandline.cli.details import read_details
from strandline.cli.ledger_access import locate
from strandline.cli.progress_view import draw
from strandline.cli.snapshot import Pace, Snapshot, take_snapshot
from strandline.cli.summary import describe_outcome
from strandline.engine.ports import Progress
from strandline.run.attempt import Options, run_attempt
from strandline.run.manifest import read_manifest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "pipelines" / "examples" / "python-functions.yaml"
WIDTH = 84


def main() -> None:
    """Run the example in a temporary volume and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        lines, frame = _run(Path(folder))
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print("[bold]$ make run[/bold]", highlight=False)
    console.print(draw("python-functions", frame))
    console.print("[dim]…[/dim]")
    for line in lines:
        console.print(line, markup=False, highlight=False, no_wrap=True)
    # Without the fonts that rich would fetch; the reader's own monospace does.
    fetched = r"@font-face \{\{.*?\}\}\n|<!-- Generated.*?-->\n?"
    style = re.sub(fetched, "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console.save_svg(str(HERE / "run.svg"), title="strandline", code_format=style)


def _run(volume: Path) -> tuple[list[str], Snapshot]:
    """The summary's lines, and how the run looked when half of it was done."""
    plan, pace, begun = read_manifest(EXAMPLE, ()).plan, Pace(), time.monotonic()
    frames: list[Snapshot] = []

    def report(progress: Progress) -> None:
        if progress.finished and (not frames or frames[-1].finished < progress.listed // 2):
            frames.append(take_snapshot(progress, time.monotonic() - begun, pace))

    outcome = run_attempt(plan, Options(volume), report=report)
    details = read_details(locate(plan, volume), outcome.attempt)
    lines = [
        line.replace(str(volume), "strandline-data") for line in describe_outcome(outcome, details)
    ]
    return lines, frames[-1]


if __name__ == "__main__":
    main()
