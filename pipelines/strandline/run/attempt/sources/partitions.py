"""Joins sources that share storage into groups. A partitioned pipeline lists groups as sources.

To the ledger and the engines, a group is a source like any other: one key, one version derived from
the members' versions, and one task. So resuming, replaying, verifying, and quarantining need no
extra rules for groups.

The listing is written to a database in a temporary folder. Memory holds the members of one group, a
few words per source, and data of sources that the database can't store.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path

from strandline.data.files.buckets import digest_members
from strandline.data.files.identities import FileIdentities
from strandline.data.files.listing import FileSource
from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.setup import set_up_stage
from strandline.engine.core.ports import Listing
from strandline.ledger.errors import DuplicateKeyError
from strandline.plan.errors import StrandlineError, may_pass
from strandline.plan.partition import (
    StorageGroups,
    find_chain,
)
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.ends import EndStage, Source, SourceStage
from strandline.plan.task import Lineage, Task
from strandline.plan.token import digest_key
from strandline.run.attempt.sources.chaining import (
    PartitionError,
    bound_groups,
    count_sample,
    describe_chaining,
    list_shares,
)
from strandline.run.attempt.sources.published_outputs import LedgerOutputs, find_published
from strandline.run.attempt.sources.spooled_sources import SpooledSources
from strandline.storage.access.refusals import StoreRefusesError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.temporary import spooling
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.exit_codes import ExitCode

_SHOWN = 4  # maximum number of sources of a chain in a message

Join = Callable[[list[Task]], Task]


def group_sources(plan: PipelinePlan, sources: Iterable[Source], join: Join) -> Iterator[Source]:
    """Yield the groups of a complete listing, the largest first, so that workers end together.

    Args:
        join: joins the tasks of a group into one task.

    Raises:
        SpecError: if a group is larger than `maxGroup`. In this case, no group has been yielded.
        PartitionError: if a source or sink stage can't determine what a source shares, or the tasks
            of a group can't be joined.
        DuplicateKeyError: if a key is listed twice, or is the name of a group.
    """
    with spooling("sources (item INTEGER PRIMARY KEY, key UNIQUE, content)") as spool:
        kept = SpooledSources()
        joining = _fill(spool, plan.partitioned_by, sources, kept)
        sizes = Counter(map(joining.find, range(len(joining))))
        _check_sizes(plan, spool, joining, sizes, kept)
        _rank(spool, joining, sizes)
        _check_names_of_groups(spool)
        rows = spool.execute(
            "SELECT coalesce(name, key), item, content FROM sources JOIN ranks USING (item) "
            "ORDER BY size DESC, 1, key"
        )
        for name, members in groupby(rows, key=lambda row: row[0]):
            group = [kept.unpack(item, content) for _, item, content in members]
            yield _create_group(_decode(name), group, join)


def _fill(
    spool: sqlite3.Connection,
    ends: dict[str, EndStage],
    sources: Iterable[Source],
    kept: SpooledSources,
) -> StorageGroups:
    spool.execute("CREATE TABLE shares (item INT, name)")
    spool.execute("CREATE TABLE positions (name UNIQUE, key)")
    spool.execute("BEGIN")
    joining = StorageGroups()
    for item, source in enumerate(sources):
        shares = set(list_shares(ends, source))
        joining.add(shares)
        row = (item, _encode(source.key), kept.pack(item, source))
        try:
            spool.execute("INSERT INTO sources VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise _duplicate(spool, source.key, item) from None
        _check_positions(spool, ends, source)
        rows = ((item, _encode(name)) for name in shares)
        spool.executemany("INSERT INTO shares VALUES (?, ?)", rows)
    spool.execute("COMMIT")
    return joining


def _check_positions(spool: sqlite3.Connection, ends: dict[str, EndStage], source: Source) -> None:
    """Record the position to which each stage writes a source. Reject a position that is taken."""
    for stage, end in ends.items():
        position = end.name_position(source)
        if position is None:
            continue
        row = (_encode(f"{stage}/{position}"), _encode(source.key))
        try:
            spool.execute("INSERT INTO positions VALUES (?, ?)", row)
        except sqlite3.IntegrityError:
            (other,) = spool.execute("SELECT key FROM positions WHERE name = ?", row[:1]).fetchone()
            msg = (
                f"the sources {_decode(other)!r} and {source.key!r} have the same position, "
                f"{position}, and stage {stage!r} writes only one source there"
            )
            raise PartitionError(msg) from None


def _check_sizes(
    plan: PipelinePlan,
    spool: sqlite3.Connection,
    joining: StorageGroups,
    sizes: Counter[int],
    kept: SpooledSources,
) -> None:
    most = bound_groups(plan)
    group, size = max(sizes.items(), key=lambda pair: pair[1], default=(0, 0))
    if size <= most:
        return
    shares: dict[str, list[str]] = {}
    for item, key, name in spool.execute(
        "SELECT item, key, name FROM sources JOIN shares USING (item)"
    ):
        if joining.find(item) == group:
            shares.setdefault(_decode(key), []).append(_decode(name))
    message = (
        f"{size} sources share storage and would form one group; the limit is {most}: "
        f"{_describe_chain(find_chain(shares))}"
    )
    rows = spool.execute(
        "SELECT item, content FROM sources ORDER BY item LIMIT ?", (count_sample(plan),)
    )
    chaining = describe_chaining(plan, [kept.unpack(*row) for row in rows], is_whole=False)
    suggestion = "raise maxGroup, or align the boundaries of sources and shared storage"
    if chaining is not None and chaining.field:
        suggestion += f", as with {chaining.field}: {chaining.chunk}"
    raise SpecError((Problem("spec.source.with.maxGroup", message, suggestion),))


def _describe_chain(chain: list[str]) -> str:
    words = [repr(word) for word in chain]
    for at in range(1, len(chain), 2):
        _, stage, name = chain[at].split("/", 2)
        words[at] = f"{name} ({stage})"
    if len(words) > 2 * _SHOWN:
        words[2 * _SHOWN - 3 : -1] = ["..."]
    return " - ".join(words)


def _rank(spool: sqlite3.Connection, joining: StorageGroups, sizes: Counter[int]) -> None:
    """Record size and name of each source's group. A group's name is its smallest shared name.

    A source that shares no storage is a group of its own, without a name.
    """
    names: dict[int, bytes] = {}
    for item, name in spool.execute("SELECT item, name FROM shares"):
        group = joining.find(item)
        names[group] = min(names.get(group, name), name)
    spool.execute("CREATE TABLE ranks (item INTEGER PRIMARY KEY, size INT, name)")
    groups = map(joining.find, range(len(joining)))
    rows = ((item, sizes[group], names.get(group)) for item, group in enumerate(groups))
    spool.execute("BEGIN")
    spool.executemany("INSERT INTO ranks VALUES (?, ?, ?)", rows)
    spool.execute("COMMIT")


def _check_names_of_groups(spool: sqlite3.Connection) -> None:
    found = spool.execute(
        "SELECT key FROM sources JOIN ranks USING (item) "
        "WHERE name IS NULL AND key IN (SELECT name FROM ranks) ORDER BY key"
    ).fetchone()
    if found:
        key = _decode(found[0])
        msg = f"the source key {key!r} is also the name of a group of sources; give it another key"
        raise DuplicateKeyError(msg)


def _create_group(key: str, members: list[Source], join: Join) -> Source:
    """Join the members of a group, given in key order, into one source."""
    tasks = [
        Task(member.data, member.meta, Lineage(digest_key(member.key), b"", member.key))
        for member in members
    ]
    try:
        joined = join(tasks)
    except Exception as error:
        msg = f"the sources of the group {key!r} can't be joined: {explain_error(error)}"
        raise PartitionError(msg) from error
    meta = {**(joined.meta or {}), "members": [member.key for member in members]}
    return Source(key, digest_members(members), joined.data, meta)


def _duplicate(spool: sqlite3.Connection, key: str, item: int) -> DuplicateKeyError:
    query = "SELECT item FROM sources WHERE key = ?"
    (first,) = spool.execute(query, (_encode(key),)).fetchone()
    return DuplicateKeyError(
        f"the source key {key!r} is listed twice: as item {first + 1} and as item {item + 1}; "
        "keys must be unique"
    )


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


class ListingError(StrandlineError):
    """Raised if the sources can't be listed. The message has the reason."""


