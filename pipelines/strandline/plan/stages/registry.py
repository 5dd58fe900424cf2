"""Finds the stage class for a `use:`: a name from a pack, or `module:Class` of the user's own code.

If a pack has an adapter for the package before the colon, the adapter creates the class.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from strandline.plan.stages.packs import Pack, load_own_packs, load_packs, load_target
from strandline.plan.stages.stage import Stage

StageClass = TypeVar("StageClass", bound=type[Stage])

Adapter = Callable[[str], type[Stage]]

_registered: dict[str, type[Stage]] = {}


class UnknownStageError(ValueError):
    """Raised if the value of `use:` does not name a stage."""


class MissingModuleError(UnknownStageError):
    """Raised if the value of `use:` names a missing module."""


def register(name: str) -> Callable[[StageClass], StageClass]:
    """Register a stage class as `name` for `use:`. Use it as a class decorator.

    Stages of a pack need no registration: the pack lists them.

    Args:
        name: name in a pipeline file, such as `read-files`.

    Returns:
        A decorator that returns the class unchanged.

    Raises:
        ValueError: another class has that name.
    """

    def enter(stage_class: StageClass) -> StageClass:
        known = _registered.setdefault(name, stage_class)
        # A reloaded module defines the same class as a new object, so compare names.
        is_same = known.__module__ == stage_class.__module__
        if not (is_same and known.__qualname__ == stage_class.__qualname__):
            raise ValueError(_name_two(name))
        _registered[name] = stage_class
        return stage_class

    return enter


def read_stages() -> tuple[dict[str, type[Stage]], list[str]]:
    """Load all named stages.

    Returns:
        The classes by name, in alphabetical order, and one sentence for each unusable stage or
            pack.
    """
    installed = load_packs()
    stages, problems = dict(_registered), list(installed.problems)
    for pack in installed.packs.values():
        for name, target in pack.stages.items():
            try:
                found = _load_stage(name, target)
            except UnknownStageError as error:
                problems.append(str(error))
                continue
            if stages.setdefault(name, found) is not found:
                problems.append(
                    f"{_name_two(name)}; {target} of a pack is ignored in favour of "
                    f"{_locate(stages[name])}"
                )
    return dict(sorted(stages.items())), problems


def list_registered() -> dict[str, type[Stage]]:
    """Load and return all named stages, in alphabetical order."""
    return read_stages()[0]


def find_name(stage_class: type[Stage]) -> str | None:
    """Return the name of a class for `use:`, or None if the class has no name."""
    named = (name for name, known in _registered.items() if known is stage_class)
    if (name := next(named, None)) is not None:
        return name
    target = _locate(stage_class)
    listed = (pack.stages.items() for _, pack in _read_packs())
    return next((name for stages in listed for name, each in stages if each == target), None)


def find_pack(use: str) -> tuple[str, Pack] | None:
    """Return a stage's pack and the pack's name, or None if the stage is the user's own code."""
    return next(((name, pack) for name, pack in _read_packs() if use in pack.stages), None)


def find_stage(use: str) -> type[Stage]:
    """Return the class for a `use:`.

    Raises:
        UnknownStageError: no class matches; the message has the reason and a suggestion.
    """
    if ":" not in use:
        return _find_named(use)
    adapted = _adapt(use, load_own_packs())
    if adapted is not None:
        return adapted
    try:
        return _import_stage(use)
    except UnknownStageError:
        # Search the installed packs last: reading the entry points of all distributions is slow.
        if (adapted := _adapt(use, load_packs().packs)) is not None:
            return adapted
        raise


def _adapt(use: str, packs: Mapping[str, Pack]) -> type[Stage] | None:
    """Return the class that an adapter creates for `package:Class`, or None if none matches."""
    package, _, name = use.partition(":")
    found = (pack.adapters[package] for pack in packs.values() if package in pack.adapters)
    if (target := next(found, None)) is None:
        return None
    try:
        adapter = cast("Adapter", load_target(target))
    except Exception as error:  # see `_load_stage`
        raise UnknownStageError(f"{use!r}: {target} can't be loaded ({_word(error)})") from error
    return adapter(name)


def _read_packs() -> Iterator[tuple[str, Pack]]:
    """Yield Strandline's own packs first, then all packs, because reading other packs is slow."""
    yield from load_own_packs().items()
    yield from load_packs().packs.items()


def _find_named(use: str) -> type[Stage]:
    target = _find_target(use)
    if use in _registered:
        if target is not None and target != _locate(_registered[use]):
            raise UnknownStageError(_name_two(use))
        return _registered[use]
    if target is None:
        raise UnknownStageError(_suggest(use))
    return _load_stage(use, target)


def _find_target(use: str) -> str | None:
    """Return `module:Class` for a name, or None if no pack has the name.

    Strandline's own packs take precedence.

    Raises:
        UnknownStageError: two third-party packs have the name.
    """
    if own := _list_targets(use, load_own_packs()):
        return next(iter(own.values()))
    found = _list_targets(use, load_packs().packs)
    if len(found) > 1:
        packs = " and ".join(f"{name!r} ({target})" for name, target in found.items())
        raise UnknownStageError(
            f"{use!r}: the packs {packs} have a stage of this name; remove one of the packs"
        )
    return next(iter(found.values()), None)


def _list_targets(use: str, packs: Mapping[str, Pack]) -> dict[str, str]:
    return {name: pack.stages[use] for name, pack in packs.items() if use in pack.stages}


def _suggest(use: str) -> str:
    """Return the message about an unknown name, with a similar name or the failed packs."""
    installed = load_packs()
    if installed.problems:  # the missing stage may be in one of these packs
        return "; ".join([f"no stage is called {use!r}", *installed.problems])
    names = {*_registered, *(name for pack in installed.packs.values() for name in pack.stages)}
    close = difflib.get_close_matches(use, sorted(names), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "; see `strandline stages`"
    return f"unknown stage {use!r}{hint}"


def _load_stage(use: str, target: str) -> type[Stage]:
    try:
        found = load_target(target)
    except Exception as error:  # third-party modules may raise anything on import
        raise UnknownStageError(f"{use!r}: {target} can't be loaded ({_word(error)})") from error
    if not (isinstance(found, type) and issubclass(found, Stage)):
        raise UnknownStageError(
            f"{use!r}: {target} is not a stage class; derive it from strandline.Stage"
        )
    return found


def _import_stage(use: str) -> type[Stage]:
    module_name, _, class_name = use.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything on import
        msg = f"{use!r}: the module {module_name!r} can't be imported ({_word(error)})"
        # The module itself may exist but import another module that is missing.
        is_missing = isinstance(error, ModuleNotFoundError) and _is_part(error.name, module_name)
        raise (MissingModuleError if is_missing else UnknownStageError)(msg) from error
    found: object = module
    # The class may be nested, as in `my.stages:Text.MinWords`.
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, Stage)):
        msg = f"{use!r}: {module_name!r} has no stage class {class_name!r}"
        raise UnknownStageError(msg)
    return found


def _word(error: Exception) -> str:
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"


def _name_two(name: str) -> str:
    return f"two stages are registered as {name!r}"


def _locate(stage_class: type[Stage]) -> str:
    return f"{stage_class.__module__}:{stage_class.__qualname__}"


def _is_part(name: str | None, module_name: str) -> bool:
    return name is not None and f"{module_name}.".startswith(f"{name}.")
