"""The counting law: decides when a source is finished, regardless of the order of its events.

Each token of a source's task tree is announced once, by the event that settles its parent (the root
by the source stage), and settled once. The tally keeps a signed count per token, +1 for announced
and -1 for settled, and drops zeros. A source is finished when its root was announced and no count
remains. Proof: an announced root without a count was settled, so the event that settled it has
arrived. This event announced the root's children, so they were settled too, and so on down the
tree. No order of arrival can make this condition true too early, which a single counter of deltas
can't guarantee.

This module uses no disk and no clock. The store handles bytes, and the writer orders durable
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from strandline.ledger.errors import NonDeterministicTaskError
from strandline.plan.receipt import Effort, Event, Failure, Left, add_efforts

_ANNOUNCED = 0
_CHILDLESS = 1
_OPEN = b""


class _FailedTree:
    """Replaces the tree of a source that failed in this attempt. Its later events are ignored."""


_FAILED = _FailedTree()

# Tree of a live source. A dictionary maps each announced token to `_ANNOUNCED` and each settled
# token to the digest of its children (positive if also announced, negative if not); `_OPEN` is the
# number of nonzero counts. Most trees are only an announced root for most of their life; they are
# stored as the token alone.
_Tree = bytes | dict[bytes, int] | _FailedTree


class Tally:
    """Counts of the live sources of one attempt.

    Args:
        is_over: returns True if the source with this digest was finished before (waiting for its
            commit, or in the ledger). The tally calls it for events of unknown sources, so that
            late duplicates do not open a finished source again.

    Attributes:
        efforts: work by source and stage, until the source is forgotten.
        restarted: sources whose counts were reset.
    """

    def __init__(self, is_over: Callable[[bytes], bool]) -> None:
        self._is_over = is_over
        self._trees: dict[bytes, _Tree] = {}
        self._outputs: dict[bytes, list[Left]] = {}
        self.efforts: dict[bytes, dict[str, Effort]] = {}
        self.restarted: set[bytes] = set()

    def announce(self, roots: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, list[Left]]]:
        """Count the first event of each source, with the token of its root; see `count`.

        The result contains only sources whose other events arrived earlier.
        """
        finished: list[tuple[bytes, list[Left]]] = []
        trees = self._trees
        for source, root in roots:
            if source in trees or self._is_over(source):
                finished += self.count([Event(source, (), (root,))])
            else:
                # For most of their life, most sources have only a root. A dictionary for each
                # source would take too much memory.
                trees[source] = root
        return finished

    def count(self, events: Iterable[Event]) -> list[tuple[bytes, list[Left]]]:
        """Count events. Return the sources that they finished, each with its outputs and pieces.

        Raises:
            NonDeterministicTaskError: if a token was settled with other children than before.
        """
        finished: dict[bytes, list[Left]] = {}
        trees = self._trees
        for event in events:
            source, settled, children, outputs, efforts = event
            tree = trees.get(source)
            # This is by far the most frequent case, so avoid a call: a task was written or
            # filtered, either the only task of its source or one of many.
            is_leaf = not children and len(settled) == 1
            if is_leaf and type(tree) is bytes and tree == settled[0]:
                if outputs or efforts:
                    self._keep(source, outputs, efforts)
                is_finished = True
            elif is_leaf and type(tree) is dict and tree.get(settled[0]) == _ANNOUNCED:
                tree[settled[0]] = _CHILDLESS
                tree[_OPEN] -= 1
                if outputs or efforts:
                    self._keep(source, outputs, efforts)
                is_finished = not tree[_OPEN]
            else:
                # `is_over` does not cover sources that this batch has finished, and a duplicate
                # would open them again.
                is_finished = source not in finished and self._count_one(event, tree)
            if is_finished:
                del trees[source]
                finished[source] = self._outputs.pop(source, [])
        return list(finished.items())

    def _count_one(self, event: Event, tree: _Tree | None) -> bool:
        """Count any event. Return True if it finishes its source."""
        source, settled, children, outputs, efforts = event
        if len(settled) == 1 and settled == children:
            # An event that replaces a root by itself signals a restart. A normal count would finish
            # the source.
            self._restart(source, settled[0])
            return False
        if tree is None:
            if self._is_over(source):
                # Ignore a late duplicate: it would open a finished source, and no event would close
                # the source again.
                return False
            if not settled and len(children) == 1:
                # For most of their life, most sources have only a root. A dictionary for each
                # source would take too much memory.
                self._trees[source] = children[0]
                return False
            tree = self._trees[source] = {_OPEN: 0}
        elif isinstance(tree, bytes):
            tree = self._trees[source] = {_OPEN: 1, tree: _ANNOUNCED}
        if isinstance(tree, _FailedTree):
            # Ignore the events of a failed source: they could finish the source without the task
            # that failed.
            return False
        # Outputs of a duplicate are already kept; keeping them again would record them twice.
        if _count_event(source, tree, settled, children) and (outputs or efforts):
            self._keep(source, outputs, efforts)
        return not tree[_OPEN]

    def _restart(self, source: bytes, root: bytes) -> None:
        # Ignore sources that are already finished, and failed sources, which wait for the next
        # attempt.
        if source in self._trees and self._trees[source] is not _FAILED:
            self._trees[source] = root
            self._outputs.pop(source, None)
            self.efforts.pop(source, None)
            self.restarted.add(source)

    def _keep(self, source: bytes, outputs: tuple[Left, ...], efforts: tuple[Effort, ...]) -> None:
        self._outputs.setdefault(source, []).extend(outputs)
        if efforts:
            add_efforts(self.efforts.setdefault(source, {}), efforts)

    def fail(self, failures: Iterable[Failure]) -> list[Failure]:
        """Close failed sources. Return the new failures."""
        fresh = []
        for failure in failures:
            if self._trees.get(failure.source) is _FAILED or self._is_over(failure.source):
                # A second record would overwrite the first failure, or a finished source.
                continue
            self._trees[failure.source] = _FAILED
            self._outputs.pop(failure.source, None)
            self.efforts.pop(failure.source, None)
            fresh.append(failure)
        return fresh

    def forget(self, source: bytes) -> None:
        """Drop a finished or failed source. From now on, `is_over` must return True for it."""
        self._trees.pop(source, None)
        self.efforts.pop(source, None)

    def list_open(self) -> Iterator[bytes]:
        """Return sources with open counts, in unspecified order, without failed sources."""
        return (source for source, tree in self._trees.items() if tree is not _FAILED)

    def find_unannounced(self) -> bytes | None:
        """Return a source with a token that was settled but never announced, if any."""
        for source, tree in self._trees.items():
            if isinstance(tree, dict) and any(
                state < 0 for token, state in tree.items() if token is not _OPEN
            ):
                return source
        return None


def _digest(children: tuple[bytes, ...]) -> int:
    # The result is at least 2, so that no digest equals `_ANNOUNCED` or `_CHILDLESS`.
    return (hash(children) & 0x3FFF_FFFF_FFFF_FFFF) + 2 if children else _CHILDLESS


def _count_event(
    source: bytes, tree: dict[bytes, int], settled: tuple[bytes, ...], children: tuple[bytes, ...]
) -> bool:
    """Count one event in a tree. Return False if it was counted before."""
    digest = _digest(children)
    # An event that settles nothing always counts as new, because its duplicates can't be
    # recognized. Repeated announcements change no count.
    is_new = not settled
    for token in settled:
        state = tree.get(token)
        if state is None:
            # The token was settled before the parent's event arrived. Count the token as open;
            # otherwise, the source could finish too early.
            tree[token] = -digest
            tree[_OPEN] += 1
            is_new = True
        elif state == _ANNOUNCED:
            tree[token] = digest
            tree[_OPEN] -= 1
            is_new = True
        elif abs(state) != digest:
            # The children of both tries have different tokens and will both report events, and no
            # count could separate them.
            msg = (
                f"source {source.hex()}: the task {token.hex()} was processed twice and produced "
                f"{len(children)} tasks that differ from the first time; a stage's output may "
                "depend only on its input"
            )
            raise NonDeterministicTaskError(msg)
    if is_new:
        for token in children:
            state = tree.get(token)
            if state is None:
                tree[token] = _ANNOUNCED
                tree[_OPEN] += 1
            elif state < 0:
                # The token was settled before it was announced. Both events have arrived now, so
                # the token is closed.
                tree[token] = -state
                tree[_OPEN] -= 1
    return is_new
