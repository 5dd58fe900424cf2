"""Why sources failed, by stage, error and location, each reason with a count and an example.

A run in which a hundred thousand sources fail mostly has three reasons for it. Pure: failures in,
groups out. It must not know where failures are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from strandline.ledger.records.entries import FailureRecord, Quarantined

MOST_GROUPS = 500  # most groups: each message may be an error of its own
# As `explain_error` writes what a stage raised: its type, its text, and where.
_RAISED = re.compile(r"(?P<error>[^\W\d]\w*)(?:: .*?)?(?: \((?P<where>[^()]+:\d+)\))?", re.DOTALL)
# Parts that differ from source to source in a text that a stage made itself.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.:-]*\d[\w.:-]*|\S*/\S*")


class FailureReason(NamedTuple):
    """What messages have in common.

    Attributes:
        error: the type of the exception; empty where a stage, or its watcher, wrote a text.
        location: file and line that raised it; empty where that is not known.
        text: what such texts have in common; empty for an exception.
    """

    error: str
    location: str
    text: str

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        return f"{self.error}{where}" or self.text


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with one reason.

    Attributes:
        stage: in which the sources failed; empty where a process died over them.
        reason: what their messages have in common.
        count: sources.
        example: the first of them.
        more: the next ones, where several are asked for.
    """

    stage: str
    reason: FailureReason
    count: int
    example: FailureRecord
    more: tuple[FailureRecord, ...] = ()


class FailureGroups:
    """Counts failures by reason as they are read, in bounded memory.

    Args:
        limit: of the groups.
        examples: that are kept of each.

    Attributes:
        others: how many are in no group, since there were too many reasons.
    """

    def __init__(self, limit: int = MOST_GROUPS, examples: int = 1) -> None:
        self._limit = limit
        self._examples = examples
        self._groups: dict[tuple[str, FailureReason], tuple[int, list[FailureRecord]]] = {}
        self.others = 0

    def add(self, failure: FailureRecord) -> None:
        """Count a failure."""
        key = (failure.stage, find_reason(failure.message))
        count, examples = self._groups.get(key, (0, []))
        if not count and len(self._groups) >= self._limit:
            self.others += 1
            return
        if len(examples) < self._examples:
            examples.append(failure)
        self._groups[key] = (count + 1, examples)

    def list_groups(self) -> tuple[FailureGroup, ...]:
        """Return the groups, the largest first."""
        groups = (
            FailureGroup(*key, count, examples[0], tuple(examples[1:]))
            for key, (count, examples) in self._groups.items()
        )
        return tuple(sorted(groups, key=lambda group: -group.count))


def group_failures(failures: Iterable[FailureRecord]) -> tuple[FailureGroup, ...]:
    """Return the failures by stage and reason, the largest group first."""
    groups = FailureGroups()
    for failure in failures:
        groups.add(failure)
    return groups.list_groups()


def view_quarantined(entry: Quarantined) -> FailureRecord:
    """Return a source in quarantine as one that failed, its cause before the stage."""
    # Without a stage where a process died over it.
    where = ": ".join(filter(None, (entry.cause, entry.stage)))
    return FailureRecord(entry.key, entry.attempt, where, entry.message, entry.times)


def find_reason(message: str) -> FailureReason:
    """Return what a message has in common with others of the same reason."""
    raised = _RAISED.fullmatch(message)
    if raised is not None and (raised["where"] or message == raised["error"]):
        return FailureReason(raised["error"], raised["where"] or "", "")
    return FailureReason("", "", _PARTICULAR.sub("…", message))
