"""Writes the CustomResourceDefinitions next to this file, or checks that they are up to date."""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from strandline_api.definition import pipeline_definition
from strandline_api.kinds import GROUP, PIPELINE

FOLDER = Path(__file__).resolve().parent
HEADER = """\
# Made by `python crds/generate.py` from the models in crds/strandline_api.
# Do not edit: change the models and run that command again.
"""


class _Dumper(yaml.SafeDumper):
    """Spells repeated parts out, since manifests with anchors are hard to read and to patch."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def rendered() -> dict[Path, str]:
    """Write every definition as text, by the file it belongs in."""
    text = yaml.dump(
        pipeline_definition(), Dumper=_Dumper, sort_keys=False, width=96, allow_unicode=True
    )
    return {FOLDER / f"{GROUP}_{PIPELINE.plural}.yaml": f"{HEADER}---\n{text}"}


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Name the files that are missing or differ from what they should be."""
    return [
        path
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` exit 1 where one is out of date."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: crds/generate.py --check"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    wanted = rendered()
    outdated = stale(wanted)
    if parser.parse_args(arguments).check:
        for path in outdated:
            sys.stderr.write(f"{path.name} is out of date; run: python crds/generate.py\n")
        return 1 if outdated else 0
    for path in outdated:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
