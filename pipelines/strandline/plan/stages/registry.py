"""Which stage a `use:` means: a registered name, or `module:Class` of the user's own code.

Where an adapter is registered under what stands before the colon, it makes the class.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from strandline.plan.stages.stage import Stage

StageClass = TypeVar("StageClass", bound=type[Stage])

Adapter = Callable[[str], type[Stage]]

_registered: dict[str, type[Stage]] = {}
_adapters: dict[str, Adapter] = {}
_modules: dict[str, str] = {}  # stages, and adapters under `package:`, loaded when named


class UnknownStageError(ValueError):
    """A `use:` that names no stage."""


class MissingModuleError(UnknownStageError):
    """A `use:` that names a module which is nowhere."""


def register(name: str) -> Callable[[StageClass], StageClass]:
    """Make a stage class known as `name` in `use:`; a class decorator.

    Args:
        name: what a file says, such as `read-files`.

    Returns:
        A decorator that gives the class back unchanged.

    Raises:
        ValueError: another class has that name.
    """

    def enter(stage_class: StageClass) -> StageClass:
        if _modules.get(name, stage_class.__module__) != stage_class.__module__:
            msg = f"two stages are registered as {name!r}"
            raise ValueError(msg)
        known = _registered.setdefault(name, stage_class)
        if known.__qualname__ != stage_class.__qualname__:
            msg = f"two stages are registered as {name!r}"
            raise ValueError(msg)
        _registered[name] = stage_class
        return stage_class

    return enter


def register_adapter(package: str) -> Callable[[Adapter], Adapter]:
    """Make a function known that makes stages of a package's classes; a decorator.

    Args:
        package: what stands before the colon, as in `use: datatrove:URLFilter`; the function is
            given what stands behind it.
    """

    def enter(adapter: Adapter) -> Adapter:
        _adapters[package] = adapter
        return adapter

    return enter


def register_modules(modules: Mapping[str, str]) -> None:
    """Make the stages of modules known by name; a module is loaded when its name is looked up.

    Args:
        modules: by the name that each registers, or by an adapter's package with a colon.
    """
    _modules.update(modules)


def list_registered() -> dict[str, type[Stage]]:
    """Return all registered stages by name, in alphabetical order; loads every one."""
    for module in _modules.values():
        importlib.import_module(module)
    return dict(sorted(_registered.items()))


def find_name(stage_class: type[Stage]) -> str | None:
    """Return the name that a class is registered under; None where it has none."""
    return next((name for name, known in _registered.items() if known is stage_class), None)


def find_stage(use: str) -> type[Stage]:
    """Return the class that `use` means.

    Raises:
        UnknownStageError: with one sentence that says what is wrong and what may have been meant.
    """
    package, colon, name = use.partition(":")
    if (module := _modules.get(package + colon)) is not None:
        importlib.import_module(module)
    if colon and package in _adapters:
        return _adapters[package](name)
    if colon:
        return _import_stage(use)
    if use in _registered:
        return _registered[use]
    names = {*_registered, *(name for name in _modules if not name.endswith(":"))}
    close = difflib.get_close_matches(use, sorted(names), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "; see `strandline stages`"
    msg = f"no stage is called {use!r}{hint}"
    raise UnknownStageError(msg)


def _import_stage(use: str) -> type[Stage]:
    module_name, _, class_name = use.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything while it is imported
        what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        msg = f"{use!r}: the module {module_name!r} can't be imported ({what})"
        # A module that is there may itself import one that is not.
        is_missing = isinstance(error, ModuleNotFoundError) and _is_part(error.name, module_name)
        raise (MissingModuleError if is_missing else UnknownStageError)(msg) from error
    found: object = module
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Stage)):
        msg = f"{use!r}: {module_name!r} has no stage class {class_name!r}"
        raise UnknownStageError(msg)
    return found


def _is_part(name: str | None, module_name: str) -> bool:
    return name is not None and f"{module_name}.".startswith(f"{name}.")
