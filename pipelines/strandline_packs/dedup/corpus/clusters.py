"""Finds clusters of duplicates in a corpus, from the links of several partitions.

This module takes links in portions, returns keys, and does no I/O. The links are read several
times. Memory: about 50 bytes for each key with a duplicate, plus the first key of each cluster. The
result depends neither on the order of the links nor on the partitions. If the rows that a run
retained are the input of the next run, the result stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strandline.data.tables.columns import find_column
from strandline_packs.dedup.corpus.components import Components, Nodes
from strandline_packs.dedup.corpus.row_buckets import BUCKETS, DIGEST, Digests, read_digests
from strandline_packs.dedup.key_lists import KEY, STAYS
from strandline_packs.dedup.near.near_duplicates import AmbiguousKeyError

LINKS = pa.schema([("key", pa.string()), ("id", DIGEST), ("first", DIGEST)])
DROPPED = pa.schema([(KEY, pa.string()), (STAYS, pa.string())])

ReadLinks = Callable[[], Iterable[pa.Table]]


def link_rows(table: pa.Table) -> pa.Table:
    """Return a row for each key that shares a bucket: `key`, `id`, and the group's `first` id.

    Keys that are connected through other keys of the table belong to the same group. Keys without a
    partner are left out.

    Args:
        table: `key`, `id`, `bucket`, and `source` of all rows in the partition's buckets.

    Raises:
        MissingColumnError: a column is missing.
        TypeError: a column has no digests.
        AmbiguousKeyError: two rows have the same key.
    """
    all_keys, _, _, sources = (find_column(table, name) for name in BUCKETS.names)
    buckets, ids = read_digests(table, "bucket"), read_digests(table, "id")
    # Sort by bucket, then id, so that rows of a bucket and repeated keys become neighbors.
    order = np.lexsort((ids, buckets))
    buckets, ids = buckets[order], ids[order]
    is_next = buckets[1:] == buckets[:-1]
    _check_keys(all_keys, sources, order, is_next & (ids[1:] == ids[:-1]))
    nodes, positions, numbers = np.unique(ids, return_index=True, return_inverse=True)
    numbers = numbers.astype(np.int32)
    components = Components(len(nodes))
    # Joining neighbors connects the whole bucket.
    components.join(numbers[:-1][is_next], numbers[1:][is_next])
    firsts = components.find(np.arange(len(nodes), dtype=np.int32))
    linked = np.flatnonzero(np.bincount(firsts, minlength=len(nodes))[firsts] > 1)
    keys = all_keys.take(pa.array(order[positions[linked]]))
    arrays = [keys, _to_array(nodes[linked]), _to_array(nodes[firsts[linked]])]
    return pa.Table.from_arrays(arrays, schema=LINKS)


def list_dropped(
    read_links: ReadLinks,
    kept: Iterable[Digests] = (),
    note_former: Callable[[int], None] | None = None,
) -> Iterator[pa.Table]:
    """Yield each key to drop once, with the retained key of its cluster.

    By default, all rows that earlier runs retained stay. In a cluster without them, the first key
    stays. The dropped keys refer to the first key that stays.

    Args:
        read_links: starts reading the links of all partitions; called four times.
        kept: ids of rows that earlier runs retained, in portions.
        note_former: if set, earlier runs do not count: only the first key of a cluster stays.
            Called with the number of dropped rows that earlier runs had retained.
    """
    # Read the links again in each step: the keys of all links would not fit in memory.
    nodes = _list_nodes(read_links())
    components = Components(len(nodes))
    for links in read_links():
        components.join(*(_number(nodes, links, name) for name in ("id", "first")))
    is_former = _find_nodes(nodes, kept)
    was_kept = is_former if note_former is None else np.zeros_like(is_former)
    has_kept = np.zeros(len(nodes), dtype=bool)
    has_kept[components.find(np.flatnonzero(was_kept).astype(np.int32))] = True
    first: dict[int, str] = {}
    for numbers, roots, keys in _list_once(nodes, components, read_links()):
        # Rows that earlier runs retained take precedence over new rows of a cluster.
        may_stay = was_kept[numbers] | ~has_kept[roots]
        standing = keys.filter(pa.array(may_stay)).to_pylist()
        for root, key in zip(roots[may_stay].tolist(), standing, strict=True):
            first[root] = min(first.get(root, key), key)
    for numbers, roots, keys in _list_once(nodes, components, read_links()):
        stays = pa.array([first[root] for root in roots.tolist()], pa.string())
        found = pa.Table.from_arrays([keys, stays], schema=DROPPED)
        is_first = pc.equal(found[KEY], found[STAYS])
        goes = pc.invert(pc.or_(is_first, pa.array(was_kept[numbers])))
        if note_former is not None:
            note_former(pc.sum(pc.and_(goes, pa.array(is_former[numbers]))).as_py() or 0)
        yield found.filter(goes)


def _check_keys(
    keys: pa.ChunkedArray,
    sources: pa.ChunkedArray,
    order: npt.NDArray[np.intp],
    is_again: npt.NDArray[np.bool_],
) -> None:
    again = np.flatnonzero(is_again)
    if not len(again):
        return
    positions = order[[again[0], again[0] + 1]].tolist()
    key = keys[positions[0]].as_py()
    names = sorted({sources[at].as_py() for at in positions} - {None, ""})
    where = f", in {' and '.join(names)}" if names else ""
    msg = (
        f"two rows have the key {key!r}{where}; keys must be unique in the corpus because dropped "
        "rows are listed by key"
    )
    raise AmbiguousKeyError(msg)


def _to_array(digests: Digests) -> pa.FixedSizeBinaryArray:
    raw = pa.py_buffer(np.ascontiguousarray(digests))
    return pa.FixedSizeBinaryArray.from_buffers(DIGEST, len(digests), [None, raw])


def _list_nodes(tables: Iterable[pa.Table]) -> Digests:
    """Return the distinct ids of all links, sorted."""
    known = np.empty(0, f"S{DIGEST.byte_width}")
    waiting: list[Digests] = []
    for links in tables:
        waiting.append(np.unique(read_digests(links, "id")))
        # Merge only if more ids are waiting than known, so that each id is copied few times.
        if sum(map(len, waiting)) > len(known):
            known = np.unique(np.concatenate([known, *waiting]))
            waiting = []
    return np.unique(np.concatenate([known, *waiting]))


def _number(nodes: Digests, links: pa.Table, name: str) -> Nodes:
    return np.searchsorted(nodes, read_digests(links, name)).astype(np.int32)


def _find_nodes(nodes: Digests, wanted: Iterable[Digests]) -> npt.NDArray[np.bool_]:
    """Return whether each node is among the wanted ids. Most wanted ids are not nodes."""
    is_found = np.zeros(len(nodes), dtype=bool)
    for ids in wanted:
        numbers = np.searchsorted(nodes, ids)
        is_within = numbers < len(nodes)  # ids after the last node get the array length
        numbers = numbers[is_within]
        is_found[numbers[nodes[numbers] == ids[is_within]]] = True
    return is_found


def _list_once(
    nodes: Digests, components: Components, tables: Iterable[pa.Table]
) -> Iterator[tuple[Nodes, Nodes, pa.ChunkedArray]]:
    """Yield nodes, their clusters, and keys, in portions. Each node occurs once."""
    seen = np.zeros(len(nodes), dtype=bool)
    for links in tables:
        numbers, positions = np.unique(_number(nodes, links, "id"), return_index=True)
        fresh = ~seen[numbers]
        seen[numbers] = True
        keys = find_column(links, "key").take(pa.array(np.sort(positions[fresh])))
        in_order = numbers[fresh][np.argsort(positions[fresh])]
        yield in_order, components.find(in_order), keys
