"""Finds resource requests of workers that only Ray can serve.

This module has no side effects and loads quickly.
"""

from __future__ import annotations

from collections.abc import Mapping


def find_beyond(
    cpu: float, gpu: float, memory: object, custom: Mapping[str, float], environment: object
) -> list[str]:
    """Return the names of requests that this engine can't serve; empty if there are none.

    Args:
        cpu: cores that a worker requests.
        gpu: GPUs that a worker requests.
        memory: bytes that a worker reserves; None or 0 if it reserves none.
        custom: custom resources.
        environment: the worker's Ray runtime environment; empty if there is none.
    """
    asked = {
        "GPU": gpu,
        "custom resources": custom,
        "memory to reserve": memory,
        "their own environment": environment,
        "more than one core": cpu > 1,
    }
    return [field for field, value in asked.items() if value]
