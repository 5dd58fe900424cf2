"""Plays runs that query a faulty model while a driver, worker, server, or engine is killed.

A seed determines a round. Invariants: each row is answered, dropped, or dead exactly once; no
logged answer is requested again; budgets are exceeded only by requests in flight.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import yaml

import fake_model
import faulty_server
import jobs
from fake_model import MODEL
from faulty_server import (
    ASKED,
    GIVEN,
    PIDS,
    READ_SECONDS,
    TOKENS,
    TWICE,
    VANISHED,
    LoggedPrompts,
    is_hopeless,
    read_lines,
)
from fuzzing import find_differences
from jobs import PATIENCE, Job, end_strays, find_ray_processes
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode

NAME, STAGE = "asked", "ask-model"
FILES, ROWS, CONCURRENCY, WORKERS = 3, 40, 8, 2
PROMPTS = tuple(f"{file}-{row}" for file in range(FILES) for row in range(ROWS))
KILLED = -9
OUTAGE_SECONDS = 1.0
COMMAND = (sys.executable, str(faulty_server.__file__))
# Python path for the server and for the modules of the stages.
PATH = os.pathsep.join(str(Path(str(module.__file__)).parent) for module in (fake_model, jobs))
TARGETS = {
    ("inline", False): ("driver", "driver", "server", "vanish"),
    ("inline", True): ("driver", "engine", "engine"),
    ("processes", False): ("driver", "worker", "worker", "server", "vanish"),
    ("processes", True): ("driver", "worker", "engine", "engine"),
    ("ray", False): ("driver", "worker", "worker", "ledger", "server", "vanish"),
    ("ray", True): ("driver", "worker", "engine", "engine"),
}
# Allowed exit codes of a run, by the target of the kill. The driver's own kill gives KILLED.
ENDS: dict[str, set[int]] = {
    "driver": {KILLED, ExitCode.COMPLETE},
    "vanish": {ExitCode.APPLICATION_ERROR},
    "ledger": {ExitCode.COMPLETE, ExitCode.APPLICATION_ERROR, ExitCode.INTERRUPTED},
}


@dataclass(frozen=True, slots=True)
class Strike:
    """A disturbance of a run after a number of further requests."""

    target: str
    after: int


@dataclass(frozen=True, slots=True)
class AskingRound:
    """A round, determined by a seed.

    Attributes:
        is_served: True if each worker has its own server.
        budget: budget of all runs except the last. May be empty.
    """

    seed: int
    engine: str
    is_served: bool
    on_error: str
    budget: dict[str, int]
    strikes: tuple[Strike, ...]


def draw_asking(seed: int, engine: str) -> AskingRound:
    """Draw the round of a seed."""
    rng = random.Random(f"asking {seed} {engine}")
    is_served = rng.random() < 0.4
    budget = rng.choice([{}, {"requests": rng.randint(40, 90)}, {"tokens": rng.randint(300, 800)}])
    targets = TARGETS[engine, is_served]
    strikes = [Strike(rng.choice(targets), rng.randint(1, 25)) for _ in range(rng.randint(2, 3))]
    on_error = rng.choice(["deadLetter", "drop"])
    return AskingRound(seed, engine, is_served, on_error, budget, tuple(strikes))


class AskingPlay:
    """A round in progress.

    Attributes:
        fired: the disturbances that took place.
    """

    def __init__(self, drawn: AskingRound, folder: Path) -> None:
        self._drawn, self._folder, self.volume = drawn, folder, folder / "volume"
        self._manifest = folder / f"{NAME}.yaml"
        for file in range(FILES):
            texts = [prompt for prompt in PROMPTS if prompt.startswith(f"{file}-")]
            lines = [json.dumps({"text": text}) + "\n" for text in texts]
            (folder / f"{file}.jsonl").write_text("".join(lines))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        folder_of_run = PipelineFolder.on_volume(self.volume, "default", NAME).path
        self._logs = folder_of_run / "requests" / STAGE
        self._words = [str(folder), str(drawn.seed), str(self._logs)]
        self._describe({})
        self._job = Job(self._manifest, drawn.engine)
        self._server: subprocess.Popen[bytes] | None = None
        self.fired: Counter[str] = Counter()
        self._kills, self._is_bounded = 0, True

    def find_problems(self) -> Iterator[str]:
        """Play the round, and yield problems when they are found."""
        try:
            self._serve()
            for strike in self._drawn.strikes:
                self._describe(self._drawn.budget)
                code = self._run(strike)
                fine = {ExitCode.BUDGET_SPENT, *ENDS.get(strike.target, {ExitCode.COMPLETE})}
                if code not in fine and not (code == 0 and not self.fired[strike.target]):
                    yield f"{strike}: exit code {code}: {self._job.read_log(self.volume)}"
                yield from self._find_breaches()
            self._describe({})
            self._is_bounded = False
            if code := self._job.run(self.volume, {"PYTHONPATH": PATH}):
                yield f"in the end, exit code {code}: {self._job.read_log(self.volume)}"
            yield from self._find_breaches()
            yield from self._find_differences()
            yield from self._job.find_problems(self.volume)
        finally:
            end_strays(self.volume)
            if self._server is not None:
                self._server.kill()
                self._server.wait()

    def _describe(self, budget: dict[str, int]) -> None:
        """Write the manifest."""
        drawn = self._drawn
        ask: dict[str, Any] = {"model": MODEL, "prompt": "{{ text }}", "concurrency": CONCURRENCY}
        schema = {
            "type": "object",
            "properties": {"echo": {"type": "string"}},
            "required": ["echo"],
        }
        ask |= {"output": {"schema": schema, "repairs": 1}, "tries": 20}
        ask |= {"timeouts": {"read": READ_SECONDS, "total": 2 * READ_SECONDS}}
        if budget:
            ask["budget"] = budget
        if drawn.is_served:
            command = [*COMMAND, "{port}", *self._words]
            ask["serve"] = {"engine": "command", "model": "weights", "command": command}
        else:
            ask["url"] = f"http://127.0.0.1:{self._port}/v1"
        small = {"resources": {"cpu": 0.1}}
        spec = {
            "source": {"use": "files", "with": {"paths": [f"{self._folder}/*.jsonl"]}},
            "stages": [
                {"use": "read-jsonl", **small},
                {
                    "use": STAGE,
                    "with": ask,
                    "onError": drawn.on_error,
                    "workers": {"min": WORKERS, "max": WORKERS},
                    **small,
                },
            ],
            "sink": {"use": "parquet", **small},
            "checkpoint": {"interval": "1s", "keepLast": 1},
            "quarantine": {"after": 10_000},
        }
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": NAME},
            "spec": spec,
        }
        self._manifest.write_text(yaml.safe_dump(document))

    def _serve(self) -> None:
        if not self._drawn.is_served:
            words = [*COMMAND, str(self._port), *self._words]
            self._server = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": PATH})

    def _run(self, strike: Strike) -> int:
        """Run with a disturbance and return the exit code."""
        wanted = self._count_asked() + strike.after
        options = ["--workers", "2"] if self._drawn.engine != "inline" else []
        extra = {"PYTHONPATH": PATH}
        with self._job.started(self.volume, extra, options=options) as process:
            while process.poll() is None and self._count_asked() < wanted:
                time.sleep(0.005)
            if process.poll() is None:
                self._strike(process, strike.target)
            code = process.wait(PATIENCE)
        (self._folder / VANISHED).unlink(missing_ok=True)
        if code == KILLED:
            end_strays(self.volume)  # remaining workers would finish their calls
        return code

    def _strike(self, process: subprocess.Popen[bytes], target: str) -> None:
        if target == "vanish":
            (self._folder / VANISHED).touch()
        elif target == "server" and self._server is not None:
            self._server.kill()
            self._server.wait()
            time.sleep(OUTAGE_SECONDS)
            self._serve()
        else:
            victims = self._find_victims(process, target)
            if not victims:
                return
            with suppress(psutil.Error):
                victims[0].kill()
            self._kills += target in {"driver", "worker"}
        self.fired[target] += 1

    def _find_victims(self, process: subprocess.Popen[bytes], target: str) -> list[psutil.Process]:
        driver = psutil.Process(process.pid)
        if target == "driver":
            return [driver]
        if target == "engine":
            pids = sorted(int(path.name) for path in (self._folder / PIDS).iterdir())
            return [psutil.Process(pid) for pid in reversed(pids) if psutil.pid_exists(pid)]
        if self._drawn.engine == "processes":
            return [each for child in driver.children() for each in child.children()]
        return find_ray_processes(driver, target)

    def _count_asked(self) -> int:
        return len(read_lines(self._folder / ASKED))

    def _find_breaches(self) -> Iterator[str]:
        """Yield problems about requests that should not have been sent."""
        for prompt in read_lines(self._folder / TWICE):
            yield f"{prompt!r} was asked for, and the log had it"
        budget, asked = self._drawn.budget, self._count_asked()
        if self._is_bounded and asked > budget.get("requests", asked):
            yield f"{asked} requests of {budget}"
        # Each kill may lose the cost of all requests in flight.
        at_once = CONCURRENCY * WORKERS * TOKENS * (1 + self._kills)
        spent = TOKENS * len(read_lines(self._folder / GIVEN))
        if self._is_bounded and spent > budget.get("tokens", spent) + at_once:
            yield f"{spent} tokens of {budget}"

    def _find_differences(self) -> Iterator[str]:
        """Yield differences between the actual and the expected results."""
        drawn = self._drawn
        hopeless = {prompt for prompt in PROMPTS if is_hopeless(drawn.seed, prompt)}
        dead = hopeless if drawn.on_error == "deadLetter" else set[str]()
        folder = self._job.find_folder(self.volume).output
        rows = [
            row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()
        ]
        answered = Counter(row["text"] for row in rows if "dead_stage" not in row)
        yield from find_differences("answers", answered, Counter(set(PROMPTS) - hopeless))
        found = Counter(row["text"] for row in rows if "dead_stage" in row)
        yield from find_differences("dead letters", found, Counter(dead))
        logged = LoggedPrompts(self._logs).read()
        yield from find_differences("logged answers", Counter(logged), answered)
        for row in rows:
            if "dead_stage" not in row and row["answer_echo"] != row["text"]:
                yield f"{row['text']!r} has the answer {row['answer_echo']!r}"


def play_asking(seed: int, engine: str, folder: Path) -> tuple[list[str], Counter[str]]:
    """Play the round of a seed. Return its problems and the disturbances that took place."""
    play = AskingPlay(draw_asking(seed, engine), folder)
    return list(play.find_problems()), play.fired
