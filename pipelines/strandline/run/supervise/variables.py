"""Environment variables through which a parent describes itself to a driver.

A reader removes its variable from the environment, so that children of the driver do not inherit
the variable. This module imports nothing large, because a driver loads it first.
"""

from __future__ import annotations

from collections.abc import Iterable

PARENT = "STRANDLINE_PARENT"  # pid of the parent
LAST_WORDS = "STRANDLINE_LAST_WORDS"  # pipe for the message of a final error
OUTPUT = "STRANDLINE_DRIVER_OUTPUT"  # pipes and log of the output
ORDERS = "STRANDLINE_ORDERS"  # socket on which the parent may send another pipeline
AHEAD = "STRANDLINE_STARTS_RAY"  # CPUs of a local Ray to start; empty for all
FORKS = "STRANDLINE_STARTS_FORKS"  # start the process that forks workers
ALL = (PARENT, LAST_WORDS, OUTPUT, ORDERS, AHEAD, FORKS)
_RAYS = "RAY_"


def list_ray_variables(names: Iterable[str]) -> list[str]:
    """Return the names of environment variables that change Ray's own settings.

    Such names are in lower case after the prefix. RAY_ADDRESS and similar variables are not
    included: Ray reads them later, and invalid values produce a message.
    """
    return sorted(
        name for name in names if name.startswith(_RAYS) and name[len(_RAYS) :][:1].islower()
    )
