"""`make fuzz`: play random pipelines with kills for SECONDS_TO_RUN seconds (60 by default).

A player and a number identify a round: SEED=inline:17 repeats one round, and SEED=17 starts from
that number. WITH=inline,store,ray,nodes selects the players. By default all play, but `store` only
if there is a server.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, cycle
from pathlib import Path

from asking_rounds import play_asking
from fuzzing import Fuzz, make_environment
from players import InlinePlayer, WorkersPlayer
from store_server import NoServerError, find_server, serve
from two_node_ray import NoRayError, TwoNodeRay

PLAYERS = ("inline", "store", "processes", "ray", "nodes", "asking", "asking-forked", "asking-ray")
# The engines of rounds that query a model, by player.
ASKING = {"asking": "inline", "asking-forked": "processes", "asking-ray": "ray"}
# A round on Ray takes as long as many other rounds.
TURNS = (*["inline"] * 9, "store", "processes", *["inline"] * 9, "store", "ray")
TURNS += (*["inline"] * 9, "processes", "nodes", "asking", "asking-forked", "asking", "asking-ray")
BUCKET = "fuzz"


class Table:
    """All players, each created on its first turn."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._reference = InlinePlayer(make_environment({}))
        stack.callback(self._reference.close)
        self.fuzz = Fuzz(folder, self._reference)
        self._store: Fuzz | None = None
        self._nodes: WorkersPlayer | None = None

    def play(self, name: str, seed: int) -> list[str]:
        """Play one round and return its problems."""
        if name == "inline":
            return self.fuzz.play(seed, self._reference)
        if name == "store":
            return self._play_store(seed)
        if name in ASKING:
            return self._ask(name, seed)
        if name in {"processes", "ray"}:
            return self.fuzz.play(seed, WorkersPlayer(make_environment({}), engine=name))
        try:
            return self.fuzz.play(seed, self._get_nodes())
        except NoRayError as error:
            print(f"this round was not played: {error}", flush=True)
            return []

    def _ask(self, name: str, seed: int) -> list[str]:
        folder = self._folder / f"{name}-{seed}"
        folder.mkdir()
        problems, fired = play_asking(seed, ASKING[name], folder)
        self.fuzz.rounds[name] += 1
        self.fuzz.fired.update(fired)
        if not problems:
            shutil.rmtree(folder)
        return problems

    def _get_nodes(self) -> WorkersPlayer:
        if self._nodes is None:
            nodes = TwoNodeRay(make_environment({}), self._folder / "ray.log")
            self._stack.callback(nodes.close)
            self._nodes = WorkersPlayer(make_environment({}), nodes)
        return self._nodes

    def _play_store(self, seed: int) -> list[str]:
        if self._store is None:
            server = self._stack.enter_context(serve(find_server(), self._folder / "s3"))
            os.environ.update(server.variables)  # this process also reads the outputs
            server.open().mkdir(BUCKET)
            player = InlinePlayer(make_environment({}))
            self._stack.callback(player.close)
            self._store = Fuzz(self._folder, player, self.fuzz.rounds, self.fuzz.fired)
        return self._store.play(seed, self._store.reference, f"s3://{BUCKET}")


def main() -> int:
    """Play rounds. Return exit code 1 if a problem was found."""
    seconds = float(os.environ.get("SECONDS_TO_RUN", "60"))
    name, _, given = os.environ.get("SEED", "").rpartition(":")
    seed = int(given) if given else random.SystemRandom().randrange(1_000_000)
    print(f"fuzz for {seconds:g} s from SEED={seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    end = time.monotonic() + seconds
    with _ended(folder) as table:
        bad = _show(name, seed, table.play(name, seed)) if name else 0
        for player, number in zip(cycle(choose_turns()), count(seed), strict=False):
            if name or time.monotonic() > end:
                break
            bad += _show(player, number, table.play(player, number))
    print(f"{_spell(table.fuzz.rounds)}: {table.fuzz.rounds.total()} rounds")
    print(f"{_spell(table.fuzz.fired)}: {table.fuzz.fired.total()} disturbances")
    print(f"{bad} rounds have left traces in {folder}" if bad else "nothing was lost or doubled")
    if not bad:
        shutil.rmtree(folder)
    return 1 if bad else 0


def choose_turns() -> tuple[str, ...]:
    """Return the players in the order of their turns."""
    wanted = os.environ.get("WITH", "").replace(",", " ").split()
    if not wanted:
        wanted = list(PLAYERS)
        try:
            find_server()
        except NoServerError as error:
            wanted.remove("store")
            print(error, flush=True)
    return tuple(turn for turn in TURNS if turn in wanted)


@contextmanager
def _ended(folder: Path) -> Iterator[Table]:
    with ExitStack() as stack:
        yield Table(folder, stack)


def _show(player: str, seed: int, problems: list[str]) -> int:
    """Print the problems. Return 1 if there are problems."""
    if problems:
        print(f"SEED={player}:{seed}", *problems, sep="\n    ", flush=True)
    return 1 if problems else 0


def _spell(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


if __name__ == "__main__":
    raise SystemExit(main())
