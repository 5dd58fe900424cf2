"""Reads and digests the code and the files that a stage depends on.

This module must not depend on the comparison of fingerprints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from strandline.data.files.globs import expand_placeholder, is_url
from strandline.data.files.opening import digest_content
from strandline.plan.fingerprint import MODULE_NAME
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Shape
from strandline.run.code.live_code import LiveCode
from strandline.run.code.module_graph import ModuleGraph, OwnCode
from strandline.run.code.own_modules import OwnModules
from strandline.run.code.weight_files import WEIGHTS, list_weights

_LONGEST = 1024  # maximum number of characters in a path
LARGE = 256 << 20  # bytes; of larger files, only sampled blocks are digested
_BLOCKS, _BLOCK_BYTES = 64, 64 << 10  # sample of a large file: 4 MiB in total
_ADVICE = "raise the stage's `version` when that code changes"


class CodeReader:
    """Reads the code of stages. Each module is read only once."""

    def __init__(self) -> None:
        self._modules = OwnModules()
        self._graph = ModuleGraph(self._modules.find)

    def read(self, plan: StagePlan, texts: Mapping[str, str]) -> OwnCode | None:
        """Return the code of a stage, or None for a built-in stage with only plain parameters.

        Args:
            texts: the stage's string parameters, by path.
        """
        # Read the module that the name contains, not only the class, because the module may change
        # a class that it imports.
        names = [plan.use, *texts.values()]
        entries = {name.partition(":")[0] for name in names if MODULE_NAME.fullmatch(name)}
        digests: dict[str, str] = {}
        unread: set[str] = set()
        if plan.is_foreign:
            # For a step of another library, also read that library: the stage class is
            # Strandline's, but the library does the work.
            is_step = self._modules.is_ours(type(plan.stage).__module__)
            entries |= set(plan.stage.packages) if is_step else {type(plan.stage).__module__}
            live = LiveCode(self._graph.is_own, self._modules.is_installed)
            live.visit(type(plan.stage))
            live.visit_attributes(plan.stage)
            live.visit_attributes(plan.stage.params)
            entries |= live.modules
            unread |= live.unread
            if live.has_values:
                digests[self._describe(plan.function or type(plan.stage))] = live.digest
        code = self._graph.collect(entries)
        digests |= code.digests | dict(self._list_versions(entries))
        blind = [f"{each}; {_ADVICE}" for each in sorted(unread.union(code.unread))]
        digests |= dict(_list_files(plan, texts, blind))
        is_any = digests or plan.is_foreign
        return OwnCode(dict(sorted(digests.items())), tuple(blind)) if is_any else None

    def _list_versions(self, entries: set[str]) -> Iterator[tuple[str, str]]:
        for name in entries:
            owner = self._modules.find_owner(name)
            if owner is not None:
                yield owner.name, f"version {owner.version}"

    def _describe(self, subject: Any) -> str:  # noqa: ANN401 - a class or a function
        """Describe code whose behavior its module's text does not fully determine."""
        name = getattr(subject, "__qualname__", type(subject).__qualname__)
        module = self._modules.find(subject.__module__)
        path = getattr(sys.modules.get(subject.__module__), "__file__", None)
        if module is not None:
            return f"{name} in {module.file}"
        return f"{name} in this session" if path is None else f"{name} in {Path(path).name}"


def _list_files(
    plan: StagePlan, texts: Mapping[str, str], blind: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the files that parameters name, with digests. Add what can't be digested to `blind`."""
    for at, text in texts.items():
        name = at.removeprefix(f"{plan.name}.")
        path = _find_path(text)
        if path is None:
            continue
        mode = _read_mode(path)
        try:
            if S_ISREG(mode) and _is_read(plan, name):
                yield text, digest_file(path)
            elif S_ISDIR(mode) and _is_read(plan, name) and not plan.overrides("digest_inputs"):
                blind.append(
                    f"`{name}` is a folder; return the digest of its relevant files from "
                    "`digest_inputs`"
                )
            if S_ISREG(mode) and text.endswith(WEIGHTS):
                yield from _list_weights(path)
        except OSError as error:
            blind.append(f"`{name}`: {path} can't be read: {error.strerror}")


def _is_read(plan: StagePlan, name: str) -> bool:
    """Return True if a parameter may name a file that a user's own stage reads.

    Parameters of sources and the `path` of a sink do not count: sources give a version to each
    listed file, and a sink writes to its path. Built-in stages digest their files themselves.
    """
    if not plan.is_foreign or plan.shape is Shape.SOURCE:
        return False
    return not (plan.shape is Shape.SINK and name == "with.path")


def _find_path(text: str) -> Path | None:
    """Return a parameter as a path, or None if it is certainly not a path."""
    # Names of columns and languages contain no slash and no dot.
    is_path = ("/" in text or "." in text) and any(map(str.isalnum, text))
    if not is_path or len(text) > _LONGEST or is_url(text) or not text.isprintable():
        return None
    return Path(expand_placeholder(text))


def _read_mode(path: Path) -> int:
    """Return the mode of a file or folder, or 0 if the path is missing or invalid."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _list_weights(model: Path) -> Iterator[tuple[str, str]]:
    with model.open("rb") as file:
        if not model.stat().st_size:  # an empty file can't be mapped
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as mapped, memoryview(mapped) as data:
            names = list_weights(model.name, data)
    for name in names:
        path = model.parent / name
        if path.is_file():
            yield name, digest_file(path)


def digest_file(path: Path) -> str:
    """Return a digest of a file. For a large file, digest its size and a sample of blocks.

    Every command that reads the pipeline computes this digest, so it must not take minutes. The
    sample detects retrained weights, which differ in every block.

    Raises:
        OSError: if the file can't be read.
    """
    size = path.stat().st_size
    if size <= LARGE:
        return digest_content(str(path))
    state = blake2b(f"{size}".encode(), digest_size=16)
    with path.open("rb", buffering=0) as file:
        for block in range(_BLOCKS):
            # Read blocks at equal distances, from the start of the file to the end.
            file.seek((size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
            state.update(file.read(_BLOCK_BYTES))
    return state.hexdigest()
