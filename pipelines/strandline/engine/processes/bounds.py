"""What a worker may ask for that is not to be had without Ray. Pure, and quick to load."""

from __future__ import annotations

from collections.abc import Mapping


def find_beyond(
    cpu: float, gpu: float, memory: object, custom: Mapping[str, float], environment: object
) -> list[str]:
    """Return in words what a worker asks for and can't have here; empty where it is all there.

    Args:
        memory: that it reserves; None or 0: none.
        custom: resources of a kind of the user's own.
        environment: of Ray's, for itself; empty: none.
    """
    asked = {
        "GPU": gpu,
        "resources of a kind of your own": custom,
        "memory to reserve": memory,
        "environment of their own": environment,
        "more than one core": cpu > 1,
    }
    return [field for field, value in asked.items() if value]
