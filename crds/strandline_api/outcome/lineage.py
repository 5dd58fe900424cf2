"""What a lineage system is told of attempts, as far as driver and operator must agree on it.

Both report the same attempt, each what it alone can see, so ids and states come from here: a
listener sees one run. This room must not know the client that sends events, nor which side sends
which.
"""

import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from enum import StrEnum

from strandline_api.names import GROUP
from strandline_api.outcome.causes import BLAMELESS, Cause

PRODUCER = f"https://{GROUP}"
# OpenLineage's own variables; the client reads their values.
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_DISABLED = "OPENLINEAGE_DISABLED"
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)


class RunEnd(StrEnum):
    """How a run has ended, in OpenLineage's words."""

    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a listener."""
    if environment.get(_DISABLED, "").lower() in {"1", "true"}:
        return False
    named = any(environment.get(name) for name in _VARIABLES)
    return named or any(name.startswith(_TRANSPORT) for name in environment)


@contextmanager
def keeping_variables(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Take back what OpenLineage's client writes into the environment as it is made.

    It spreads what it has read from one variable over others: children, and the next client of this
    process, would take those for settings of their own.
    """
    before = set(environment)
    try:
        yield
    finally:
        for name in set(environment) - before:
            if name.startswith(_TRANSPORT):
                del environment[name]


def name_end(cause: Cause | None) -> RunEnd:
    """Return the end that a cause means; an attempt that failed sources has still run through."""
    if cause in {None, Cause.SOURCES_FAILED}:
        return RunEnd.COMPLETE
    return RunEnd.ABORT if cause in BLAMELESS else RunEnd.FAIL


def name_attempt_run(scope: str, run: str, number: int) -> str:
    """Return the id of an attempt's run, the same for each caller at any time.

    Args:
        scope: of the numbers: the pipeline's uid on a cluster, else the ledger's id.
        run: the pipeline's `runId`.
        number: of the attempt.
    """
    return str(uuid.uuid5(_NAMES, f"{scope}/{run}/{number}"))


def name_parent_run(scope: str, run: str) -> str:
    """Return the id of the run that all attempts of a `runId` are parts of."""
    return str(uuid.uuid5(_NAMES, f"{scope}/{run}"))
