"""Compares the planner with the optimum of a linear program, in several simulated plays.

python tests/engine/scaling_simulator.py prints the table of docs/design, how many workers.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from scipy.optimize import linprog

from scaling_player import Moment, Part, Play, Player
from strandline.engine.autoscaler.model import NodeResources

PAGE = Path(__file__).parents[2] / "docs/design/2026-11-27-how-many-workers.md"
BEGIN, END = "<!-- simulator: begin -->", "<!-- simulator: end -->"
CPU = NodeResources(cpu=1)


def spread(count: int, resources: NodeResources, prefix: str = "n") -> dict[str, NodeResources]:
    """Return `count` equal nodes."""
    return {f"{prefix}{number:04d}": resources for number in range(count)}


def chain(*costs: float, **options: float) -> tuple[Part, ...]:
    """Return parts of one CPU each with these costs in seconds per task."""
    return tuple(Part(f"s{number}", cost, **options) for number, cost in enumerate(costs))  # type: ignore[arg-type]


RATIO = chain(0.1, 1.0, 0.2)
TWELVE = chain(0.2, 0.5, 1, 0.3, 2, 0.4, 0.8, 0.2, 1.5, 0.6, 0.3, 0.2)
FAN = (Part("list", 1.0, fan=50), Part("clip", 0.2), Part("write", 0.1))
WITH_GPU = (
    Part("decode", 2.0),
    Part("caption", 0.5, NodeResources(cpu=1, gpu=1)),
    Part("write", 0.5),
)
MIXED = {
    **spread(2, NodeResources(cpu=8, gpu=4), "gpu"),
    **spread(2, NodeResources(cpu=16), "cpu"),
}
PLAYS = (
    Play("1 : 10 : 2", RATIO, spread(1, NodeResources(cpu=8))),
    Play("1 : 10 : 2", RATIO, spread(4, NodeResources(cpu=32))),
    Play(
        "1 : 10 : 2, rates ±10 %",
        tuple(replace(part, noise=0.1) for part in RATIO),
        spread(4, NodeResources(cpu=32)),
    ),
    Play("GPU between CPUs", WITH_GPU, MIXED),
    Play(
        "1 % of tasks 100 × longer",
        (Part("a", 0.1), Part("b", 0.1, skew=0.01, long=100), Part("c", 0.2)),
        spread(4, NodeResources(cpu=32)),
        seconds=120,
    ),
    Play(
        "gets 5 × slower at 30 s",
        (Part("a", 0.2), Part("b", 0.2, later=1.0, changes_at=30), Part("c", 0.4)),
        spread(4, NodeResources(cpu=32)),
        seconds=120,
    ),
    Play(
        "a node of four is lost at 30 s",
        RATIO,
        spread(4, NodeResources(cpu=32)),
        seconds=90,
        lost={30.0: "n0001"},
    ),
    Play(
        "three nodes, one joins at 30 s",
        RATIO,
        spread(3, NodeResources(cpu=32)),
        seconds=90,
        joined={30.0: ("n0003", NodeResources(cpu=32))},
    ),
    Play("fan-out 1 : 50", FAN, spread(4, NodeResources(cpu=32)), seconds=90),
    Play("twelve stages", TWELVE, spread(8, NodeResources(cpu=32)), seconds=90),
    Play("twelve stages", TWELVE, spread(100, NodeResources(cpu=32)), seconds=60),
    Play("1 : 10 : 2", RATIO, spread(1000, NodeResources(cpu=32)), seconds=45),
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a play.

    Attributes:
        optimum: sources per second of the linear program, on the final nodes.
        least: workers of the smallest pool in that solution.
        whole: sources per second with whole workers.
        reached: sources per second in the last third of the play.
            seconds: seconds from the last change of the cluster or of a cost until the workers
                could do
            90 % of `whole`, or None if they never could.
        moments: all moments of the simulation.
    """

    play: Play
    nodes: int
    optimum: float
    least: float
    whole: float
    reached: float
    seconds: float | None
    moments: Sequence[Moment]

    @property
    def started(self) -> int:
        """Return the total number of started workers."""
        return sum(stage.starts for moment in self.moments for stage in moment.plan.stages)

    @property
    def drained(self) -> int:
        """Return the total number of drained workers."""
        return sum(stage.drains for moment in self.moments for stage in moment.plan.stages)

    @property
    def ratio(self) -> float:
        """Return the share of the optimum that was reached."""
        return self.reached / self.optimum


