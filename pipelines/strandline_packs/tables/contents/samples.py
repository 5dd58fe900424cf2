"""Members of a tar that make a sample: by their names, next to each other, each kind once.

It knows names and members, nothing of columns or tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from strandline_packs.tables.contents.tar_members import TarMember


class SampleError(ValueError):
    """Members that don't make samples; the message says which, where, and what to do."""


class SampleFile(NamedTuple):
    """A member that is of a sample, and what it is there."""

    sample: str
    kind: str
    member: TarMember


@dataclass(frozen=True)
class ShardSample:
    """The files of one sample by extension."""

    name: str
    parts: dict[str, bytes]


def split_name(name: str) -> tuple[str, str]:
    """Return sample and extension: what is before and after the first dot of the last part."""
    folder, slash, last = name.rpartition("/")
    sample, _, kind = last.partition(".")
    return folder + slash + sample, kind.lower()


def find_reason(member: TarMember, sample: str, kind: str) -> str | None:
    """Return why a member is of no sample; None where it is of one."""
    if not member.is_file:
        return "no plain file"
    if not sample or sample.endswith("/"):
        # macOS packs a file's attributes beside it, under its name after `._`.
        is_twin = member.name.rpartition("/")[2].startswith("._")
        return "attributes of macOS" if is_twin else "name that begins with a dot"
    return None if kind else "name without extension"


def collect_samples(files: Iterable[SampleFile]) -> Iterator[ShardSample]:
    """Yield samples of files that follow each other.

    Raises:
        SampleError: a sample's files are apart, or it has one twice.
    """
    ends: dict[str, TarMember] = {}  # the last file of each sample that is over
    last: SampleFile | None = None
    parts: dict[str, TarMember] = {}
    for file in files:
        if last is not None and _identify(last.sample) != _identify(file.sample):
            yield _build_sample(last, parts)
            ends[_identify(last.sample)] = last.member
            parts = {}
        if (end := ends.get(_identify(file.sample))) is not None:
            what = f"{_describe(file.member)} and {_describe(end)} are of one sample, but apart"
            raise SampleError(f"{what}; pack the shard in the order of names (tar --sort=name)")
        if (other := parts.get(file.kind)) is not None:
            what = f"{_describe(other)} and {_describe(file.member)} are the same file of a sample"
            raise SampleError(f"{what}; pack the shard again with one of them")
        parts[file.kind] = file.member
        last = file
    if last is not None:
        yield _build_sample(last, parts)


def _identify(sample: str) -> str:
    # A name with and one without it are one file where a tar is unpacked.
    return sample.removeprefix("./")


def _build_sample(file: SampleFile, parts: dict[str, TarMember]) -> ShardSample:
    return ShardSample(file.sample, {kind: member.content for kind, member in parts.items()})


def _describe(member: TarMember) -> str:
    return f"{member.name!r} at byte {member.offset:,}"
