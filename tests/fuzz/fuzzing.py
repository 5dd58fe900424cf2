"""Plays rounds of the fuzzer on real volumes, and compares each with an undisturbed run.

The reference is a run of the engine `inline` over the final sources.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drawing import Chapter, Round, draw_round
from jobs import end_strays
from players import KILLED, InlinePlayer, Player
from stands import Stand
from strandline.plan.token import digest_version
from strandline_api.outcome.exit_codes import ExitCode

UNFORESEEN = ("strandline: error: unexpected", "Traceback (most recent call last)")
# Allowed exit codes of a disturbed run.
FINE = frozenset(
    {
        ExitCode.COMPLETE,
        ExitCode.APPLICATION_ERROR,
        ExitCode.SOURCES_FAILED,
        ExitCode.VOLUME_UNUSABLE,
        ExitCode.INTERRUPTED,
        KILLED,
        128 + signal.SIGKILL,
    }
)
# A driver has the default action of SIGTERM until it installs its handlers, and after its work.
STOPPED = frozenset({-signal.SIGTERM, 128 + signal.SIGTERM})


@dataclass(slots=True)
class Fuzz:
    """Plays rounds one after another.

    Args:
        folder: folder for all rounds.
        reference: player that runs the undisturbed pipelines.

    Attributes:
        rounds: number of played rounds, by player.
        fired: number of disturbances that took place, by kind.
    """

    folder: Path
    reference: InlinePlayer
    rounds: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)

    def play(self, seed: int, player: Player, store: str | None = None) -> list[str]:
        """Play the round of a seed. Return a sentence per problem.

        The folder of a round with problems is kept.

        Args:
            store: URL for outputs, or None to write outputs to the volume.
        """
        name = f"{player.name}{'-store' * bool(store)}"
        folder = self.folder / f"{name}-{seed}"
        play = Play(draw_round(seed, player.name), folder, player, self.reference, store)
        try:
            problems = list(play.find_problems())
        finally:
            end_strays(play.killed.volume)
        self.rounds[name] += 1
        self.fired.update(play.fired)
        if not problems:
            shutil.rmtree(folder)
        return problems


class Play:
    """A round in progress.

    Attributes:
        killed: the pipeline with disturbances.
        fired: the disturbances that took place.
    """

    def __init__(
        self,
        told: Round,
        folder: Path,
        player: Player,
        reference: InlinePlayer,
        store: str | None = None,
    ) -> None:
        self._round = told
        self._player = player
        self._reference = reference
        place = f"{store}/{folder.name}" if store else None
        self.killed = Stand.prepare(folder / "killed", told, place and f"{place}/killed")
        self._whole = Stand.prepare(folder / "whole", told, place and f"{place}/whole")
        self.fired: Counter[str] = Counter()
        self._seen: dict[tuple[str, int], int] = {}

    def find_problems(self) -> Iterator[str]:
        """Play all chapters, and yield problems when they are found."""
        *disturbed, last = self._round.chapters
        for chapter in disturbed:
            problems = list(self._disturb(chapter))
            yield from problems
            if problems:
                return
        self.killed.list_sources(last)
        code = self._player.run(self.killed)
        self._whole.list_sources(last)
        expected = self._reference.run(self._whole)
        if expected not in {ExitCode.COMPLETE, ExitCode.SOURCES_FAILED}:
            yield f"undisturbed, the exit code is {expected}: {self._whole.read_log()}"
        elif code != expected:
            yield f"in the end, the exit code is {code}: {self.killed.read_log()}"
        else:
            yield from self._compare()

    def _disturb(self, chapter: Chapter) -> Iterator[str]:
        disturbance, stand = chapter.disturbance, self.killed
        assert disturbance is not None  # only the last chapter has no disturbance
        stand.list_sources(chapter)
        code, fired = self._player.disturb(stand, disturbance)
        stand.disarm()
        self.fired.update([fired] if fired else [])
        is_stopped = disturbance.kind == "stop" and code in STOPPED
        if code not in FINE and not is_stopped:
            yield f"{disturbance}: exit code {code}: {stand.read_log()}"
        elif any(words in stand.read_log() for words in UNFORESEEN):
            yield f"{disturbance}: nobody foresaw that: {stand.read_log()}"
        else:
            yield from self._look(chapter)

    def _look(self, chapter: Chapter) -> Iterator[str]:
        """Record finished sources, and yield finished sources that were opened again."""
        if self._round.is_shared:
            return  # a changed source makes others with the same storage open again
        opened = self.killed.read_opened()
        places = {source: place for place, source in enumerate(opened)}
        for source, place in self._seen.items():
            if places.get(source, -1) >= place:
                yield f"{source[0]!r} was finished, and opened again"
        finished = self.killed.read_books().finished
        self._seen = {
            (key, seed): self._seen.get((key, seed), len(opened))
            for key, seed in chapter.sources.items()
            if key in finished and finished[key].version == digest_version(str(seed))
        }

    def _compare(self) -> Iterator[str]:
        """Compare the results of the disturbed runs with the undisturbed run."""
        killed, whole = self.killed, self._whole
        yield from self._look(self._round.chapters[-1])
        ours, theirs = killed.read_books(), whole.read_books()
        yield from find_differences("finished sources", ours.finished, theirs.finished)
        failed = [dict.fromkeys(books.failed) for books in (ours, theirs)]
        yield from find_differences("failed sources", *failed)
        outputs = killed.digest_outputs(ours), whole.digest_outputs(theirs)
        yield from find_differences("outputs", *outputs)
        artifacts = [stand.job.read_artifacts(stand.volume) for stand in (killed, whole)]
        yield from find_differences("artifacts", *artifacts)
        unfinished = len(theirs.failed)
        yield from killed.job.find_problems(killed.volume, killed.outputs, unfinished)
        for name in killed.list_leftovers():
            yield f"left over in the temporary folder: {name}"


def find_differences(
    what: str, ours: Mapping[str, object], theirs: Mapping[str, object]
) -> Iterator[str]:
    """Yield a sentence for each missing, additional, or changed entry."""
    missing, more = sorted(theirs.keys() - ours.keys()), sorted(ours.keys() - theirs.keys())
    other = sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    for word, found in (("missing", missing), ("too many", more), ("not the same", other)):
        if found:
            yield f"{what} {word}: {len(found)}, such as {found[0]!r}"


def make_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of processes that import the stages."""
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, **extra, "PYTHONPATH": os.pathsep.join(filter(None, path))}
