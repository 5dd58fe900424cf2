"""The counting law: when is a source finished, whatever order its events arrive in.

Each token of a source's task tree is announced once, by the event that settles its parent (the
root by the source stage), and settled once. The tally keeps a signed count a token, +1 announced,
-1 settled, and forgets zeros. A source is finished when its root was announced and no count is
left: then the root was settled, so the event that settled it was seen, so its children were
announced and are settled too, and so on down. No order of arrival can make that true too early,
which a single counter of deltas can't promise.

Pure: no disk, no clock. Bytes are the store's, the order of both is the writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from strandline.ledger.errors import NonDeterministicTaskError
from strandline.plan.receipt import Effort, Event, Failure, Left, add_efforts

_ANNOUNCED = 0
_CHILDLESS = 1
_OPEN = b""


class _Failed:
    """What is kept of a source that failed in this attempt: later events of it are ignored."""


_FAILED = _Failed()

# A live source's tree: token -> _ANNOUNCED, or the digest of its children when settled (positive
# once announced too, negative before), and _OPEN -> how many counts are not zero. A tree that is
# only an announced root, as most are for most of their life, is kept as that token alone.
_Tree = bytes | dict[bytes, int] | _Failed


class Tally:
    """Counts of the live sources of one attempt.

    Args:
        is_over: says whether a source with this digest was finished before (waiting for its
            commit, or in the ledger); asked once a source, so late duplicates open nothing.

    Attributes:
        efforts: for each source that has any, by stage, until it is forgotten.
        restarted: sources of which all that was counted was taken back once.
    """

    def __init__(self, is_over: Callable[[bytes], bool]) -> None:
        self._is_over = is_over
        self._trees: dict[bytes, _Tree] = {}
        self._outputs: dict[bytes, list[Left]] = {}
        self.efforts: dict[bytes, dict[str, Effort]] = {}
        self.restarted: set[bytes] = set()

    def announce(self, roots: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, list[Left]]]:
        """Count the first events of sources, each with the token of its root; see `count`.

        It finishes those alone of which everything else was told before.
        """
        finished: list[tuple[bytes, list[Left]]] = []
        trees = self._trees
        for source, root in roots:
            if source in trees or self._is_over(source):
                finished += self.count([Event(source, (), (root,))])
            else:
                # Most sources are a lone root for long: a dictionary each would take the memory.
                trees[source] = root
        return finished

    def count(self, events: Iterable[Event]) -> list[tuple[bytes, list[Left]]]:
        """Count events; return the sources that they finished, each with what it leaves.

        Raises:
            NonDeterministicTaskError: a token became other children than before.
        """
        finished: dict[bytes, list[Left]] = {}
        trees = self._trees
        for event in events:
            source, settled, children, outputs, efforts = event
            tree = trees.get(source)
            # By far the most frequent, so without a call: a task was written or filtered, be it
            # the only one of its source or one of many.
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
                # Sources that this very batch finished are unknown to `is_over`: a duplicate would
                # open one again.
                is_finished = source not in finished and self._count_one(event, tree)
            if is_finished:
                del trees[source]
                finished[source] = self._outputs.pop(source, [])
        return list(finished.items())

    def _count_one(self, event: Event, tree: _Tree | None) -> bool:
        """Count any event; True where it finishes its source."""
        source, settled, children, outputs, efforts = event
        if len(settled) == 1 and settled == children:
            # Counted as any other, a root that becomes itself would finish its source at once.
            self._restart(source, settled[0])
            return False
        if tree is None:
            if self._is_over(source):
                # A late duplicate: counted, it would open what is finished, and nothing closes it.
                return False
            if not settled and len(children) == 1:
                # Most sources are a lone root for long: a dictionary each would take the memory.
                self._trees[source] = children[0]
                return False
            tree = self._trees[source] = {_OPEN: 0}
        elif isinstance(tree, bytes):
            tree = self._trees[source] = {_OPEN: 1, tree: _ANNOUNCED}
        if isinstance(tree, _Failed):
            # Later events of its tasks could finish a source of which one task is missing.
            return False
        # Outputs of a duplicate are kept already: kept twice, they would be recorded twice.
        if _count_event(source, tree, settled, children) and (outputs or efforts):
            self._keep(source, outputs, efforts)
        return not tree[_OPEN]

    def _restart(self, source: bytes, root: bytes) -> None:
        # A source that is over is counted no more, and a failed one waits for the next attempt.
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
        """Close failed sources; return the failures that are new."""
        fresh = []
        for failure in failures:
            if self._trees.get(failure.source) is _FAILED or self._is_over(failure.source):
                # The failure would be written over the first one, or over a source that is
                # finished.
                continue
            self._trees[failure.source] = _FAILED
            self._outputs.pop(failure.source, None)
            self.efforts.pop(failure.source, None)
            fresh.append(failure)
        return fresh

    def forget(self, source: bytes) -> None:
        """Drop a source that is finished or buried; from now on `is_over` must answer for it."""
        self._trees.pop(source, None)
        self.efforts.pop(source, None)

    def list_open(self) -> Iterator[bytes]:
        """Return sources that have counts left, in no order; failed ones are not among them."""
        return (source for source, tree in self._trees.items() if tree is not _FAILED)

    def find_unannounced(self) -> bytes | None:
        """Return a source with a token that was settled but never announced, if there is one."""
        for source, tree in self._trees.items():
            if isinstance(tree, dict) and any(
                state < 0 for token, state in tree.items() if token is not _OPEN
            ):
                return source
        return None


def _digest(children: tuple[bytes, ...]) -> int:
    return (hash(children) & 0x3FFF_FFFF_FFFF_FFFF) + 2 if children else _CHILDLESS


def _count_event(
    source: bytes, tree: dict[bytes, int], settled: tuple[bytes, ...], children: tuple[bytes, ...]
) -> bool:
    """Count one event in a tree; False where it was counted before."""
    digest = _digest(children)
    # An event that settles nothing can't be known as a duplicate; announced again, it changes no
    # count.
    is_new = not settled
    for token in settled:
        state = tree.get(token)
        if state is None:
            # The parent's event is on the way: uncounted, the source would finish without it.
            tree[token] = -digest
            tree[_OPEN] += 1
            is_new = True
        elif state == _ANNOUNCED:
            tree[token] = digest
            tree[_OPEN] -= 1
            is_new = True
        elif abs(state) != digest:
            # Children of both tries are on their way, and no count could tell them apart.
            msg = (
                f"source {source.hex()}: the task {token.hex()} was worked on twice and became "
                f"{len(children)} other tasks than the first time; stages must be functions of "
                "their input"
            )
            raise NonDeterministicTaskError(msg)
    if is_new:
        for token in children:
            state = tree.get(token)
            if state is None:
                tree[token] = _ANNOUNCED
                tree[_OPEN] += 1
            elif state < 0:
                # The token's own event came first: both are known now, and nothing of it is open.
                tree[token] = -state
                tree[_OPEN] -= 1
    return is_new
