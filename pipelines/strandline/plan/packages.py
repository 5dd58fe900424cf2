"""Optional packages: checks whether a package is installed, and explains how to install it.

A package is imported only on request, because some imports take a second. Packs list the packages
of their stages; this module lists the packages of the core.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from strandline.plan.stages.packs import Dependency, load_packs

CORE = (
    Dependency(module="adlfs", name="adlfs", install="strandline[stores]"),
    Dependency(module="aiohttp", name="aiohttp", install="strandline[stores]"),
    Dependency(module="backports", name="backports.zstd", install="strandline[zstd]"),
    Dependency(module="datasketches", name="datasketches", install="strandline[statistics]"),
    Dependency(module="deltalake", name="deltalake", install="strandline[tables]"),
    Dependency(module="gcsfs", name="gcsfs", install="strandline[stores]"),
    Dependency(module="huggingface_hub", name="huggingface_hub", install="strandline[hub]"),
    Dependency(module="lance", name="pylance", install="strandline[tables]"),
    Dependency(module="pyiceberg", name="pyiceberg", install="strandline[tables]"),
    Dependency(module="s3fs", name="s3fs", install="strandline[stores]"),
)


def list_missing(modules: Iterable[str]) -> list[str]:
    """Return the top-level modules that are not installed."""
    # `find_spec` finds a top-level module without an import, which may take a second.
    return [module for module in modules if find_spec(module) is None]


def list_packages() -> tuple[Dependency, ...]:
    """Return the optional packages of the core, followed by those of all packs."""
    return (*CORE, *(each for pack in load_packs().packs.values() for each in pack.packages))


def find_package(module: str) -> Dependency | None:
    """Return the package that provides a module, or None if neither the core nor a pack has it."""
    top = module.partition(".")[0]
    return next((each for each in list_packages() if each.module == top), None)


def name_package(module: str) -> str:
    """Return the distribution name of the package that provides a module."""
    package = find_package(module)
    return module.partition(".")[0] if package is None else package.name


def advise(module: str) -> str:
    """Return how to install a missing module."""
    if (package := find_package(module)) is None:
        return f"install the package with the module {module!r} wherever the pipeline runs"
    needs = f", which needs {package.needs}" if package.needs else ""
    return f"pip install '{package.install}'{needs}"


def load_module(module: str) -> Any:  # noqa: ANN401 - a module
    """Import a module of an optional package.

    Raises:
        ImportError: the module is missing; the message contains the install command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"{name_package(module)} is not installed ({error}); {advise(module)}"
        raise ImportError(msg) from error


def explain_import(error: ImportError) -> str:
    """Return a message about a failed import: the missing package, and how to install it."""
    text = " ".join(str(error).split())
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return text or type(error).__name__
    name = name_package(error.name)
    return f"it needs the package {name}, which is not installed; {advise(error.name)}"
