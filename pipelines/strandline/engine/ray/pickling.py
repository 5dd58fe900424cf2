"""Ray's own pickler, for an engine that works as Ray does and starts no Ray."""

from __future__ import annotations

from ray.cloudpickle import dumps

__all__ = ["dumps"]
