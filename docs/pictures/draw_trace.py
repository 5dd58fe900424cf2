"""Draws trace.svg, the picture in docs/trace.md: `make picture`.

The picture has the output of `strandline trace` for a page of a generated crawl. FineWeb's
recipe drops the page as a near-duplicate.
"""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "pipelines" / "examples"
STRANDLINE = [sys.executable, "-m", "strandline"]
PAGES = 102
FONT, WIDTH, HEIGHT, EDGE = 13, 7.83, 18, 16  # pixels: font, a character, a line, the margin


def main() -> None:
    """Run the recipe, trace a page, and draw the output."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        shutil.copy(EXAMPLES / "fineweb.yaml", folder)
        crawl = [sys.executable, str(EXAMPLES / "make_crawl.py"), "strandline-data/crawl"]
        _execute(folder, [*crawl, "--pages", str(PAGES)])
        _execute(folder, [*STRANDLINE, "run", "fineweb.yaml", "--engine", "inline"])
        text = _execute(folder, [*STRANDLINE, "trace", "fineweb.yaml", "--row", _find_copy(folder)])
    (HERE / "trace.svg").write_text(render(text.replace(path, "/data")), "utf-8")


def render(text: str) -> str:
    """Return a picture of the lines of a terminal."""
    lines = text.rstrip().split("\n")
    size = f"{2 * EDGE + WIDTH * max(map(len, lines)):.0f}", f"{2 * EDGE + HEIGHT * len(lines)}"
    rows = "\n".join(
        f'<text x="{EDGE}" y="{EDGE + HEIGHT * at + FONT}"{_style(line)}>{html.escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        f'width="{size[0]}" height="{size[1]}" xml:space="preserve" fill="#1f2328" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT}">\n'
        f'<rect width="100%" height="100%" rx="6" fill="#f6f8fa"/>\n{rows}\n</svg>\n'
    )


def _style(line: str) -> str:
    """Return the attributes of a line: names of pipelines are bold, and drops are red."""
    weight = "" if line.startswith(" ") else ' font-weight="bold"'
    return weight + (' fill="#cf222e"' if " dropped: " in line else "")


def _find_copy(folder: Path) -> str:
    """Return the first key that is listed as a duplicate."""
    listed = (folder / "strandline-data/default/fineweb-duplicates/output").rglob("*.parquet")
    return str(min(key for path in listed for key in pq.read_table(path)["key"].to_pylist()))


def _execute(folder: Path, command: list[str]) -> str:
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603 - our own words
    return done.stdout


if __name__ == "__main__":
    main()
