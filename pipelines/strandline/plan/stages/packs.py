"""Packs: stages that are installed together, found through entry points of Python packages.

A pack is data. Stages are loaded one by one, when a pipeline names them. The module must not depend
on what a stage does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "strandline.packs"
_OURS = "strandline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A package that some stages need, and that `pip install` of the pack alone does not install.

    Attributes:
        module: top-level module, such as `PIL`.
        name: name of the distribution, such as `pillow`.
        install: argument of `pip install` that installs the package, such as `strandline[images]`.
        needs: a requirement outside Python, such as a compiler; empty if there is no such
            requirement.
    """

    module: str
    name: str
    install: str
    needs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Stages that are installed together.

    Attributes:
        stages: `module:Class` of each stage, keyed by the stage's name in `use:`.
        adapters: `module:function` by the package name before the colon, such as `datatrove` in
            `use: datatrove:URLFilter`. The function receives the name after the colon, and returns
            a stage class.
        commands: `module:command` by the name of a command of the `strandline` program.
        summaries: first sentence of a command's help by its name, for `strandline --help`. Without
            a summary, the overview loads the command.
        packages: packages that some of the stages need.
        page: URL of the documentation.
    """

    stages: Mapping[str, str]
    adapters: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    summaries: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[Dependency, ...] = ()
    page: str = ""


@dataclass(frozen=True, slots=True)
class InstalledPacks:
    """The packs of this Python environment.

    Attributes:
        packs: usable packs by name.
        problems: one sentence for each pack that is unusable.
    """

    packs: Mapping[str, Pack]
    problems: tuple[str, ...] = ()


@cache
def load_own_packs() -> Mapping[str, Pack]:
    """Return the packs that come with Strandline, by name.

    The function reads no other distributions, so it takes a tenth of the time of `load_packs`.
    """
    # Import here: the parent of a driver imports this module, but looks up no stage.
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415

    try:
        found = distribution(_OURS).entry_points
    except PackageNotFoundError:  # Strandline runs from a source tree without being installed
        return {}
    return _load([each for each in found if each.group == GROUP]).packs


def load_packs() -> InstalledPacks:
    """Return all installed packs, starting with the packs that come with Strandline.

    A new call also finds packs in folders that were added to `sys.path` since the last call, such
    as those of `code.packages`.
    """
    return _load_all(tuple(sys.path))


@cache
def _load_all(_folders: tuple[str, ...]) -> InstalledPacks:
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    own = load_own_packs()
    # Skip Strandline's own packs: they are loaded already, and would be reported as duplicate
    # names.
    points = [each for each in entry_points(group=GROUP) if _find_distribution(each) != _OURS]
    others = _load(points, own)
    return InstalledPacks({**own, **others.packs}, others.problems)


def _load(points: Iterable[EntryPoint], taken: Mapping[str, Pack] | None = None) -> InstalledPacks:
    packs: dict[str, Pack] = {}
    problems = []
    # Sort, so that of two packs with the same name the same pack wins on every machine.
    for point in sorted(points):
        if point.name in packs or point.name in (taken or {}):
            owner = "another package" if point.name in packs else "Strandline"
            problems.append(
                f"the pack {point.name!r} of {_find_distribution(point)} is ignored: {owner} has a "
                "pack of the same name; choose another name for its entry point"
            )
            continue
        try:
            pack = point.load()
        except Exception as error:  # noqa: BLE001 - a stranger's module may raise anything while it is imported
            reason = str(error) or type(error).__name__
            problems.append(f"the pack {point.name!r} ({point.value}) can't be loaded: {reason}")
            continue
        if isinstance(pack, Pack):
            packs[point.name] = pack
        else:
            problems.append(f"the pack {point.name!r}: {point.value} is not a strandline.Pack")
    return InstalledPacks(packs, tuple(problems))


def _find_distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"


def load_target(target: str) -> object:
    """Return the object that `module:name` names.

    Raises:
        ImportError: the module cannot be imported, or has no such name.
    """
    module, colon, name = target.partition(":")
    if not colon:
        raise ImportError("write module:name, with a colon")
    try:
        return getattr(import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"{module!r} has no {name!r}") from error
