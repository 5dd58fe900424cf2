"""Groups tar members into samples: adjacent members with the same name.

A sample has at most one member per extension. The module must not depend on columns or tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from strandline_packs.tables.contents.tar_members import TarMember


class SampleError(ValueError):
    """Raised if the members do not form samples.

    The message contains the member, its position, and a remedy.
    """


class SampleFile(NamedTuple):
    """A member of a sample, and its kind."""

    sample: str
    kind: str
    member: TarMember


@dataclass(frozen=True)
class ShardSample:
    """The files of one sample by extension."""

    name: str
    parts: dict[str, bytes]


def split_name(name: str) -> tuple[str, str]:
    """Split a name at the first dot of its last part into sample and extension."""
    folder, slash, last = name.rpartition("/")
    sample, _, kind = last.partition(".")
    return folder + slash + sample, kind.lower()


def find_reason(member: TarMember, sample: str, kind: str) -> str | None:
    """Return the reason why a member belongs to no sample, if any."""
    if not member.is_file:
        return "no plain file"
    if not sample or sample.endswith("/"):
        # macOS stores the attributes of a file in an adjacent file whose name starts with `._`.
        is_twin = member.name.rpartition("/")[2].startswith("._")
        return "attributes of macOS" if is_twin else "name that begins with a dot"
    return None if kind else "name without extension"


def collect_samples(files: Iterable[SampleFile]) -> Iterator[ShardSample]:
    """Yield the samples of adjacent files.

    Raises:
        SampleError: the files of a sample are not adjacent, or a kind occurs twice.
    """
    ends: dict[str, TarMember] = {}  # the last file of each completed sample
    last: SampleFile | None = None
    parts: dict[str, TarMember] = {}
    for file in files:
        if last is not None and _identify(last.sample) != _identify(file.sample):
            yield _build_sample(last, parts)
            ends[_identify(last.sample)] = last.member
            parts = {}
        if (end := ends.get(_identify(file.sample))) is not None:
            what = (
                f"{_describe(file.member)} and {_describe(end)} belong to one sample, but are not "
                "adjacent"
            )
            raise SampleError(f"{what}; pack the shard in the order of names (tar --sort=name)")
        if (other := parts.get(file.kind)) is not None:
            what = f"{_describe(other)} and {_describe(file.member)} are the same file of a sample"
            raise SampleError(f"{what}; pack the shard again with one of them")
        parts[file.kind] = file.member
        last = file
    if last is not None:
        yield _build_sample(last, parts)


def _identify(sample: str) -> str:
    # Names with and without this prefix are the same file when a tar is unpacked.
    return sample.removeprefix("./")


def _build_sample(file: SampleFile, parts: dict[str, TarMember]) -> ShardSample:
    return ShardSample(file.sample, {kind: member.content for kind, member in parts.items()})


def _describe(member: TarMember) -> str:
    return f"{member.name!r} at byte {member.offset:,}"
