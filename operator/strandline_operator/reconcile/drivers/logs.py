"""Decides which logs of an attempt's driver to read next, and keeps the results.

A log is read when its writer has ended or is about to end, and again only if the log may have
grown. This module must not depend on what follows from a log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from strandline_api.names import ROLE_LABEL
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_operator.cluster.errors import ApiError, Invalid, NotFound
from strandline_operator.model.objects import SUBMITTER, Pod
from strandline_operator.model.view import DriverView
from strandline_operator.render.order import Role

# Seconds between polls of an ending driver, which is polled more often than a running driver.
END_INTERVAL = 2.0
TAIL_LINES = 10
# Number of failed reads after which a log counts as lost with its node.
MOST_MISSES = 2


class LogState(NamedTuple):
    """Identity of a log: its pod, and whether its writer has ended or is about to end."""

    pod: str
    is_ended: bool
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class LogReads:
    """Results of reading an attempt's logs.

    Attributes:
        asked_at: time of the last read, in seconds since the epoch.
        states: states of the logs at the last read.
        pause: seconds until the next read if nothing changes.
        misses: number of failed reads by pod uid.
        absent: logs that do not exist.
        complete: logs that were read to their end.
    """

    asked_at: float = float("-inf")
    states: tuple[LogState, ...] = ()
    pause: float = END_INTERVAL
    misses: Mapping[str, int] = field(default_factory=dict)
    absent: frozenset[LogState] = frozenset()
    complete: frozenset[LogState] = frozenset()

    def pick(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods whose logs may contain something new, in the order to read them."""
        readable: list[Pod] = []
        for pod in pods:
            state = read_state(pod)
            if state in self.complete:
                break
            if state not in self.absent and self.misses.get(state.pod, 0) < MOST_MISSES:
                readable.append(pod)
        return readable

    def is_due(self, pods: list[Pod], now: float) -> bool:
        """Return True if a log's state has changed, or the pause is over."""
        states = tuple(map(read_state, pods))
        return states != self.states or not 0 <= now - self.asked_at < self.pause

    def note_miss(self, pod: Pod, error: ApiError) -> LogReads:
        """Record a failed read of a log."""
        state = read_state(pod)
        # A log that does not exist will never appear, but an unresponsive kubelet may recover.
        absent: set[LogState] = {state} if isinstance(error, (NotFound, Invalid)) else set()
        misses = {**self.misses, state.pod: self.misses.get(state.pod, 0) + 1}
        return replace(self, misses=misses, absent=self.absent | absent)

    def note_read(self, pod: Pod, *, is_new: bool, is_empty: bool, longest: float) -> LogReads:
        """Record a read of a log. If the log had nothing new, double the pause, up to `longest`."""
        state, pause = read_state(pod), END_INTERVAL if is_new else min(2 * self.pause, longest)
        # A submitter always writes some output, so an empty log is incomplete.
        complete: set[LogState] = {state} if state.is_ended and not is_empty else set()
        return replace(self, pause=pause, complete=self.complete | complete)


def read_state(pod: Pod) -> LogState:
    """Return the state of a pod that shows whether its log may have changed."""
    is_ended = pod.submitter_end is not None
    return LogState(pod.meta.uid, is_ended, not is_ended and pod.meta.is_deleting)


def add_log(view: DriverView, outcome: DriverOutcome | None, lines: tuple[str, ...]) -> DriverView:
    """Return the driver's view, with the contents of a log added."""
    tail = lines[-TAIL_LINES:] or view.log_tail
    return replace(view, log_outcome=outcome or view.log_outcome, log_tail=tail)


def find_logs(pods: list[Pod]) -> list[Pod]:
    """Return the pods with the driver's log: submitters, or the head pod in SidecarMode."""
    submitters = [pod for pod in pods if has_role(pod, Role.SUBMITTER)]
    return submitters + [pod for pod in pods if has_role(pod, Role.HEAD) and _submits(pod)]


def _submits(pod: Pod) -> bool:
    return any(container.name == SUBMITTER for container in pod.containers)


def has_role(pod: Pod, role: Role) -> bool:
    """Return True if a pod has the given role in its attempt."""
    return pod.meta.labels.get(ROLE_LABEL) == role.value
