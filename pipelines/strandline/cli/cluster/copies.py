"""Paths that `cp` can copy from a pipeline's volumes, and the command that packs them.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from strandline.cli.cluster.objects import ClusterPipeline
from strandline.cli.cluster.placement import find_output, is_on_claim
from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import VOLUME

# Seconds until a forgotten pod ends, for example after the user's machine has crashed.
COPY_SECONDS = 6 * 3600
_OUTPUT = "output"
# The archive has names relative to the copied folder, or to the parent folder of a copied file.
_PACK = (
    # `${1%/*}` is the parent folder and `${1##*/}` the file name, as in `/data/a/b.json`:
    # `/data/a`, `b.json`. After `--`, a file name that begins with a dash is not an option.
    'if [ -d "$1" ]; then exec tar -C "$1" -cf - .; '
    'else exec tar -C "${1%/*}" -cf - -- "${1##*/}"; fi'
)


class NotCopiedError(StrandlineError):
    """Raised if the path is not on a claim, or not below the pipeline's folder."""

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
    # Reject parent folders and absolute paths, which could lead to other pipelines' files, or to
    # files of the image.
    if not parts or ".." in parts or parts[0] == "/":
        msg = f"{path!r} is not a path in the folder of {pipeline.name}; name `output` or `latest`"
        raise NotCopiedError(msg)
    root = PurePosixPath(VOLUME, pipeline.namespace, pipeline.name)
    output = find_output(document)
    # Without a configured location, the outputs are in the subfolder `output` of the pipeline's
    # folder.
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
    """Render the command that writes a file or a folder's content to stdout, as a tar archive."""
    return ["/bin/sh", "-c", _PACK, "tar", source]
