"""Names and states in lineage reports on which driver and operator must agree.

Driver and operator report the same attempt, each with different facts. Both take IDs and states
from this module, so a lineage server sees a single run. This module must not depend on the event
client, or on which side sends which event.
"""

import uuid
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from enum import StrEnum

from strandline_api.names import GROUP
from strandline_api.outcome.causes import BLAMELESS, Cause

PRODUCER = f"https://{GROUP}"
# Environment variables that configure OpenLineage's client.
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_DISABLED = "OPENLINEAGE_DISABLED"
# Version 5 UUIDs depend only on the name, so operator and driver compute the same ID.
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)


class RunEnd(StrEnum):
    """How a run ended, in OpenLineage's terms."""

    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if the environment configures a lineage server."""
    if environment.get(_DISABLED, "").lower() in {"1", "true"}:
        return False
    named = any(environment.get(name) for name in _VARIABLES)
    return named or any(name.startswith(_TRANSPORT) for name in environment)


@contextmanager
def keeping_variables(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Remove the variables that OpenLineage's client adds to the environment when it is created.

    The client copies values from one variable to others. Child processes, and the next client of
    this process, would use the copies as settings.
    """
    before = set(environment)
    try:
        yield
    finally:
        for name in set(environment) - before:
            # Keep variables that other code added in the meantime.
            if name.startswith(_TRANSPORT):
                del environment[name]


def name_end(cause: Cause | None) -> RunEnd:
    """Return the run end for a cause. An attempt with failed sources counts as complete."""
    if cause in {None, Cause.SOURCES_FAILED}:
        return RunEnd.COMPLETE
    # An end caused from outside does not prove an error of the run.
    return RunEnd.ABORT if cause in BLAMELESS else RunEnd.FAIL


def name_attempt_run(scope: str, run: str, number: int) -> str:
    """Return the ID of an attempt's lineage run, which is always the same for the same arguments.

    Args:
        scope: ID within which attempt numbers are unique: the pipeline's uid on a cluster,
            otherwise the ledger's ID.
        run: the pipeline's `runId`.
        number: number of the attempt.
    """
    return str(uuid.uuid5(_NAMES, f"{scope}/{run}/{number}"))


def name_parent_run(scope: str, run: str) -> str:
    """Return the ID of the lineage run that is the parent of all attempts of a `runId`."""
    return str(uuid.uuid5(_NAMES, f"{scope}/{run}"))
