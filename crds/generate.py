"""Writes the CRDs and the files derived from them, or checks that existing files are current."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from chart import render_readme, render_schema, render_template, render_values
from reference import render_failures, render_reference
from strandline_api.schema.crd import attempt_definition, pipeline_definition

ROOT = Path(__file__).resolve().parents[1]
HEADER = """\
# Made by `python crds/generate.py` from the models in crds/strandline_api.
# Do not edit: change the models and run that command again.
"""


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts in full, because YAML anchors are hard to read and to patch."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def rendered(root: Path) -> dict[Path, str]:
    """Render all generated files, by path."""
    definitions = (pipeline_definition(), attempt_definition())
    failures = root / "docs" / "failures.md"
    return {
        **{_find_path(root, definition): _render_yaml(definition) for definition in definitions},
        **_render_chart(root / "charts" / "strandline", definitions),
        root / "docs" / "api.md": render_reference(definitions),
        failures: render_failures(failures.read_text(encoding="utf-8")),
    }


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Return the files that are missing or out of date."""
    return [
        path
        for path, text in wanted.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the files. With `--check`, write nothing, and return 1 if a file is out of date."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: crds/generate.py --check"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    is_check = parser.parse_args(arguments).check
    wanted = rendered(root)
    outdated = stale(wanted)
    if is_check:
        for path in outdated:
            sys.stderr.write(f"{path.name} is out of date; run: python crds/generate.py\n")
        return 1 if outdated else 0
    for path in outdated:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


def _render_chart(chart: Path, definitions: tuple[dict[str, Any], ...]) -> dict[Path, str]:
    schema = chart / "values.schema.json"
    text = render_schema(schema.read_text(encoding="utf-8"), definitions[0])
    return {
        **{
            _find_path(chart / "templates", definition): render_template(_render_yaml(definition))
            for definition in definitions
        },
        schema: text,
        chart / "values.yaml": render_values(json.loads(text)),
        chart / "README.md": render_readme(json.loads(text)),
    }


def _find_path(root: Path, definition: dict[str, Any]) -> Path:
    spec = definition["spec"]
    return root / "crds" / f"{spec['group']}_{spec['names']['plural']}.yaml"


def _render_yaml(definition: dict[str, Any]) -> str:
    text = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=96, allow_unicode=True)
    return f"{HEADER}---\n{text}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