def find_optimum(
    parts: Sequence[Part], demand: Sequence[float], nodes: Sequence[NodeResources], now: float
) -> tuple[float, list[float]]:
    """Return the maximum sources per second and its fractional workers, ignoring node limits.

    The variables are x_i and t. The program maximizes t with t·demand·cost ≤ x_i, within the
    resources and the bounds of workers.
    """
    kinds = sorted({kind for part in parts for kind in part.needs.count_units()})
    count = len(parts)
    rows, limits = [], []
    for number, (part, one) in enumerate(zip(parts, demand, strict=True)):
        row = [0.0] * (count + 1)
        row[number], row[count] = -1.0, one * part.find_mean(now)
        rows.append(row)
        limits.append(0.0)
    for kind in kinds:
        rows.append([float(part.needs.count_units().get(kind, 0)) for part in parts] + [0.0])
        limits.append(float(sum(node.count_units().get(kind, 0) for node in nodes)))
    bounds = [(part.floor, part.ceiling) for part in parts]
    answer = linprog(
        [0.0] * count + [-1.0], A_ub=rows, b_ub=limits, bounds=[*bounds, (0, None)], method="highs"
    )
    assert answer.success, answer.message
    return float(-answer.fun), [float(one) for one in answer.x[:count]]


def find_whole_optimum(
    parts: Sequence[Part], demand: Sequence[float], nodes: Sequence[NodeResources], now: float
) -> float:
    """Return the maximum sources per second with whole workers, ignoring node limits."""
    units = [part.needs.count_units() for part in parts]
    have: Counter[str] = Counter()
    for node in nodes:
        have.update(node.count_units())

    def fits(level: float) -> bool:
        used: Counter[str] = Counter()
        for part, unit, share in zip(parts, units, demand, strict=True):
            workers = max(part.floor, math.ceil(level * share * part.find_mean(now) - 1e-9))
            if part.ceiling is not None and workers > part.ceiling:
                return False
            used.update({kind: need * workers for kind, need in unit.items()})
        return all(used[kind] <= have[kind] for kind in used)

    low, high = 0.0, find_optimum(parts, demand, nodes, now)[0]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return high


def find_best_whole(
    parts: Sequence[Part], demand: Sequence[float], node: NodeResources
) -> tuple[float, tuple[int, ...]]:
    """Return the best of all allocations on one node, by exhaustive search."""
    units = [part.needs.count_units() for part in parts]
    have = node.count_units()
    ranges = []
    for part, unit in zip(parts, units, strict=True):
        most = min(have.get(kind, 0) // need for kind, need in unit.items())
        ranges.append(range(part.floor, min(most, part.ceiling or most) + 1))
    return max(
        (
            min(
                count / part.cost / share
                for count, part, share in zip(counts, parts, demand, strict=True)
            ),
            counts,
        )
        for counts in product(*ranges)
        if all(
            sum(count * unit.get(kind, 0) for count, unit in zip(counts, units, strict=True))
            <= amount
            for kind, amount in have.items()
        )
    )


def judge(play: Play) -> Result:
    """Simulate a play, and compare the result with the optimum."""
    player = Player(play)
    moments = player.run()
    case = (play.parts, play.find_demand(), list(player.nodes.values()), play.seconds)
    optimum, workers = find_optimum(*case)
    whole = find_whole_optimum(*case)
    begun = max([0.0, *play.lost, *play.joined, *_list_changes(play)])
    return Result(
        play,
        len(player.nodes),
        optimum,
        min(workers),
        whole,
        find_throughput(moments, play.seconds * 2 / 3),
        next((moment.now - begun for moment in moments if _is_near(moment, whole, begun)), None),
        moments,
    )


def find_throughput(moments: Sequence[Moment], begun: float) -> float:
    """Return the sources per second from a time to the end."""
    first = next(moment for moment in moments if moment.now >= begun)
    return (moments[-1].done - first.done) / (moments[-1].now - first.now)


def _list_changes(play: Play) -> Iterator[float]:
    return (part.changes_at for part in play.parts if part.later is not None)


def _is_near(moment: Moment, optimum: float, begun: float) -> bool:
    return moment.now >= begun and moment.pace >= 0.9 * optimum


def print_table(results: Iterable[Result]) -> str:
    """Return the table for the design note."""
    lines = [
        "| play | nodes | optimum, sources/s | whole workers | reached | ratio "
        "| seconds to 90 % | started | drained |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for result in results:
        seconds = "–" if result.seconds is None else f"{result.seconds:.0f}"
        lines.append(
            f"| {result.play.name} | {result.nodes} | {result.optimum:.2f} | {result.whole:.2f} "
            f"| {result.reached:.2f} | {result.ratio:.2f} | {seconds} "
            f"| {result.started} | {result.drained} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table. With `--write`, also store the table in the page."""
    table = print_table(map(judge, PLAYS))
    print(table)
    if "--write" in sys.argv[1:]:
        text = PAGE.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
