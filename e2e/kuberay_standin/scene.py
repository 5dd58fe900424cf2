"""What is seen of one RayJob, and what can be done about it. Data only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kuberay_standin.objects import Json

# Gives five letters, for each new name.
Draw = Callable[[], str]


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """What Ray's dashboard said of a job when it was asked.

    Attributes:
        is_reached: False where it did not answer; then the rest is empty.
        status: Ray's word, such as `RUNNING`; empty where Ray knows of no such job.
        start, end: as Kubernetes spells times; empty where there is none.
    """

    is_reached: bool = True
    status: str = ""
    message: str = ""
    start: str = ""
    end: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pod that the server did not let us make.

    Attributes:
        reason: as a condition has it, such as `FailedCreateHeadPod`.
        message: the server's sentence.
        is_due: it is time to try again; until then nothing is made for that RayCluster.
    """

    reason: str
    message: str
    is_due: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """One RayJob and what belongs to it.

    Attributes:
        cluster, service: the RayCluster that the RayJob's status names, and its head's Service.
        job_service: the Service that has the RayJob's own name and leads to the same head.
        secret: with the token of this RayCluster, where it asks for one.
        trouble: what could not be made at the last try.
        pods: of this RayCluster, the leaving ones too.
        job: the Job of the submitter.
        answer: of the dashboard, where it has been asked since the last look.
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
    """Make an object."""

    body: Json


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an object; what it owns goes in the background."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class PutStatus:
    """Make this the whole status of the RayJob or the RayCluster."""

    kind: str
    name: str
    status: Json


@dataclass(frozen=True, slots=True)
class HoldBy:
    """Make these the finalizers of the RayJob."""

    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopJob:
    """Ask Ray to stop the job; it is no matter whether it answers."""

    address: str
    job: str
    token: str = ""


Action = Make | Remove | PutStatus | HoldBy | StopJob
