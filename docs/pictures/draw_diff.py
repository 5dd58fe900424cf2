"""Draws diff.png, the picture in docs/diff.md: `make picture-diff`.

The picture shows the page that the blocks of docs/diff.md write.
"""

from __future__ import annotations

import base64
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from document_blocks import COMMENT, read_blocks, write_files
from headless import NoBrowserError, find_browser, opened_page

HERE = Path(__file__).parent
PAGE = "docs/diff.md"
SIZE = (1000, 960)


def main() -> None:
    """Run the blocks of the page and photograph the comparison."""
    try:
        find_browser()
    except NoBrowserError as error:
        sys.exit(f"strandline: {error}")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        write_files(PAGE, folder)
        for block in read_blocks(PAGE):
            if block.language == "python":
                _run(folder, "-c", block.code)
            for line in block.code.splitlines() if block.language == "bash" else ():
                _run(folder, "-m", *shlex.split(COMMENT.sub("", line)))
        with opened_page(folder / "browser") as shown:
            width, height = SIZE
            shown.open(folder / "diff.html", width=width, height=height, scheme="light")
            answer = shown.call("Page.captureScreenshot")
            (HERE / "diff.png").write_bytes(base64.b64decode(answer["data"]))


def _run(folder: Path, *words: str) -> None:
    # The exit code of a comparison is 1 if it finds a difference.
    subprocess.run([sys.executable, *words], cwd=folder, check=False)  # noqa: S603 - the page's words


if __name__ == "__main__":
    main()