class SourcePathError(ListingError):
    """Raised if a path to list is missing or not readable. A retry would fail in the same way."""

    exit_code = ExitCode.BAD_SPEC


def open_listing(plan: PipelinePlan, volume: Path | None = None) -> Listing:
    """Return the listing of the plan's sources; see `open_source`."""
    return open_source(plan, volume)[1]


def open_source(
    plan: PipelinePlan, volume: Path | None = None, *, is_run: bool = False
) -> tuple[SourceStage, Listing]:
    """Set up the source stage, and return it with its listing.

    Args:
        volume: the volume on which ledgers of other pipelines are found, whose outputs may be
            listed, or None.
        is_run: whether to record inodes and digests of files for the next listing.

    Raises:
        StageSetupError: if the source stage can't be set up.
    """
    stage = set_up_stage(plan.source).stage
    assert isinstance(stage, SourceStage)  # checked when the plan is built
    if volume is not None and isinstance(stage, FileSource):
        stage.published = find_published(stage, volume, f"{plan.namespace}/{plan.name}")
        folder = PipelineFolder.on_volume(volume, plan.namespace, plan.name)
        stage.identities = FileIdentities(folder.listed, is_kept=is_run)
    sources = _list_sources(plan, stage)
    if plan.partitioned_by:
        sources = group_sources(plan, sources, stage.join)
        # Any gap makes the listing incomplete, because the key of a group does not show which paths
        # its members have.
        return stage, Listing(sources, lambda: not stage.gap_paths)
    return stage, Listing(
        sources, lambda: "" not in stage.gap_paths, lambda: tuple(filter(None, stage.gap_paths))
    )


