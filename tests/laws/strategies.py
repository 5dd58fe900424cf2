"""Draws task trees that stages could have produced, the events of the trees, and arrival orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from hypothesis import strategies as st

from strandline.plan.receipt import Event, Failure, Left, Output, Piece
from strandline.plan.token import derive_child, derive_root, digest_key, digest_version

Draw = st.DrawFn
MAX_DEPTH = 3


class Tree(NamedTuple):
    """All events of a source's work, each once, in the order of a single worker."""

    source: bytes
    events: tuple[Event, ...]

    @property
    def outputs(self) -> list[Left]:
        return sorted((output for event in self.events for output in event.outputs), key=repr)


@dataclass
class Model:
    """Reference model: a source is finished when all events of its tree were seen."""

    trees: Sequence[Tree]
    seen: set[Event] = field(default_factory=set)
    failed: set[bytes] = field(default_factory=set)

    def see(self, events: Iterable[Event]) -> set[bytes]:
        """Add events, and return the sources that these events finish."""
        before = self.finished
        self.seen.update(event for event in events if event.source not in self.failed)
        return self.finished - before

    @property
    def finished(self) -> set[bytes]:
        return {tree.source for tree in self.trees if self.seen.issuperset(tree.events)}

    @property
    def open(self) -> set[bytes]:
        return {event.source for event in self.seen} - self.finished - self.failed

    @property
    def unannounced(self) -> set[bytes]:
        """Open sources that have a settled token which was not announced."""
        live = [event for event in self.seen if event.source in self.open]
        announced = {token for event in live for token in event.children}
        return {event.source for event in live if not announced.issuperset(event.settled)}


class Growth:
    """Draws a source's tree from the root down."""

    def __init__(self, draw: Draw, number: int) -> None:
        self.draw = draw
        self.source = digest_key(f"source-{number}")
        root = derive_root(self.source, digest_version("1"))
        self.events = [Event(self.source, (), (root,))]
        self.settle(root, 0)

    def settle(self, token: bytes, depth: int) -> None:
        ways = ["write", "filter", "gather", "fan", "group"]
        ways = ways[:2] if depth == MAX_DEPTH else ways
        way = self.draw(st.sampled_from(ways))
        if way == "write":
            output = Output(token, ".parquet", self.draw(st.integers(1, 9)), b"d" * 16, 1)
            self.say((token,), (), (output,))
        elif way == "filter":
            self.say((token,), ())
        elif way == "gather":
            child = derive_child((token,), f"stage-{depth}", 0)
            data = self.draw(st.binary(max_size=2))
            self.say((token,), (child,), (Piece(f"stage-{depth}", token, data),))
            self.settle(child, depth + 1)
        elif way == "fan":
            for child in self.fan_out((token,), depth, 4):
                self.settle(child, depth + 1)
        else:
            self.group(self.fan_out((token,), depth, 5), depth)

    def fan_out(self, parents: tuple[bytes, ...], depth: int, most: int) -> list[bytes]:
        """Draw a fan-out and return its children. Filtered slots are numbered but not announced."""
        kept = self.draw(st.lists(st.booleans(), max_size=most))
        children = [
            derive_child(parents, f"stage-{depth}", slot)
            for slot, is_kept in enumerate(kept)
            if is_kept
        ]
        self.say(parents, tuple(children))
        return children

    def group(self, siblings: list[bytes], depth: int) -> None:
        size = self.draw(st.integers(2, 3))
        for start in range(0, len(siblings), size):
            members = siblings[start : start + size]
            lost = self.draw(st.integers(0, len(members) - 1))  # filtered before the join
            for token in members[:lost]:
                self.say((token,), ())
            for child in self.fan_out(tuple(members[lost:]), depth + 1, 2):
                self.settle(child, MAX_DEPTH)

    def say(
        self,
        settled: tuple[bytes, ...],
        children: tuple[bytes, ...],
        outputs: tuple[Left, ...] = (),
    ) -> None:
        self.events.append(Event(self.source, settled, children, outputs))


@st.composite
def trees(draw: Draw, number: int = 0) -> Tree:
    """Draw a source's tree."""
    growth = Growth(draw, number)
    return Tree(growth.source, tuple(growth.events))


@st.composite
def forests(draw: Draw) -> list[Tree]:
    """Draw the trees of several sources."""
    return [draw(trees(number)) for number in range(draw(st.integers(1, 3)))]


@st.composite
def arrivals(draw: Draw, events: Sequence[Event]) -> list[list[Event]]:
    """Draw an order of all events, with some duplicates, split into messages."""
    again = draw(st.lists(st.sampled_from(events), max_size=8)) if events else []
    order = draw(st.permutations([*events, *again]))
    cuts = sorted(draw(st.sets(st.integers(0, len(order)), max_size=8)) | {0, len(order)})
    return [order[start:end] for start, end in pairwise(cuts)]


def events_of(forest: Iterable[Tree]) -> list[Event]:
    """Return every event of every tree."""
    return [event for tree in forest for event in tree.events]


def failure_of(tree: Tree) -> Failure:
    """Return the failure of a task in the tree."""
    return Failure(tree.source, "key", tree.events[0].children[0], "stage-0", "no such file")
