"""Provides public names of a module that other modules define, imported on first use.

This module imports only the standard library's `importlib`, not even `typing`: the command imports
this module before Ctrl-C is handled.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def load_lazily(
    module: dict[str, Any], rooms: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose public names are defined elsewhere.

    Args:
        module: the module's `globals()`, which caches imported names.
        rooms: the defining module of each name.
    """

    def load(name: str) -> Any:  # noqa: ANN401 - any public name
        # Raise AttributeError: `hasattr` and `from … import` depend on this exception.
        if name not in rooms:
            msg = f"module {module['__name__']!r} has no attribute {name!r}"
            raise AttributeError(msg)
        # Store the name in the module, so that later accesses do not call this function.
        loaded = module[name] = getattr(import_module(rooms[name]), name)
        return loaded

    def list_names() -> list[str]:
        return sorted({*module, *module["__all__"]})

    return load, list_names
