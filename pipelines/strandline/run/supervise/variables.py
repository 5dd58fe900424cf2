"""Variables by which a parent tells a driver of itself.

Each is taken out of the environment by its reader, so that nothing that the driver starts takes it
for its own. Reading this loads nothing, since a driver does before all else.
"""

from __future__ import annotations

from collections.abc import Iterable

PARENT = "STRANDLINE_PARENT"  # the process
LAST_WORDS = "STRANDLINE_LAST_WORDS"  # the pipe for the sentence of an error
OUTPUT = "STRANDLINE_DRIVER_OUTPUT"  # pipes and log of what is printed
ORDERS = "STRANDLINE_ORDERS"  # the socket through which another pipeline may come
AHEAD = "STRANDLINE_STARTS_RAY"  # a local Ray is wanted, of so many CPUs; empty: of all
FORKS = "STRANDLINE_STARTS_FORKS"  # the process that forks workers is wanted
ALL = (PARENT, LAST_WORDS, OUTPUT, ORDERS, AHEAD, FORKS)
_RAYS = "RAY_"


def list_ray_variables(names: Iterable[str]) -> list[str]:
    """List the variables by which Ray's own settings are changed, of those with such names.

    They are in small letters; RAY_ADDRESS and its like are read later, with a sentence.
    """
    return sorted(
        name for name in names if name.startswith(_RAYS) and name[len(_RAYS) :][:1].islower()
    )
