"""Prints the objects for a pipeline's attempt, from a file and without a cluster.

The command is `strandline-operator render FILE`; `strandline render` runs it in a separate process.
This module imports neither kopf nor a client, so the command runs wherever the distribution is
installed. It must not depend on how an attempt is rendered.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.names import name_attempt
from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.exit_codes import ExitCode
from strandline_operator.decide.run.dispatch import list_manifests
from strandline_operator.decide.scene import Pass
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Manifest
from strandline_operator.model.view import AttemptObject, View
from strandline_operator.reconcile.caches.own_kinds import read_pipeline
from strandline_operator.settings import SettingsError, read_settings

# Placeholder, because only a server assigns uids.
_UID = "00000000-0000-0000-0000-000000000000"
_HEAD = "head"


class RenderError(ValueError):
    """Raised if a file can't be rendered. The message has one line per problem."""


def render_attempt(document: object, on_demand: Sequence[str], limits: Limits) -> list[Manifest]:
    """Render the objects of a pipeline's first attempt, in creation order.

    Args:
        document: the pipeline.
        on_demand: pod groups (`head` or worker groups) that use on-demand nodes, as after a
            fallback.
        limits: settings of the installation.

    Raises:
        RenderError: if the document is not a pipeline, or can't be rendered without a cluster.
    """
    try:
        spec = parse_pipeline(document).spec
    except SpecError as error:
        raise RenderError("\n".join(map(str, error.problems))) from None
    _check(spec, on_demand)
    assert isinstance(document, dict)  # a valid pipeline is a mapping
    metadata = {"namespace": "default", **document["metadata"], "uid": _UID}
    pipeline = read_pipeline({**document, "metadata": metadata})
    attempt = AttemptSpec(
        pipeline=pipeline.meta.name,
        pipeline_uid=_UID,
        run=spec.run_id,
        number=1,
        on_demand=tuple(on_demand),
    )
    name = name_attempt(pipeline.meta.name, attempt.number)
    meta = Meta(name, pipeline.meta.namespace, _UID)
    now = Pass(View(pipeline), spec, limits, 0.0, 0.0)
    documents = list_manifests(now, AttemptObject(meta, attempt, AttemptStatus()))
    return [manifest for _, manifest in documents]


def _check(spec: PipelineSpec, on_demand: Sequence[str]) -> None:
    if spec.references:
        path, reference = spec.references[0]
        raise RenderError(
            f"{path}: the output location of {reference.pipeline!r} is known only on a cluster"
        )
    names = (_HEAD, *(group.name for group in spec.ray.worker_groups))
    unknown = next((name for name in on_demand if name not in names), None)
    if unknown is not None:
        raise RenderError(f"--on-demand must be one of {', '.join(names)}, not {unknown!r}")


def main(arguments: Sequence[str] | None = None, *, program: str) -> int:
    """Print the objects for a pipeline in a file as YAML, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Prints the objects that an attempt of a pipeline would consist of.",
    )
    parser.add_argument("file", metavar="FILE", help="the pipeline; - for standard input")
    parser.add_argument(
        "--on-demand",
        action="append",
        default=[],
        metavar="NAME",
        help="'head' or a worker group that no longer uses spot nodes; may be repeated",
    )
    words = parser.parse_args(arguments)
    try:
        limits = read_settings({}, os.environ).limits
        documents = render_attempt(_read(words.file), words.on_demand, limits)
    except (OSError, RenderError, SettingsError, yaml.YAMLError) as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"{program}: {line}\n")
        return ExitCode.BAD_SPEC
    sys.stdout.write(yaml.safe_dump_all(documents, sort_keys=False))
    return 0


def _read(file: str) -> Any:  # noqa: ANN401 - any YAML value
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    if len(documents) != 1:
        raise RenderError(f"{file}: must contain one pipeline, not {len(documents)}")
    return documents[0]


if __name__ == "__main__":
    sys.exit(main(program="strandline render"))
