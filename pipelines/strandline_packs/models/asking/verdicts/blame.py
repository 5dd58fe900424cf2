"""Decides whether a row or the server is to blame for failures, by the results of other rows.

An overloaded server rejects requests at random, and requests for some rows several times in
succession. A row is to blame once such a series of rejections is improbable. This module does no
I/O and reads no clock: times are arguments.
"""

from __future__ import annotations

from strandline_packs.models.asking.answers import Setback

_CHANCE = 1e-4  # if the chance of such a series is lower, the row is to blame
# A probe is smaller than any row, so an answered probe is weak evidence against a row: at most
# `_MOST_PROBES` answered probes count. While more than `_FEW` other rows are stuck, at most
# `_MOST_PROBES` push-backs without an answered row in between count.
_MOST_PROBES = 3
_FEW = 2


class ServerTraffic:
    """Counts the outcomes of all rows at a server.

    Attributes:
        answered: number of answered rows.
        row_answered_at: time of the last answer to a row.
        answered_at: time of the last answer, including answers to probes.
        pushed: number of push-backs of rows that were answered in the end.
        stuck: number of rows that were pushed back and are not yet answered.
        blamed: number of rows that were pushed back and given up.
        probed: number of answered probes.
    """

    def __init__(self) -> None:
        self.answered = self.pushed = self.stuck = self.blamed = self.probed = 0
        self.answered_at = self.row_answered_at = float("-inf")


class RowTries:
    """The tries of one question.

    Args:
        traffic: outcomes of all rows at the server.
        tries: number of tries after which the row may be to blame.
        limit: seconds without an answer to any row, after which the row is to blame regardless of
            chance.
        begun: time of the first try.

    Attributes:
        setbacks: number of failed tries.
    """

    def __init__(self, traffic: ServerTraffic, tries: int, limit: float, begun: float) -> None:
        self._traffic, self._tries = traffic, tries
        self._begun, self._limit = begun, limit
        self._before = self._count()
        self._busy = self._unproven = 0
        self._busy_at = float("inf")
        self.setbacks = 0

    def note(self, setback: Setback, now: float) -> None:
        """Record a failed try."""
        self.setbacks += 1
        if not setback.is_busy:
            return
        # Count outcomes from the first push-back on. Earlier answers are no evidence, because a
        # rate limit may have been exhausted since.
        if not self._busy:
            self._traffic.stuck += 1
            self._before = self._count()
        elif self._traffic.row_answered_at <= self._busy_at:
            self._unproven += 1
        self._busy += 1
        self._busy_at = now

    def close(self, now: float, *, is_answered: bool) -> None:
        """Record the end of the question."""
        self._traffic.stuck -= self._busy > 0
        if is_answered:
            self._traffic.answered += 1
            self._traffic.row_answered_at = now
            self._traffic.pushed += self._busy
        else:
            self._traffic.blamed += self._busy > 0

    @property
    def is_alone(self) -> bool:
        """Return whether the server answered other requests since this row's last push-back."""
        return self._traffic.answered_at > self._busy_at

    @property
    def needs_evidence(self) -> bool:
        """Return whether the verdict now depends on the server's answers to other rows."""
        return self._busy > 0 or self.setbacks >= self._tries

    def is_to_blame(self, now: float) -> bool:
        """Return whether the row has used up its tries, given that the server answers others."""
        if self.setbacks < self._tries:
            return False
        if not self._busy or self._find_chance() <= _CHANCE:
            return True
        return now - max(self._begun, self._traffic.row_answered_at) >= self._limit

    def _find_chance(self) -> float:
        """Return the chance that a row without fault is pushed back as often as this row."""
        pairs = zip(self._count(), self._before, strict=True)
        answered, pushed, probed = (now - before for now, before in pairs)
        stuck = self._traffic.stuck - 1
        pushes, answers = pushed + stuck, answered + min(probed, _MOST_PROBES)
        # If rows were given up and no pushed-back row was ever answered, the cause is not a rate
        # limit.
        is_rate = not self._traffic.blamed or self._traffic.pushed > 0
        left_out = max(0, self._unproven - _MOST_PROBES) if is_rate and stuck > _FEW else 0
        # Laplace's rule of succession: few results must not give certainty.
        return ((pushes + 1) / (pushes + answers + 2)) ** (self._busy - left_out)

    def _count(self) -> tuple[int, int, int]:
        return self._traffic.answered, self._traffic.pushed, self._traffic.probed
