"""The entry of the `strandline` command."""

from __future__ import annotations

import sys
from pathlib import Path

from strandline.cli.commands import program


def main() -> None:
    """Run the command line and exit with its code; `module:Class` is looked up from here."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    program.main(prog_name="strandline")


if __name__ == "__main__":
    main()
