"""Names of a module that lie in others, each loaded when it is first used.

It must not know which. Like the package's own face it loads nothing, `typing` neither: the command
comes by here before it can listen to Ctrl-C.
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
    """`__getattr__` and `__dir__` of a module.

    Args:
        module: its `globals()`, which keep what was loaded.
        rooms: where each name is defined.
    """

    def load(name: str) -> Any:  # noqa: ANN401 - whatever has the name
        if name not in rooms:
            msg = f"module {module['__name__']!r} has no attribute {name!r}"
            raise AttributeError(msg)
        found = module[name] = getattr(import_module(rooms[name]), name)
        return found

    def list_names() -> list[str]:
        return sorted({*module, *module["__all__"]})

    return load, list_names
