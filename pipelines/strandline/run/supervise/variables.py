"""Environment variables through which a parent describes itself to a driver.

A reader removes its variable from the environment, so that children of the driver do not inherit
it. This module imports nothing heavy, because a driver loads it first.
"""

from __future__ import annotations

from collections.abc import Iterable

PARENT = "STRANDLINE_PARENT"  # pid of the parent
LAST_WORDS = "STRANDLINE_LAST_WORDS"  # pipe for the message of a final error
OUTPUT = "STRANDLINE_DRIVER_OUTPUT"  # pipes and log of the output
ORDERS = "STRANDLINE_ORDERS"  # socket that may bring another pipeline
AHEAD = "STRANDLINE_STARTS_RAY"  # CPUs of a local Ray to start; empty for all
FORKS = "STRANDLINE_STARTS_FORKS"  # start the process that forks workers
ALL = (PARENT, LAST_WORDS, OUTPUT, ORDERS, AHEAD, FORKS)
_RAYS = "RAY_"


def list_ray_variables(names: Iterable[str]) -> list[str]:
    """Return the environment variables that change Ray's own settings, given all names.

    Their names are in lower case. RAY_ADDRESS and similar variables are read later, and invalid
    values produce a message.
    """
    return sorted(
        name for name in names if name.startswith(_RAYS) and name[len(_RAYS) :][:1].islower()
    )
