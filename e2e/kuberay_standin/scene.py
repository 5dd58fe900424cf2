"""The observed state of a RayJob, and the possible actions. Data only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kuberay_standin.objects import Json

# Returns five random letters for each new name.
Draw = Callable[[], str]


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """Response of Ray's dashboard about a job.

    Attributes:
        is_reached: whether the dashboard responded; if False, the other attributes are empty.
        status: Ray's job status, such as `RUNNING`; empty if Ray has no such job.
        start, end: times in Kubernetes format; empty if unset.
    """

    is_reached: bool = True
    status: str = ""
    message: str = ""
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A rejected pod: the server did not create it.

    Attributes:
        reason: reason of the condition, such as `FailedCreateHeadPod`.
        message: message of the server.
        is_due: whether it is time for a retry; until then, that RayCluster gets no pods.
    """

    reason: str
    message: str
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """A RayJob and its related objects.

    Attributes:
        cluster, service: RayCluster that the RayJob's status names, and the Service of its head.
        job_service: Service with the RayJob's own name, which points to the same head.
        secret: Secret with the token of this RayCluster, if it requires a token.
        trouble: pod that could not be created at the last try.
        pods: pods of this RayCluster, including terminating pods.
        job: Job of the submitter.
        answer: response of the dashboard if this turn has polled it, otherwise None.
    """

    rayjob: Json
    cluster: Json | None = None
    service: Json | None = None
    job_service: Json | None = None
    trouble: Trouble | None = None
    pods: tuple[Json, ...] = ()
    job: Json | None = None
    secret: Json | None = None
    answer: JobAnswer | None = None


@dataclass(frozen=True, slots=True)
class Make:
    """Action that creates an object."""

    body: Json


@dataclass(frozen=True, slots=True)
class Remove:
    """Action that deletes an object. Its dependents are deleted in the background."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Action that replaces the status of the RayJob or the RayCluster."""

    kind: str
    name: str
    status: Json


@dataclass(frozen=True, slots=True)
class HoldBy:
    """Action that replaces the finalizers of the RayJob."""

    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopJob:
    """Action that stops the job in Ray, and ignores the response."""

    address: str
    job: str
    token: str = ""


Action = Make | Remove | PutStatus | HoldBy | StopJob
