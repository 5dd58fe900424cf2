"""Builds the section about failures: failed sources by kind, and a command for each kind.

This module does no I/O.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from strandline.cli.report.facts import RunFacts, RunLedger
from strandline.ledger.records.entries import FailureRecord
from strandline.run.attempt.failures import FailureGroup, find_reason

GROUPS = 40
_LISTINGS = {
    "failed": ("ledger", "sources", "--state", "failed"),
    "quarantined": ("ledger", "quarantine", "list"),
}


def find_kinds(ledger: RunLedger) -> Iterator[tuple[FailureRecord, int | None]]:
    """Yield failed sources with the index of their kind, or None if the kind is not shown."""
    numbers = {
        (entry.stage, entry.reason): number
        for number, entry in enumerate(ledger.failures_by_kind.groups[:GROUPS], 1)
    }
    for entry in ledger.failures.items:
        yield entry, numbers.get((entry.stage, find_reason(entry.message)))


def name_command(facts: RunFacts, kind: FailureGroup, state: str) -> str:
    """Return the command line that lists the sources of a kind in a state."""
    error, location, _ = kind.reason
    wanted = [f": {kind.stage}: {error}" if error else kind.stage, location]
    filters = [f"grep -F -- {shlex.quote(word)}" for word in wanted if word]
    return " | ".join([facts.name_command(*_LISTINGS[state]), *filters])
