"""`kubectl strandline cp`: copies outputs and artifacts from a claim into a local folder."""

from __future__ import annotations

import platform
import tarfile
from pathlib import Path
from typing import IO

import click

from strandline.cli.app.options import show_examples
from strandline.cli.cluster.claim_job import (
    ClusterSession,
    CommandOrder,
    Volumes,
    find_volumes,
    opened_job,
)
from strandline.cli.cluster.copies import COPY_SECONDS, locate_copy, render_tar
from strandline.cli.cluster.job import CONTAINER
from strandline.cli.cluster.kubectl import KubectlError
from strandline.cli.cluster.objects import ClusterPipeline
from strandline.cli.cluster.placement import ClaimUse
from strandline.cli.commands.cluster.session import open_session, take_cluster, take_start
from strandline_api.names import SUBDOMAIN


@click.command(
    "cp",
    epilog=show_examples(
        "kubectl strandline cp corpus:output ./clean",
        "kubectl strandline cp corpus:latest/artifacts ./artifacts",
        "kubectl strandline cp corpus:attempts/0003/p0007/text-lengths.json .",
    ),
)
@click.argument("what", metavar="NAME:PATH")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@take_cluster
@take_start
def copy_files(what: str, folder: Path, start_timeout: float) -> None:
    """Copy outputs or artifacts into FOLDER.

    PATH is `output` or a path below it, `latest` for the content of the latest publication, or
    another path in the pipeline's folder on the volume. The content of a folder is copied into
    FOLDER. Outputs at a URL are not on a claim: copy them with the tools of that store.
    """
    name, _, path = what.partition(":")
    if not path or not SUBDOMAIN.fullmatch(name):
        msg = f"must be NAME:PATH, such as corpus:output or corpus:latest, not {what!r}"
        raise click.UsageError(msg)
    # Without this filter, an archive from the pod could write outside FOLDER.
    if not hasattr(tarfile, "data_filter"):
        have = platform.python_version()
        msg = f"cp needs Python 3.11.4 or newer to unpack safely; this is {have}"
        raise click.UsageError(msg)
    session = open_session(start_timeout)
    pipeline = session.find_pipeline(name)
    volumes = find_volumes(session, pipeline)
    source = locate_copy(pipeline, volumes.document, path)
    count = _copy(session, pipeline, volumes, source, folder)
    session.show(f"{folder}: {count} copied")


def _copy(
    session: ClusterSession, pipeline: ClusterPipeline, volumes: Volumes, source: str, folder: Path
) -> str:
    # A log can't transfer files, so the pod sleeps while a second command in the pod reads the
    # files.
    order = CommandOrder("cp", ClaimUse.COPY, ["sleep", str(COPY_SECONDS)])
    with opened_job(session, pipeline, order, volumes) as (_, pod):
        words = ["exec", f"pod/{pod}", "-c", CONTAINER, "--", *render_tar(source)]
        with session.kubectl.reading(words) as (output, find_code):
            count, broken = _unpack(output, folder)
            output.read()  # read the padding, because tar must not write to a closed pipe
            code = find_code()
    # Check both: `tar` can fail after a complete archive, and an archive can be broken without a
    # failure of `kubectl exec`.
    if code or broken:
        msg = f"{source} could not be copied completely; the files copied so far are in {folder}"
        raise KubectlError(msg)
    return "1 file" if count == 1 else f"{count:,} files"


def _unpack(output: IO[bytes], folder: Path) -> tuple[int, bool]:
    """Unpack an archive as it arrives. Return the number of files, and whether it was broken.

    No name in the archive can place a file outside of the folder.
    """
    count = 0
    try:
        # Mode `r|` reads a stream without seeking, so no copy of the archive is needed.
        with tarfile.open(fileobj=output, mode="r|") as archive:
            for member in archive:
                archive.extract(member, folder, filter="data")
                count += not member.isdir()  # links are copied too
    except tarfile.ReadError:
        return count, True
    except tarfile.FilterError as error:
        msg = f"{error}; nothing more was copied"
        raise KubectlError(msg) from error
    except OSError as error:
        msg = f"{folder}: can't be written: {error.strerror or error}"
        raise click.UsageError(msg) from error
    return count, False
