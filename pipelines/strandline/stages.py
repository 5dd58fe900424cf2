"""The stage classes of all built-in packs.

A class is loaded on first use, because a worker needs only a few of them. Type checkers read
`stages.pyi`.
"""

from __future__ import annotations

from strandline.plan.lazy_names import load_lazily
from strandline.plan.stages.packs import load_own_packs

_TARGETS = (target for pack in load_own_packs().values() for target in pack.stages.values())
_ROOMS = {name: module for module, _, name in (target.partition(":") for target in _TARGETS)}

__all__ = sorted(_ROOMS)  # noqa: PLE0605 - the packs know them

__getattr__, __dir__ = load_lazily(globals(), _ROOMS)
