"""Plays a run on nodes that join and leave, with the flow, the losses, and the tally, without Ray.

The first stage yields tasks in parts, the second stage processes them, and the third stage ends
them. A stage's results are on the node of its worker and are lost with the node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnavailableError, NodeDiedError

from strandline.engine.call.slots import Slot, split_opened
from strandline.engine.core.loss_streaks import ChainStreak
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.core.workers import Call, Worker
from strandline.engine.preemption.nodes import LostNodes
from strandline.engine.ray.losses import Losses
from strandline.ledger.tally import Tally
from strandline.plan.receipt import EmittedTask, Event, Failure, Receipt, StageCounts
from strandline.plan.task import Origin
from test_flow import make_flow, make_slots

STAGES = 3
DEATHS = {
    # Errors that the driver may get for a worker that was lost with its node.
    "node": lambda: NodeDiedError("its node has died"),
    "silent": lambda: ActorUnavailableError("keepalive watchdog timeout", b"a" * 16),
    # When Ray stops on a node, its workers end first.
    "worker": ActorDiedError,
}


@dataclass(eq=False)
class Block:
    """The data of a call on a node. If the node is empty, the data is at the driver."""

    node: str


@dataclass
class PlayedPools:
    """Workers and their calls, with the interface of `RayPools` that losses need."""

    pools: list[Any] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)

    def __getitem__(self, stage: int) -> Any:
        return self.pools[stage]

    def __len__(self) -> int:
        return len(self.pools)

    def remove(self, worker: Worker) -> list[Call]:
        self.workers.remove(worker)
        self.pools[worker.stage].workers.remove(worker)
        calls = list(worker.calls.values())
        worker.calls.clear()
        return calls

    def list_sources(self) -> set[bytes]:
        return {source for worker in self.workers for source in worker.sources}


class NodeLossPlayer:
    """The played run.

    Attributes:
        failures: failures of sources.
        finished: finished sources.
        reached: tasks that have reached the last stage, by source.
    """

    def __init__(self, sources: int, children: int) -> None:
        self.flow = make_flow(*[1] * STAGES)
        self.marks = LostNodes("head")
        self.children = children
        self.clock = 0.0
        self.failures: list[Failure] = []
        self.finished: set[bytes] = set()
        self.reached: dict[bytes, Counter[int]] = defaultdict(Counter)
        self.dead: set[str] = set()
        self._unknown: list[str] = []
        self._names = (f"node{number}" for number in count())
        self._numbers = count()
        self.nodes: list[str] = []
        self._tally = Tally(lambda source: source in self.finished)
        self.pools = PlayedPools()
        for stage in range(STAGES):
            plan = SimpleNamespace(name=f"s{stage}")
            pool = SimpleNamespace(plan=plan, streak=ChainStreak(), workers=[], past=0.0)
            self.pools.pools.append(pool)
        ledger: Any = SimpleNamespace(forward=self._forward)
        control = Control(lambda: False, lambda _: None, lambda: self.clock)
        pools: Any = self.pools
        self.losses = Losses(self.flow, pools, ledger, control, Incidents(), self.marks)
        roots = make_slots(sources)
        self.sources = {root.source for root in roots}
        self._forward([Event(root.source, (), (root.token,)) for root in roots], ())
        self.flow.enter(roots)

    def _forward(self, events: Any, failures: Any) -> None:
        self.failures += failures
        self._tally.fail(failures)
        self.finished.update(source for source, _ in self._tally.count(events))

    def join(self) -> None:
        """Add a node with one worker per stage."""
        node = next(self._names)
        self.nodes.append(node)
        for stage in range(STAGES):
            worker = Worker(stage, "actor", node=node, is_placed=True, is_ready=True)
            self.pools.workers.append(worker)
            self.pools[stage].workers.append(worker)

    def turn(self) -> None:
        """Do one turn of the driver, but take no answers."""
        self.losses.judge()
        self.losses.replays.release(self.pools.list_sources())
        for stage in reversed(range(STAGES)):
            for worker in self.pools[stage].workers:
                if not worker.calls and worker.node not in self.marks.leaving:
                    if self.flow.suspects and self.flow.is_idle():
                        self.flow.release_suspects()
                    if batch := self.flow.next_batch(stage):
                        number = next(self._numbers)
                        call = Call(stage, worker, batch, None, number)
                        worker.calls[number] = call

    def answer(self, choice: int, size: int) -> bool:
        """Take an answer or a part of `size` tasks. Return False if no worker has a call."""
        calls = [call for worker in self.pools.workers for call in worker.calls.values()]
        if not calls:
            return False
        call = calls[choice % len(calls)]
        (slot,) = call.batch
        if slot.block is not None and slot.block.node in self.dead:
            call.worker.calls.clear()
            self.losses.lose_data(call, "lost")
            return True
        block = Block(call.worker.node)
        rest: list[Slot] = []
        receipt = self._make(call.stage, slot, size)
        if call.stage == 0 and slot.handed + size < self.children:
            over, rest = split_opened(call.batch, slot.token, slot.handed + size)
            part = Call(0, call.worker, over, block, call.number, opened=rest[0])
            call.batch = rest
        else:
            part = Call(call.stage, call.worker, call.batch, block, call.number)
            call.worker.calls.clear()
        self.pools[call.stage].streak.end(part.entry)
        batch, receipt = self.losses.take_current(part, receipt)
        self._forward(receipt.events, receipt.failures)
        self.flow.complete(call.stage, batch, receipt, block, part.opened)
        return True

    def _make(self, stage: int, slot: Slot, size: int) -> Receipt:
        counts = StageCounts(tasks_in=1)
        if stage == STAGES - 1:
            self.reached[slot.source][slot.origin.slot if slot.origin else -1] += 1
            return Receipt((Event(slot.source, (slot.token,), ()),), (), (), counts)
        if stage:
            emitted = EmittedTask(0, slot.source, slot.token, slot.origin)
            return Receipt((), (), (emitted,), counts)
        end = min(self.children, slot.handed + size)
        numbers = range(1000, 1000 + self.children)
        names = [slot.source[:8] + number.to_bytes(8, "big") for number in numbers]
        made = tuple(
            EmittedTask(place, slot.source, names[each], Origin(slot.token, each, 0))
            for place, each in enumerate(range(slot.handed, end))
        )
        whole = end == self.children
        events = (Event(slot.source, (slot.token,), tuple(names)),) if whole else ()
        return Receipt(events, (), made, counts)

    def leave(self, choice: int, size: int) -> None:
        """Announce that a node leaves, finish its calls, move its data away, and lose the node."""
        node = self.nodes[choice % len(self.nodes)]
        self.marks.leaving[node] = self.clock + 30.0
        while calls := [call for worker in self.pools.workers for call in worker.calls.values()]:
            own = [place for place, call in enumerate(calls) if call.worker.node == node]
            if not own:
                break
            self.answer(own[0], size)
            self.turn()
        for worker in [each for each in self.pools.workers if each.node == node]:
            self.pools.remove(worker)  # drained workers end after their last call
        self.lose(self.nodes.index(node), "worker", is_known=False, keeps_data=True)

    def lose(self, choice: int, word: str, *, is_known: bool, keeps_data: bool = False) -> None:
        """Lose a node. `word` selects the error that the driver gets for its workers.

        Args:
            is_known: True if the driver learns of the node's death immediately, not at the next
                `learn`.
            keeps_data: True if its data was moved away before.
        """
        if not self.nodes:
            return
        node = self.nodes.pop(choice % len(self.nodes))
        self.marks.leaving.pop(node, None)
        if not keeps_data:
            self.dead.add(node)
        if is_known:
            self.learn([node])
        for worker in [each for each in self.pools.workers if each.node == node]:
            self.losses.take_out(worker, DEATHS[word]())
        if not is_known:
            self._unknown.append(node)

    def learn(self, nodes: list[str] | None = None) -> None:
        """Report the deaths of nodes to the driver: the given nodes, or all unreported ones."""
        if nodes is None:
            nodes, self._unknown = self._unknown, []
        self.losses.forgive(self.marks.learn(nodes))

    def finish(self) -> None:
        """Continue without further losses until no work is left."""
        self.learn()
        for _ in range(20_000):
            if not self.nodes:
                self.join()
            self.clock += 1.0
            self.turn()
            is_held = self.losses.is_judging or self.losses.replays or self.flow.suspects
            if not self.answer(0, 2) and not is_held and self.flow.is_idle():
                return
        msg = "it does not come to an end"
        raise AssertionError(msg)
