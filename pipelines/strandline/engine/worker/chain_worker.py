"""The stages of one chain, set up in a worker's process, and the packing of their results.

The module must not depend on how calls or results are sent.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from strandline.engine.call.handover import Pack, Unreadable, pack_answers
from strandline.engine.call.payloads import Dumps
from strandline.engine.call.setup import MOST_SENTENCES, StageHooks, WorkerSite, set_up_call
from strandline.engine.call.slots import Entry
from strandline.engine.call.stage.receipts import CallPart
from strandline.engine.call.wire import Plain, pack_receipt, pack_tasks
from strandline.engine.worker.chain_call import ChainCall
from strandline.engine.worker.limits import MemoryWatch, choose_limits, read_own_memory
from strandline.engine.worker.worker_page import WorkerPage
from strandline.plan.pipeline import StagePlan
from strandline.plan.task import Task
from strandline.storage.outputs.ports import OutputLocation


class MadePart(NamedTuple):
    """A part of a result.

    Attributes:
        word: reason to replace this worker; see `MemoryWatch.look`.
    """

    part: CallPart
    word: str


class ChainWorker:
    """The stages of a chain, set up in this process. Each call has a number.

    Args:
        node: the id of this machine.
        page: the page that the process shares with the driver.
        dumps: pickles the data between stages.
        joins_below: whether a later stage, after the chain, joins groups.

    Attributes:
        call: the chain.
        number: number of the current or last call; -1 before the first call.
    """

    def __init__(
        self,
        plans: Sequence[StagePlan],
        outputs: OutputLocation,
        site: WorkerSite,
        node: str,
        page: WorkerPage,
        dumps: Dumps,
        *,
        joins_below: bool,
    ) -> None:
        now = time.perf_counter
        # Keep only the newest reports, because stages may report without limit.
        self._sentences: deque[str] = deque(maxlen=MOST_SENTENCES)
        self._is_leaving = threading.Event()
        hooks = StageHooks(self._sentences.append, self._is_leaving.is_set)
        calls = [set_up_call(plan, outputs, site, node, now, hooks) for plan in plans]
        self._page = page
        for call in calls:
            call.share_waits(lambda begun: page.note_wait(begun, now()))
        self.call = ChainCall(plans, calls, now, dumps, self._note, joins_below=joins_below)
        self._pack: Pack = partial(pack_tasks, dumps=dumps)
        self.number = -1  # no call yet
        first = plans[0]  # all stages of a chain have the same limits
        limits = choose_limits(first.max_age, first.max_memory, first.memory)
        self._watch = MemoryWatch(limits, time.monotonic, read_own_memory)

    def run(
        self,
        number: int,
        entry: Entry,
        tasks: list[Task],
        unreadable: list[Unreadable],
        handed: Mapping[bytes, int],
    ) -> Iterator[MadePart]:
        """Yield the result of a call, part by part."""
        self.number, (link, is_alone) = number, entry
        for part in self.call.stream(tasks, unreadable, handed, link, is_alone=is_alone):
            yield MadePart(part, self._watch.look())

    def pack(self, part: CallPart) -> tuple[list[Plain], Plain]:
        """Return the packed tasks of a part, and its packed receipt."""
        name_stage = partial(self.call.name_maker, part.receipt)
        _, packed, receipt = pack_answers(name_stage, part.data, part.receipt, self._pack)
        return packed, pack_receipt(receipt)

    def pack_answer(self, made: MadePart) -> tuple[list[Plain], Plain]:
        """Return the packed tasks of a part, and its extended receipt.

        Three items follow the receipt: the task with which the next part begins (token, and number
        of slots passed on) or None; the reason to replace this worker; and the reports of its
        stages.
        """
        packed, receipt = self.pack(made.part)
        opened = made.part.opened and list(made.part.opened)
        return packed, [*receipt, opened, made.word, self.take_sentences()]

    def leave(self) -> None:
        """Request that stages abandon their work, if they support that."""
        self._is_leaving.set()

    def take_sentences(self) -> list[str]:
        """Remove and return the new reports of stages. Other threads may add reports meanwhile."""
        return [self._sentences.popleft() for _ in range(len(self._sentences))]

    def _note(self, link: int) -> None:
        self._page.note(self.number, link)
