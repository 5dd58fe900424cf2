"""Requests reports from drivers, and keeps the latest results.

A driver exits once its final report was received, so the report is kept until a status contains it.
Passes request a report when an attempt ends, or when the last request is too old. Between passes, a
poller requests reports from running drivers. This module must not depend on what follows from a
report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from strandline_api.api_model import evolve
from strandline_api.names import ATTEMPT_LABEL
from strandline_api.outcome.reader_token import derive_release_token, derive_token
from strandline_api.status.enums import AttemptPhase
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.driver import Answer, DriverAddress, ask, read_tail
from strandline_operator.cluster.errors import ApiError
from strandline_operator.decide.evidence.rayjobs import ENDED_JOBS
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod, RayJob
from strandline_operator.model.view import AttemptObject, DriverView, Silence
from strandline_operator.reconcile.drivers.logs import (
    END_INTERVAL,
    LogReads,
    add_log,
    find_logs,
    has_role,
    read_state,
)
from strandline_operator.render.order import Role

# Maximum seconds of silence that a single request adds. Each unanswered request adds the time since
# the previous request, but a clock change or a stalled process must not prolong the silence.
LONGEST_PAUSE = 60.0
# Seconds without a pass after which requests add no silence, because the operator itself is cut
# off.
LONGEST_BLIND = 150.0
# Ray's states of a job that has not started. The state is empty if Ray does not know the job.
_NOT_BEGUN = frozenset({"", "PENDING"})
_ENDED_DEPLOYMENTS = frozenset({"Complete", "Failed", "ValidationFailed"})


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The latest report of an attempt's driver.

    Attributes:
        view: combined contents of all reports.
        asked_at: time of the last request, in seconds since the epoch.
        looked: time of the last pass over the attempt, in seconds since the epoch.
        is_end: whether the driver was ending or had ended at the last request.
        logs: results of reading the logs.
    """

    view: DriverView
    asked_at: float = 0.0
    looked: float = 0.0
    is_end: bool = False
    logs: LogReads = field(default_factory=LogReads)

    def is_due(self, now: float, interval: float) -> bool:
        """Return True if it is time for the next request.

        After the clock was set back, it is always time.
        """
        return not 0 <= now - self.asked_at < interval


@dataclass(frozen=True, slots=True)
class Question:
    """A request to send to a running attempt's driver, and how to recognize new information.

    Attributes:
        attempt: name of the attempt.
        address: address of the head pod.
        reported: time of the progress in the attempt's status, or None if it has no progress.
        latest: latest publication in the attempt's status.
        limit: seconds of silence before a pass is necessary, or None for no limit.
        is_awaited: whether the driver should respond by now.
    """

    attempt: str
    address: DriverAddress
    reported: float | None
    latest: str
    limit: float | None
    is_awaited: bool


