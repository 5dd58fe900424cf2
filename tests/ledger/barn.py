"""A ledger for tests of gathering, with shards and sources that have pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ledger_builders import listed, opened, root_of
from strandline.ledger.gather.gather import gather
from strandline.ledger.gather.merge import Merge
from strandline.ledger.gather.pieces import PieceStore
from strandline.ledger.gather.state import GatherState, find_merged, read_state
from strandline.ledger.records.entries import Change, Finish, Mark, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Piece
from strandline.plan.token import digest_key


class Concatenation:
    """A merge function that records its pieces and joins them in order, so the order is visible."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.widest = 0

    def __call__(self, paths: Sequence[Path], out: Path) -> None:
        texts = [path.read_text() for path in paths]
        self.read += [word for text in texts for word in text.split()]
        self.widest = max(self.widest, len(paths))
        out.write_text("".join(texts))


class Barn:
    """A ledger, its shards, and the merge functions of stages that gather."""

    def __init__(self, path: Path, store: Store, *stages: str) -> None:
        self.shards = path / "shards"
        self.store = store
        self.merge = Concatenation()
        self.merges: dict[str, Merge] = dict.fromkeys(stages, self.merge)
        self.attempt = 0
        self.begin()

    def begin(self) -> None:
        """Begin an attempt and its shard."""
        self.attempt += 1
        self.store.take_lease({"attempt": self.attempt, "uid": "a"})

    def put(self, *keys: str, version: str = "1", stages: Sequence[str] = ("words",)) -> None:
        """Finish sources in a new attempt. Each source has a piece of one word per stage."""
        self.begin()
        with closing(PieceStore(self.shards, self.attempt)) as piece_store:
            finish = []
            for key in keys:
                source = listed(key, version)
                word = f"{key}{'' if version == '1' else version}\n".encode()
                pieces = [Piece(stage, root_of(source), word) for stage in stages]
                record = SourceRecord(key, (), piece_store.keep(source.source, pieces))
                finish.append(Finish(source.source, source.version, record))
            piece_store.sync()
            self.store.write(Change(finish=finish))

    def mark(self, key: str) -> None:
        """Mark a source as released again, so that its gathered pieces no longer count."""
        mark = Mark(key, b"v" * 8, self.attempt, 0, is_stale=True)
        self.store.write(Change(mark=[(digest_key(key), mark)]))

    def drop(self, key: str) -> None:
        """Remove a source from the ledger."""
        self.store.write(Change(forget=[digest_key(key)]))

    def gather(
        self,
        *,
        is_whole: bool = False,
        is_brief: bool = False,
        must_stop: Callable[[], bool] = lambda: False,
    ) -> list[str]:
        """Gather, and return the words of the pieces that were read."""
        self.merge.read.clear()
        how = {"is_whole": is_whole, "is_brief": is_brief}
        gather(self.store, self.shards, self.merges, **how, must_stop=must_stop)
        return self.merge.read

    @property
    def state(self) -> GatherState:
        return read_state(self.store)

    def merged(self, stage: str = "words") -> list[str]:
        """Return the words of a stage's merged file."""
        return find_merged(self.shards, self.state, stage).read_text().split()

    def files(self) -> list[str]:
        """Return the names of the files beside the ledger."""
        return sorted(path.name for path in self.shards.iterdir())


@contextmanager
def barn_at(path: Path, *stages: str) -> Iterator[Barn]:
    """Yield an empty ledger with stages that gather."""
    with opened(path / "ledger") as store:
        yield Barn(path, store, *(stages or ("words",)))


def in_order(*keys: str) -> list[str]:
    """Sort keys in the order of the ledger."""
    return sorted(keys, key=digest_key)
