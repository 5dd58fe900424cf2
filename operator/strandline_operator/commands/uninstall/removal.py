"""Uninstalls the operator: stops it, then releases, awaits, or counts pipelines.

The operator adds its finalizer again while an attempt is running. The operator is therefore stopped
before finalizers are removed, and restarted after a failure. This module must not depend on the
contents of pipelines.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from strandline_api.names import select_pipeline
from strandline_api.outcome.exit_codes import ExitCode
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Conflict, Forbidden, NotFound
from strandline_operator.commands.uninstall.held_pipelines import (
    HeldPipeline,
    describe_held,
    describe_release,
    read_held,
)
from strandline_operator.commands.uninstall.request import HeldTreatment, UninstallRequest
from strandline_operator.model.plan import Resource

PAUSE_SECONDS = 2.0
# Maximum number of tries per pipeline. Watches, users, or other controllers may write a pipeline in
# between, but not forever.
MOST_CONFLICTS = 10
ENDED = frozenset({"Succeeded", "Failed"})


class UninstallError(Exception):
    """Raised if the operator can't be uninstalled. The message has the reason and advice."""


@dataclass(frozen=True, slots=True)
class Shell:
    """External dependencies of an uninstallation.

    Attributes:
        now: function that returns monotonic time in seconds.
        sleep: function that waits for the given seconds.
        write: function that prints one line for people.
        left: namespaces that were already reported as unreadable.
    """

    api: Api
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    write: Callable[[str], None]
    left: set[str] = field(default_factory=set)


async def prepare_removal(request: UninstallRequest, shell: Shell) -> ExitCode:
    """Release, await, or reject pipelines with the finalizer, as the request specifies.

    Raises:
        UninstallError: if pipelines have the finalizer but must not, or the operator does not stop.
        ApiError: if an API request failed.
    """
    until = shell.now() + request.timeout
    match request.treatment:
        case HeldTreatment.REFUSE:
            await _refuse(request, shell)
        case HeldTreatment.WAIT:
            await _wait(request, shell, until)
        case HeldTreatment.RELEASE:
            await _release_all(request, shell, until)
    return ExitCode.COMPLETE


async def _refuse(request: UninstallRequest, shell: Shell) -> None:
    pipelines = await _list_held(request, shell)
    if pipelines:
        raise UninstallError(
            f"{describe_held(pipelines)}; suspend or delete them first, or set "
            "uninstall.pipelines to 'wait' or 'release'"
        )
    shell.write("no pipeline has an attempt under way or due")


async def _wait(request: UninstallRequest, shell: Shell, until: float) -> None:
    reported = ""
    while pipelines := await _list_held(request, shell):
        # Print only changes, not every poll.
        if (text := describe_held(pipelines)) != reported:
            shell.write(f"waiting: {text}")
            reported = text
        if shell.now() >= until:
            raise UninstallError(f"{text}; they did not end within {request.timeout:g} s")
        await shell.sleep(PAUSE_SECONDS)
    shell.write("no pipeline has an attempt under way or due")


async def _release_all(request: UninstallRequest, shell: Shell, until: float) -> None:
    replicas = await _stop_operator(request, shell, until)
    try:
        for pipeline in await _list_held(request, shell):
            await _release(pipeline, shell)
    except BaseException:
        # Start the operator again. Otherwise, runs would get no retries, and users would not
        # notice.
        if replicas is not None and request.deployment is not None:
            await _scale(request.deployment, replicas, shell)
        raise


async def _release(pipeline: HeldPipeline, shell: Shell) -> None:
    rayjobs = await _list_rayjobs(pipeline, shell)
    current: HeldPipeline | None = pipeline
    for _ in range(MOST_CONFLICTS):
        # The pipeline was deleted or released in the meantime.
        if current is None:
            return
        namespace, name = current.namespace, current.name
        try:
            await shell.api.patch(Resource.PIPELINE, namespace, name, current.render_release())
        except NotFound:
            return
        except Conflict:
            current = read_held(await shell.api.get(Resource.PIPELINE, namespace, name))
            continue
        shell.write(describe_release(current, rayjobs))
        return
    raise UninstallError(f"{pipeline.key} is being changed constantly, and can't be released")


async def _stop_operator(request: UninstallRequest, shell: Shell, until: float) -> int | None:
    """Stop the operator. Return the previous number of replicas, or None if no Deployment exists.

    Return its previous number of replicas, or None if there is no Deployment.
    """
    if request.deployment is None:
        return None
    namespace, name = request.deployment
    body = await shell.api.get(Resource.DEPLOYMENT, namespace, name)
    if body is None:
        return None
    replicas = (body.get("spec") or {}).get("replicas", 1)
    await _scale(request.deployment, 0, shell)
    while await _is_running(namespace, request.selector, shell):
        if shell.now() >= until:
            await _scale(request.deployment, replicas, shell)
            raise UninstallError(
                f"the operator {namespace}/{name} did not stop within {request.timeout:g} s"
            )
        await shell.sleep(PAUSE_SECONDS)
    return int(replicas)


async def _is_running(namespace: str, selector: str, shell: Shell) -> bool:
    """Return True if a pod may still be running. Ended pods remain in lists for a long time."""
    pods = await shell.api.list_all(Resource.POD, namespace, selector)
    phases = ((pod.get("status") or {}).get("phase") for pod in pods)
    return any(phase not in ENDED for phase in phases)


async def _scale(deployment: tuple[str, str], replicas: int, shell: Shell) -> None:
    namespace, name = deployment
    try:
        await shell.api.patch(
            Resource.DEPLOYMENT, namespace, name, {"spec": {"replicas": replicas}}
        )
    except NotFound:
        return


async def _list_held(request: UninstallRequest, shell: Shell) -> list[HeldPipeline]:
    bodies = []
    for namespace in request.namespaces or (None,):
        try:
            bodies += await shell.api.list_all(Resource.PIPELINE, namespace)
        except NotFound:
            # If the CRD was deleted, its pipelines were deleted too.
            continue
        except Forbidden as error:
            if namespace is None:
                raise
            # One unreadable namespace must not block the chart's removal, or the release of
            # pipelines in other namespaces.
            if namespace not in shell.left:
                shell.write(f"namespace {namespace} can't be read, and is skipped: {error.message}")
                shell.left.add(namespace)
            continue
    held = [pipeline for body in bodies if (pipeline := read_held(body)) is not None]
    return [pipeline for pipeline in held if pipeline.namespace not in request.excluded]


async def _list_rayjobs(pipeline: HeldPipeline, shell: Shell) -> list[str]:
    """Return the names of running RayJobs, or empty if the cluster can't list RayJobs."""
    try:
        bodies = await shell.api.list_all(
            Resource.RAYJOB, pipeline.namespace, select_pipeline(pipeline.uid)
        )
    except ApiError:
        return []
    return sorted(str(body["metadata"]["name"]) for body in bodies)
