"""Sources that share storage, made one: what is listed of a partitioned pipeline are groups.

Ledger and engines see a group as they see any source: it is one key, one version made of its
members', one task. So resuming, replaying, verifying and quarantining it needs no law of its own.
The listing is spooled to a database in a temporary folder; memory holds the members of one group,
a few words a source, and what of a source's data is no plain value.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from strandline.engine.call.setup import set_up_stage
from strandline.engine.call.stage_call import explain_error
from strandline.engine.core.ports import Listing
from strandline.ledger.errors import DuplicateKeyError
from strandline.plan.errors import StrandlineError
from strandline.plan.partition import Joining, find_chain
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stage import EndStage, Source, SourceStage
from strandline.plan.task import Lineage, Task
from strandline.plan.token import digest_key
from strandline.run.attempt.spooled_sources import SpooledSources
from strandline.stages.sources.buckets import digest_members
from strandline.storage.outputs.temporary import spooling
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.exit_codes import ExitCode

MAX_GROUP = 1000  # of a source whose parameters say nothing
_SHOWN = 4  # sources of a chain that a message names

Join = Callable[[list[Task]], Task]


class PartitionError(StrandlineError):
    """Sources can't be made groups of; the message says why."""

    exit_code = ExitCode.BAD_SPEC


def group_sources(plan: PipelinePlan, sources: Iterable[Source], join: Join) -> Iterator[Source]:
    """The groups of a complete listing, the largest first, so that workers end together.

    Args:
        join: makes one task of a group's.

    Raises:
        SpecError: a group is larger than `maxGroup`; nothing has been listed then.
        PartitionError: an end of the pipeline can't say what a source shares, or a group's can't
            be joined.
        DuplicateKeyError: a key is listed twice, or is the name of a group.
    """
    with spooling("sources (item INTEGER PRIMARY KEY, key UNIQUE, content)") as spool:
        kept = SpooledSources()
        joining = _fill(spool, plan.partitioned_by, sources, kept)
        sizes = Counter(map(joining.find, range(len(joining))))
        _check_sizes(plan, spool, joining, sizes)
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
) -> Joining:
    spool.execute("CREATE TABLE shares (item INT, name)")
    spool.execute("BEGIN")
    joining = Joining()
    for item, source in enumerate(sources):
        shares = set(_list_shares(ends, source))
        joining.add(shares)
        row = (item, _encode(source.key), kept.pack(item, source))
        try:
            spool.execute("INSERT INTO sources VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise _duplicate(spool, source.key, item) from None
        rows = ((item, _encode(name)) for name in shares)
        spool.executemany("INSERT INTO shares VALUES (?, ?)", rows)
    spool.execute("COMMIT")
    return joining


def _list_shares(ends: dict[str, EndStage], source: Source) -> Iterator[str]:
    """What a source shares, spelled as groups are named after; two stages may use one name."""
    for stage, end in ends.items():
        try:
            names = _check_names(end.partition_indices(source))
        except Exception as error:
            why = explain_error(error)
            msg = f"stage {stage!r} can't say what source {source.key!r} shares: {why}"
            raise PartitionError(msg) from error
        yield from (f"group/{stage}/{name}" for name in names)


def _check_names(answer: object) -> list[str]:
    # A text is iterable too: its letters would join all that have one in common.
    names = None if isinstance(answer, str) or not isinstance(answer, Iterable) else list(answer)
    if names is None or not all(isinstance(name, str) for name in names):
        msg = "partition_indices must answer with a list of names"
        raise TypeError(msg)
    return names


def _check_sizes(
    plan: PipelinePlan, spool: sqlite3.Connection, joining: Joining, sizes: Counter[int]
) -> None:
    most = getattr(plan.source.stage.params, "max_group", MAX_GROUP)
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
        f"{size} sources share storage and would be worked on as one, more than {most}: "
        f"{_spell_chain(find_chain(shares))}"
    )
    suggestion = "raise maxGroup, or let the borders of what is shared meet"
    raise SpecError((Problem("spec.source.with.maxGroup", message, suggestion),))


def _spell_chain(chain: list[str]) -> str:
    words = [repr(word) for word in chain]
    for at in range(1, len(chain), 2):
        _, stage, name = chain[at].split("/", 2)
        words[at] = f"{name} ({stage})"
    if len(words) > 2 * _SHOWN:
        words[2 * _SHOWN - 3 : -1] = ["..."]
    return " - ".join(words)


def _rank(spool: sqlite3.Connection, joining: Joining, sizes: Counter[int]) -> None:
    """Name each group after the least that it shares; a source that shares nothing is its own."""
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
    """One source of a group's, which come in key order."""
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
    """The sources can't be listed; the message says why."""


def open_listing(plan: PipelinePlan) -> Listing:
    """The plan's sources as a stream of batches."""
    return open_source(plan)[1]


def open_source(plan: PipelinePlan) -> tuple[SourceStage, Listing]:
    """The source stage, set up, and what it lists.

    Raises:
        StageSetupError: it can't be set up.
    """
    stage = set_up_stage(plan.source).stage
    assert isinstance(stage, SourceStage)  # checked when the plan was built
    sources = _list_sources(plan.source.name, stage)
    if plan.partitioned_by:
        sources = group_sources(plan, sources, stage.join)
    return stage, Listing(sources, lambda: stage.gap is None)


def _list_sources(name: str, stage: SourceStage) -> Iterator[Source]:
    """The stage's sources, with what goes wrong put into a sentence."""
    is_empty = True
    try:
        for source in stage.list_sources():
            is_empty = False
            yield source
    except OSError as error:
        msg = f"the sources can't be listed: {error}"
        raise ListingError(msg) from error
    if stage.gap is not None and stage.deletes_removed:
        stage.count(f"removed sources keep their output: {stage.gap}")
    if is_empty:
        # An output may be deleted because its source vanished: never because a mount is missing.
        problem = Problem("spec.source", f"{name!r} lists no sources; check its paths")
        raise SpecError((problem,))
