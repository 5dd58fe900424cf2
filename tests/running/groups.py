"""Groups of the second and the third tier: their tests and the programs they need. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiers import FOLDERS_OF_MORE, Tier

ENGINE_FOLDERS = ("engines", "fuzz", "runtime")


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a tier that can run alone: `make group G=NAME`.

    Attributes:
        words: arguments of make that run the group; if empty, pytest runs its folders.
        builds: targets of make that must be up to date first, such as a server in Go.
        needs_root: whether the group runs only as root, and only on Linux.
    """

    name: str
    tier: Tier
    words: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    needs_root: bool = False


def list_groups(test_folders: Sequence[str]) -> list[Group]:
    """Return all groups. CI runs equally relevant groups in this order.

    Args:
        test_folders: folders below `tests`. A folder that no other group names belongs to
            `commands`, so no test is left out.
    """
    taken = {*ENGINE_FOLDERS, *FOLDERS_OF_MORE}
    rest = tuple(folder for folder in test_folders if folder not in taken)
    more, full = Tier.MORE, Tier.FULL
    servers = ("cluster", "s3", "gcs", "azure", "helm", "readers", "browser")
    return [
        Group("commands", more, folders=rest, builds=("browser",)),
        Group("engines", more, folders=ENGINE_FOLDERS),
        Group("stores", more, folders=("stores",), builds=("s3", "gcs", "azure")),
        Group("server", more, folders=("apiserver",), builds=("cluster",)),
        Group("chart", more, words=("chart",), builds=("helm", "cluster")),
        Group("gitops", more, words=("gitops",), builds=("readers",)),
        Group("wheel", more, words=("wheel",)),
        Group("workflow", more, words=("workflow",)),
        Group("bench", more, folders=("bench",)),
        Group(
            "node", more, words=("e2e",), builds=("cluster", "helm", "s3", "dns"), needs_root=True
        ),
        Group("full", full, folders=tuple(test_folders), builds=servers),
        Group("crash", full, words=("crash",)),
        Group("laws", full, words=("laws",)),
        Group("fuzz", full, words=("fuzz", "SECONDS_TO_RUN=1800")),
        Group("mutants", full, words=("mutants",)),
        Group("soak", full, words=("soak",)),
        Group("soak-operator", full, words=("soak-operator",), builds=("cluster",)),
        Group("clocks", full, words=("clocks",), builds=("cluster",)),
        Group("lowest", full, words=("lowest",)),
        Group("ray-versions", full, words=("ray-versions",)),
        Group(
            "e2e-all",
            full,
            words=("e2e-all",),
            builds=("cluster", "helm", "s3", "dns", "policies"),
            needs_root=True,
        ),
    ]
