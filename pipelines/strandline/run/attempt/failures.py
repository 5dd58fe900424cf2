"""Groups failed sources by stage, error, and location, with a count and an example.

Even a run with a hundred thousand failed sources has only a few reasons for failure. The module is
pure and must not depend on the storage of failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from strandline.ledger.records.entries import FailureRecord, QuarantinedSource

MOST_GROUPS = 500  # limits memory, because all messages may differ
# An exception as `explain_error` formats it: type, text, and location.
_RAISED = re.compile(r"(?P<error>[^\W\d]\w*)(?:: .*?)?(?: \((?P<where>[^()]+:\d+)\))?", re.DOTALL)
# Parts of a stage's own message that differ from source to source: quoted text, numbers, and paths.
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[\w.:-]*\d[\w.:-]*|\S*/\S*")


class FailureReason(NamedTuple):
    """Reason of failures: the text that the messages of a group have in common.

    Attributes:
        error: type of the exception, or empty if a stage or its watchdog wrote the message.
        location: file and line that raised the exception, or empty if unknown.
        text: the common text of written messages; empty for an exception.
    """

    error: str
    location: str
    text: str

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        return f"{self.error}{where}" or self.text


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with the same reason.

    Attributes:
        stage: the stage in which the sources failed; empty if a process died while it worked on
            them.
        reason: the common text of the messages.
        count: number of failed sources.
        example: the first failure.
        more: the next failures, if several examples were requested.
    """

    stage: str
    reason: FailureReason
    count: int
    example: FailureRecord
    more: tuple[FailureRecord, ...] = ()


class FailureGroups:
    """Counts failures by reason as they are read, with a limit on memory.

    Args:
        limit: maximum number of groups.
        examples: maximum number of examples in a group.

    Attributes:
        others: number of failures that are in no group because there were too many reasons.
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
    """Group failures by stage and reason, the largest group first."""
    groups = FailureGroups()
    for failure in failures:
        groups.add(failure)
    return groups.list_groups()


def view_quarantined(entry: QuarantinedSource) -> FailureRecord:
    """Return a quarantined source as a failure, with the cause in front of the stage."""
    # The stage is empty if a process died while it worked on the source.
    where = ": ".join(filter(None, (entry.cause, entry.stage)))
    return FailureRecord(entry.key, entry.attempt, where, entry.message, entry.times)


def find_reason(message: str) -> FailureReason:
    """Return the text of a message that is the same for all failures with this reason."""
    raised = _RAISED.fullmatch(message)
    # A written message may contain a colon, too. So a message without a location counts as an
    # exception only if it is a bare class name.
    if raised is not None and (raised["where"] or message == raised["error"]):
        return FailureReason(raised["error"], raised["where"] or "", "")
    return FailureReason("", "", _PARTICULAR.sub("…", message))
