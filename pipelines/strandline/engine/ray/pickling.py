"""Ray's own pickler, for engines that pickle as Ray does but do not start Ray."""

from __future__ import annotations

from ray.cloudpickle import dumps

__all__ = ["dumps"]
