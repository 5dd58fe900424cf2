"""Paths that `cp` can copy from a pipeline's volumes, and the command that packs them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from strandline.cli.cluster.objects import ClusterPipeline
from strandline.cli.cluster.placement import find_output, is_on_claim
from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import VOLUME

# Lifetime of a pod whose user has disappeared.
COPY_SECONDS = 6 * 3600
_OUTPUT = "output"
# Names in the archive are relative to the copied folder, or to the parent of the copied file.
_PACK = (
    # `${1%/*}` is the parent folder and `${1##*/}` the file name, as in `/data/a/b.json`:
    # `/data/a`, `b.json`. The word `--` protects file names that begin with a dash.
    'if [ -d "$1" ]; then exec tar -C "$1" -cf - .; '
    'else exec tar -C "${1%/*}" -cf - -- "${1##*/}"; fi'
)


class NotCopiedError(StrandlineError):
    """The path is not on a claim, or not below the pipeline's folder."""

    exit_code = ExitCode.BAD_SPEC


def locate_copy(pipeline: ClusterPipeline, document: Mapping[str, Any], path: str) -> str:
    """Return the location of a path inside the pod.

    Args:
        pipeline: owner of the volumes.
        document: the pipeline in the form that its driver received.
        path: path below the pipeline's folder; `output` means the outputs.

    Raises:
        NotCopiedError: the path is elsewhere.
    """
    parts = PurePosixPath(path).parts
    # Parent folders and absolute paths would reach other pipelines, or files of the image.
    if not parts or ".." in parts or parts[0] == "/":
        msg = f"{path!r} is not a path in the folder of {pipeline.name}; name `output` or `latest`"
        raise NotCopiedError(msg)
    root = PurePosixPath(VOLUME, pipeline.namespace, pipeline.name)
    output = find_output(document)
    # Without a configured location, the outputs are in the pipeline's folder, below `output`.
    if parts[0] != _OUTPUT or output is None:
        return str(root.joinpath(*parts))
    if not is_on_claim(output):
        msg = (
            f"the outputs of {pipeline.name} are at {output}, not on a claim; copy them with the "
            "store's own tools"
        )
        raise NotCopiedError(msg)
    return str(PurePosixPath(output).joinpath(*parts[1:]))


def render_tar(source: str) -> list[str]:
    """Render the command that writes a file, or a folder's content, as an archive to stdout."""
    return ["/bin/sh", "-c", _PACK, "tar", source]