@dataclass(slots=True)
class DriverTalk:
    """Driver reports by pipeline uid. A pipeline has at most one running attempt."""

    limits: Limits
    _last: dict[str, LastAnswer] = field(default_factory=dict)
    _questions: dict[str, Question] = field(default_factory=dict)

    async def listen(
        self,
        api: Api,
        pipeline: str,
        attempt: AttemptObject,
        rayjob: RayJob | None,
        pods: tuple[Pod, ...],
        now: float,
        limit: float | None = None,
    ) -> tuple[DriverView, float | None]:
        """Request a report from an attempt's driver, if it is time.

        Args:
            limit: seconds of silence before a pass is necessary, or None for no limit.

        Returns:
            The latest report, and the time at which a pass must request the next report. The time
            is None if there is no driver or nothing more to report, or if the poller requests the
            report.
        """
        last = self._find(pipeline, attempt.meta.name)
        mine = [
            pod for pod in pods if pod.meta.labels.get(ATTEMPT_LABEL) == str(attempt.spec.number)
        ]
        is_over = is_ending(attempt, rayjob) or any(pod.submitter_end for pod in mine)
        # The driver of a held attempt has already sent its final report.
        is_urgent = is_over and attempt.status.phase is not AttemptPhase.HELD
        interval = END_INTERVAL if is_urgent else self.limits.pull_interval
        is_new_end = is_over and not last.is_end
        # After an unanswered request, try again soon, so that an outdated silence does not end an
        # attempt.
        pause = END_INTERVAL if last.view.silence.is_lasting else interval
        head = None if _has_outcome(attempt, last.view) else _find_head(mine)
        is_readable = is_over and _lacks_log(attempt, last.view)
        sources = last.logs.pick(find_logs(mine)) if is_readable else []
        self._questions.pop(pipeline, None)
        is_missed = not is_over and head is None and attempt.status.running_time is not None
        is_awaited = is_missed or _is_awaited(attempt, rayjob, last.view)
        if head is None and not sources and not is_missed:
            return last.view, None
        if is_new_end or last.is_due(now, pause):
            first = replace(last, looked=now, is_end=is_over)
            address = self._find_address(attempt, head)
            last = await self._ask(api, pipeline, first, now, address, is_awaited=is_awaited)
            if sources and last.logs.is_due(sources, now):
                last = await self._read_log(api, pipeline, last, sources, now)
        else:
            last = self._last[pipeline] = replace(last, looked=now)
        if is_over or head is None or attempt.status.running_time is None:
            return last.view, last.asked_at + interval
        address = self._find_address(attempt, head)
        self._questions[pipeline] = _make_question(attempt, address, limit, is_awaited=is_awaited)
        return last.view, None

    def list_due(self, now: float) -> list[str]:
        """Return the pipelines whose running driver should get a request now."""
        return [
            pipeline
            for pipeline, question in self._questions.items()
            if self._find(pipeline, question.attempt).is_due(now, self.limits.pull_interval)
        ]

    async def ask(self, api: Api, pipeline: str, now: float) -> bool:
        """Request a report outside of a pass. Return True if a pass must process the report."""
        question = self._questions.get(pipeline)
        if question is None:
            return False
        before = self._find(pipeline, question.attempt)
        address, is_awaited = question.address, question.is_awaited
        last = await self._ask(api, pipeline, before, now, address, is_awaited=is_awaited)
        return self._is_new(question, before.view.silence, last.view, now)

    def forget(self, pipeline: str) -> None:
        """Forget a pipeline that has no driver."""
        self._last.pop(pipeline, None)
        self._questions.pop(pipeline, None)

    def _find(self, pipeline: str, attempt: str) -> LastAnswer:
        last = self._last.get(pipeline)
        return last if last and last.view.attempt == attempt else LastAnswer(DriverView(attempt))

    async def _ask(
        self,
        api: Api,
        pipeline: str,
        before: LastAnswer,
        now: float,
        address: DriverAddress,
        *,
        is_awaited: bool,
    ) -> LastAnswer:
        """Send a request if the address is known, and store the result."""
        # Record the request before sending it. Otherwise, another pass would send a second request.
        last = self._last[pipeline] = replace(before, asked_at=now)
        answer = await ask(api, address) if address.ip else Answer()
        latest = self._find(pipeline, last.view.attempt).view
        view = replace(latest, silence=Silence())
        # Do not count silence before the driver should respond: Ray and the head need time to start
        # it.
        if is_awaited and not answer.is_reached:
            silence = latest.silence.prolong(*self._measure_pause(before, now))
            view = replace(view, silence=silence)
        if answer.reported is not None:
            view = replace(
                view,
                progress=evolve(answer.reported.progress, time=now),
                latest=answer.reported.latest,
                log_file=answer.reported.log_file,
                redo_reason=answer.reported.redo_reason,
            )
        if answer.outcome is not None:
            view = replace(view, outcome=answer.outcome)
        return self._note(pipeline, last, view)

    async def _read_log(
        self, api: Api, pipeline: str, last: LastAnswer, sources: list[Pod], now: float
    ) -> LastAnswer:
        """Read the first log that is available, and store the result."""
        view = last.view
        logs = replace(last.logs, asked_at=now, states=tuple(map(read_state, sources)))
        for pod in sources:
            try:
                outcome, lines = await read_tail(api, pod)
            except ApiError as error:
                logs = logs.note_miss(pod, error)
                continue
            view = add_log(last.view, outcome, lines)
            logs = logs.note_read(
                pod,
                is_new=view != last.view,
                is_empty=not lines,
                longest=self.limits.pull_interval,
            )
            break
        before_logs = self._note(pipeline, last, view)
        answer = replace(before_logs, logs=logs)
        if self._last.get(pipeline) is before_logs:
            self._last[pipeline] = answer
        return answer

    def _find_address(self, attempt: AttemptObject, head: Pod | None) -> DriverAddress:
        token = derive_token(attempt.meta.uid)
        release = derive_release_token(self.limits.token_key, attempt.meta.uid)
        # Prefer the port from the pod, because the setting may have changed since the pod was
        # created.
        port = (head.driver_port if head else 0) or self.limits.driver_port
        return DriverAddress(head.ip if head else "", port, token, release)

    def _measure_pause(self, before: LastAnswer, now: float) -> tuple[float, float]:
        """Return the seconds since the last request, and the maximum that counts as silence."""
        is_blind = now - before.looked > LONGEST_BLIND
        longest = max(LONGEST_PAUSE, 2 * self.limits.pull_interval)
        return now - before.asked_at, 0.0 if is_blind else longest

    def _note(self, pipeline: str, before: LastAnswer, view: DriverView) -> LastAnswer:
        """Store a report, unless its attempt was forgotten in the meantime."""
        latest = self._last.get(pipeline)
        if latest is None or latest.view.attempt != view.attempt:
            return replace(before, view=view)
        last = self._last[pipeline] = replace(latest, view=view)
        return last

    def _is_new(self, question: Question, before: Silence, view: DriverView, now: float) -> bool:
        """Return True if a pass would write or act because of a report."""
        silence = view.silence
        if view.outcome is not None or silence.is_lasting != before.is_lasting:
            return True
        last = view.progress.time if view.progress else question.reported
        if last is None or last != now:
            is_bounded = last is not None and question.limit is not None
            return is_bounded and silence.is_longer_than(question.limit or 0.0)
        is_due = question.reported is None or not (
            0 <= now - question.reported < self.limits.status_interval
        )
        return is_due or bool(view.latest and view.latest != question.latest)


