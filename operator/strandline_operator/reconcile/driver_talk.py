"""What was heard from drivers: when to ask which, and what they said.

A driver goes once it was heard out, so its word is kept until a status has it. This room must not
know what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from strandline_api.labels import ATTEMPT_LABEL, ROLE_LABEL
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.driver import ask_outcome, ask_progress, read_tail
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod, RayJob
from strandline_operator.model.view import AttemptView, DriverView
from strandline_operator.render.order import Role

# An end is asked about more often than progress.
END_INTERVAL = 2.0
TAIL_LINES = 10
_ENDED_JOBS = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_ENDED_DEPLOYMENTS = frozenset({"Complete", "Failed", "ValidationFailed"})


@dataclass(frozen=True, slots=True)
class Heard:
    """The last words of an attempt's driver, and when it was asked."""

    view: DriverView
    asked: float = 0.0


@dataclass(slots=True)
class DriverTalk:
    """What was heard, by uid of the pipeline: one attempt of each."""

    limits: Limits
    _heard: dict[str, Heard] = field(default_factory=dict)

    async def listen(
        self,
        api: Api,
        pipeline: str,
        attempt: AttemptView,
        rayjob: RayJob | None,
        pods: tuple[Pod, ...],
        now: float,
    ) -> tuple[DriverView, float | None]:
        """Ask the driver of an attempt, where that is due.

        Returns:
            What is known from it, and when to ask again; None where there is nobody to ask, or
            nothing left to be told.
        """
        heard = self._recall(pipeline, attempt)
        mine = [
            pod for pod in pods if pod.meta.labels.get(ATTEMPT_LABEL) == str(attempt.spec.number)
        ]
        is_over = is_ending(attempt, rayjob) or any(pod.submitter_end for pod in mine)
        interval = END_INTERVAL if is_over else self.limits.pull_interval
        head = None if _has_outcome(attempt, heard.view) else _find_head(mine)
        sources = _find_logs(mine) if is_over and _lacks_log(attempt, heard.view) else []
        if head is None and not sources:
            return heard.view, None
        if now >= heard.asked + interval:
            view = heard.view
            if head is not None:
                view = await self._ask(api, view, head, now)
            heard = Heard(await _read_log(api, view, sources), now)
            self._heard[pipeline] = heard
        return heard.view, heard.asked + interval

    def forget(self, pipeline: str) -> None:
        """There is nobody to ask any more."""
        self._heard.pop(pipeline, None)

    def _recall(self, pipeline: str, attempt: AttemptView) -> Heard:
        heard = self._heard.get(pipeline)
        if heard is None or heard.view.attempt != attempt.meta.name:
            return Heard(DriverView(attempt.meta.name))
        return heard

    async def _ask(self, api: Api, known: DriverView, head: Pod, now: float) -> DriverView:
        told = await ask_progress(api, head, self.limits.driver_port)
        outcome = await ask_outcome(api, head, self.limits.driver_port)
        if told is not None:
            progress = told.progress.model_copy(update={"time": now})
            known = replace(known, progress=progress, latest=told.latest)
        return replace(known, outcome=outcome)


def is_ending(attempt: AttemptView, rayjob: RayJob | None) -> bool:
    """Whether the driver has ended, or soon will, as far as anybody but it says."""
    if attempt.status.end_time is not None or attempt.status.outcome is not None:
        return True
    if rayjob is None:
        return attempt.status.ray_job is not None
    is_over = rayjob.job in _ENDED_JOBS or rayjob.deployment in _ENDED_DEPLOYMENTS
    return is_over or rayjob.meta.is_deleting


async def _read_log(api: Api, known: DriverView, sources: list[Pod]) -> DriverView:
    for pod in sources:
        read = await read_tail(api, pod)
        if read is not None:
            outcome, lines = read
            tail = lines[-TAIL_LINES:] or known.log_tail
            return replace(known, log_outcome=outcome or known.log_outcome, log_tail=tail)
    return known


def _has_outcome(attempt: AttemptView, known: DriverView) -> bool:
    return attempt.status.outcome is not None or known.outcome is not None


def _lacks_log(attempt: AttemptView, known: DriverView) -> bool:
    has_outcome = _has_outcome(attempt, known) or known.log_outcome is not None
    return not (has_outcome and (known.log_tail or attempt.status.log_tail))


def _find_head(pods: list[Pod]) -> Pod | None:
    return next((pod for pod in pods if _plays(pod, Role.HEAD) and pod.ip), None)


def _find_logs(pods: list[Pod]) -> list[Pod]:
    """Pods that follow the driver's log; in SidecarMode the head pod does."""
    return [pod for role in (Role.SUBMITTER, Role.HEAD) for pod in pods if _plays(pod, role)]


def _plays(pod: Pod, role: Role) -> bool:
    return pod.meta.labels.get(ROLE_LABEL) == role.value
