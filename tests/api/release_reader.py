"""Program that runs on the last release's sources, and prints parsed documents line by line.

The release's sources come first in the import path, so the program must not use current code.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import strandline_api


def find(module: str, name: str) -> Any:
    """Import an object by its name in the release. Current code may lack that name."""
    return getattr(importlib.import_module(module), name)


def drive(text: str) -> Any:
    """Return the pipeline as a driver reads it from its manifest."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        path.write_text(text, encoding="utf-8")
        reading = find("strandline.run.yaml_file", "read_pipeline")(path)
        return spell(getattr(reading, "pipeline", reading))


def operate(document: Any) -> Any:
    """Return the pipeline as an operator reads it. Return None if it rejects unknown fields."""
    if importlib.util.find_spec("strandline_api.stored") is None:
        return None
    parse = find("strandline_api.stored", "parse_stored_pipeline")
    return spell(parse(document).pipeline)


def fingerprint(text: str) -> Any:
    """Return the fingerprint of a driver's plan."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        path.write_text(text, encoding="utf-8")
        return find("strandline.run.manifest", "read_manifest")(path).plan.fingerprint.digest


def command(line: str) -> dict[str, str]:
    """Return the parsed arguments of a `strandline ...` command line."""
    import click  # noqa: PLC0415 - slow, and seldom asked

    program = find("strandline.cli.commands", "program")
    _, name, *words = shlex.split(line)
    found = program.get_command(click.Context(program), name)
    assert found is not None, f"there is no command {name}"
    return {key: str(value) for key, value in found.make_context(name, words).params.items()}


def spell(pipeline: Any) -> Any:
    """Return a pipeline's spec with every default."""
    return pipeline.spec.model_dump(mode="json", by_alias=True)


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "attempt-spec": lambda document: (
        find("strandline_api.attempt", "AttemptSpec").parse(document).to_json()
    ),
    "attempt-status": lambda document: find("strandline_api.attempt", "parse_attempt_status")(
        document
    ).to_json(),
    "command": command,
    "drive": drive,
    "fingerprint": fingerprint,
    "operate": operate,
    "pipeline": lambda document: spell(
        find("strandline_api.documents", "parse_pipeline")(document)
    ),
    "status": lambda document: find("strandline_api.status", "parse_status")(document).to_json(),
}


def answer(line: str) -> dict[str, Any]:
    """Return the answer to a request, which is a line of JSON, or the error."""
    what, given = json.loads(line)
    try:
        return {"answer": ANSWERS[what](given)}
    except Exception as error:  # noqa: BLE001 - told to who has asked
        return {"error": f"{type(error).__name__}: {getattr(error, 'message', error)}"}


if __name__ == "__main__":
    assert str(strandline_api.__file__).startswith(sys.argv[1]), strandline_api.__file__
    for asked in sys.stdin:
        print(json.dumps(answer(asked)), flush=True)