def is_ending(attempt: AttemptObject, rayjob: RayJob | None) -> bool:
    """Return True if the driver has ended or soon will, according to objects on the server."""
    if attempt.status.end_time is not None or attempt.status.outcome is not None:
        return True
    if rayjob is None:
        return attempt.status.ray_job is not None
    is_over = rayjob.job in ENDED_JOBS or rayjob.deployment in _ENDED_DEPLOYMENTS
    return is_over or rayjob.meta.is_deleting


def _is_awaited(attempt: AttemptObject, rayjob: RayJob | None, view: DriverView) -> bool:
    """Return True if Ray or the driver itself has reported the driver's start."""
    has_answered = attempt.status.progress is not None or view.progress is not None
    return has_answered or (rayjob is not None and rayjob.job not in _NOT_BEGUN)


def _make_question(
    attempt: AttemptObject, address: DriverAddress, limit: float | None, *, is_awaited: bool
) -> Question:
    status = attempt.status
    reported = status.progress.time if status.progress else None
    return Question(attempt.meta.name, address, reported, status.latest, limit, is_awaited)


def _has_outcome(attempt: AttemptObject, view: DriverView) -> bool:
    return attempt.status.outcome is not None or view.outcome is not None


def _lacks_log(attempt: AttemptObject, view: DriverView) -> bool:
    has_outcome = _has_outcome(attempt, view) or view.log_outcome is not None
    return not (has_outcome and (view.log_tail or attempt.status.log_tail))


def _find_head(pods: list[Pod]) -> Pod | None:
    return next((pod for pod in pods if has_role(pod, Role.HEAD) and pod.ip), None)