def find_removed_folders(stage: SourceStage) -> tuple[str, ...]:
    """Return the key prefixes of sources whose outputs are deleted if they are no longer listed.

    These are sources from other pipelines' outputs: if the other pipeline has removed a file, the
    file is gone for good, and outputs made from it must go too.
    """
    if not isinstance(stage, FileSource):
        return ()
    found = [folder.within for folder in stage.published if isinstance(folder, LedgerOutputs)]
    return tuple(filter(None, [*found, *([stage.packed_under] if found else [])]))


def _list_sources(plan: PipelinePlan, stage: SourceStage) -> Iterator[Source]:
    """Yield the stage's sources, and turn listing failures into errors with a message."""
    is_empty = True
    try:
        for source in stage.list_sources():
            is_empty = False
            yield source
    except OSError as error:
        kind = ListingError if may_pass(error) else SourcePathError
        msg = f"the sources can't be listed: {error}"
        failed = kind(msg)
        failed.is_lasting = isinstance(error, StoreRefusesError) or not may_pass(error)
        raise failed from error
    if isinstance(stage, FileSource):
        stage.identities.save()
    if stage.gap is not None and plan.deletes_removed:
        stage.count(f"removed sources keep their output: {stage.gap}")
    if is_empty and isinstance(stage, FileSource) and stage.may_list_nothing:
        if stage.gap is not None:  # the paths exist and may be readable next time
            msg = f"nothing can be listed now: {stage.gap}"
            raise ListingError(msg)
    elif is_empty:
        # Reject an empty listing. Otherwise, a missing mount would look as if all sources had
        # vanished, and outputs would be deleted.
        problem = Problem("spec.source", f"{plan.source.name!r} lists no sources; check its paths")
        raise SpecError((problem,))
