"""A job: a manifest that runs as real processes on its own volumes, and its output files.

This module disturbs no run. Tests that disturb runs use it to find processes and problems.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import psutil
import yaml

from strandline.ledger.checks.verification import verify
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.store.store import Store
from strandline.run.insight.records import read_chain
from strandline.run.supervise.driver import spare_driver
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import NO_OUTPUTS, OWNER, TEMPORARY
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.volume.latest import find_target, resolve
from strandline.storage.volume.published import list_publication_ids
from warm_driver import WarmDrivers

DRIVER_NODE = Path(__file__).parent
PATIENCE = 500.0
TRACE_SECONDS = 10.0
TARGETS = ("parent", "driver", "worker", "ledger", "raylet")
PATTERNS = {"worker": "ray::StageWorker", "ledger": "ray::LedgerActor", "raylet": "raylet"}


class Job:
    """A manifest that tests can run, disturb, and run again.

    Args:
        manifest: defines the pipeline; its stages may be in this folder.
        engine: the default engine of runs.
        options: additional options of `strandline run`.
        warm: modules of stages; runs of the engine `inline` are forked from a process that has
            loaded these modules. If None, every run is a fresh interpreter.
    """

    def __init__(
        self,
        manifest: Path,
        engine: str = "ray",
        options: Sequence[str] = (),
        warm: Sequence[str] | None = None,
    ) -> None:
        self._manifest = manifest
        self._engine = engine
        self._options = options
        self._metadata = yaml.safe_load(manifest.read_text())["metadata"]
        # Hide pandas: users do not have pandas, and Arrow would load it for half a second per
        # process.
        self._absent = manifest.parent / "absent"
        self._absent.mkdir(exist_ok=True)
        (self._absent / "pandas.py").write_text("raise ImportError\n")
        self._warm = None if warm is None else WarmDrivers(self._make_environment(), warm)

    def find_folder(self, volume: Path) -> PipelineFolder:
        """Return the pipeline's folder on a volume."""
        namespace = self._metadata.get("namespace", "default")
        return PipelineFolder.on_volume(volume, namespace, self._metadata["name"])

    @contextmanager
    def started(
        self,
        volume: Path,
        extra: Mapping[str, str] | None = None,
        *,
        engine: str | None = None,
        options: Sequence[str] | None = None,
        is_supervised: bool = False,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a run in its own process, and kill all remaining processes at the end.

        Args:
            volume: the volume of the run.
            extra: additional environment variables.
            engine, options: values to use instead of the job's own, or None.
            is_supervised: True to run with the supervisor, as users do.
        """
        volume.mkdir(parents=True, exist_ok=True)
        environment = self._make_environment() | _list_variables(volume, extra)
        words = self._list_words(volume, engine, options)
        command = [sys.executable, "-m", "strandline", *words]
        command += [] if is_supervised else ["--no-supervise"]
        with (volume / "run.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            yield process
        finally:
            if process.poll() is None:
                _kill_tree(process.pid)
                process.wait()

    def run(
        self, volume: Path, extra: Mapping[str, str] | None = None, *, engine: str | None = None
    ) -> int:
        """Make one attempt and return its exit code."""
        if self._warm is not None and (engine or self._engine) == "inline":
            return self._run_warm(self._warm, volume, extra)
        with self.started(volume, extra, engine=engine) as process:
            try:
                return process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise AssertionError(self._explain_hanging(process.pid, volume)) from None

    def _run_warm(
        self, warm: WarmDrivers, volume: Path, extra: Mapping[str, str] | None = None
    ) -> int:
        volume.mkdir(parents=True, exist_ok=True)
        words = [*self._list_words(volume, "inline", None), "--no-supervise"]
        with warm.lent() as driver:
            driver.start(words, _list_variables(volume, extra), volume / "run.log")
            try:
                return driver.wait(PATIENCE)
            except TimeoutError:
                raise AssertionError(self._explain_hanging(driver.pid, volume)) from None

    def close(self) -> None:
        """End the process from which runs are forked."""
        if self._warm is not None:
            self._warm.close()

    def _list_words(
        self, volume: Path, engine: str | None, options: Sequence[str] | None
    ) -> list[str]:
        words = ["run", str(self._manifest), "--volume", str(volume), "--json"]
        words += ["--engine", engine or self._engine]
        return [*words, *(self._options if options is None else options)]

    def _explain_hanging(self, pid: int, volume: Path) -> str:
        """Return the processes of a hanging run. Abort them so that they print their threads."""
        whole = psutil.Process(pid)
        below = whole.children(recursive=True)
        names = [f"{child.pid} {child.status()} {_title(child)}" for child in below]
        with suppress(psutil.Error):
            whole.send_signal(signal.SIGABRT)
            whole.wait(TRACE_SECONDS)
        for child in below:
            with suppress(psutil.Error):
                child.kill()
        return "\n".join(["it does not end; its processes:", *names, self.read_log(volume)])

    def run_whole(self, volume: Path) -> dict[str, str]:
        """Run without disturbance, and return the digests of the outputs by name."""
        if self.run(volume):
            raise AssertionError(self.read_log(volume))
        return self.digest_outputs(volume)

    def verify(self, volume: Path) -> bool:
        """Return True if `strandline verify` finds no problem."""
        words = ["verify", str(self._manifest), "--volume", str(volume)]
        log = volume / "run.log"
        if self._warm is not None:
            with self._warm.lent() as driver:
                driver.start(words, {}, log)
                return driver.wait(PATIENCE) == 0
        with log.open("ab") as file:
            done = subprocess.run(
                [sys.executable, "-m", "strandline", *words],
                env=self._make_environment(),
                stdout=file,
                stderr=file,
                check=False,
                timeout=PATIENCE,
            )
        return done.returncode == 0

    def digest_outputs(self, volume: Path) -> dict[str, str]:
        """Return the digests of all output files by name."""
        root = self.find_folder(volume).output
        return {
            str(path.relative_to(root)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
            for path in root.rglob("*")
            if path.is_file() and path.name not in NO_OUTPUTS
        }

    def read_artifacts(self, volume: Path) -> dict[str, bytes]:
        """Return the published artifacts of stages by name."""
        folder = self.find_folder(volume).latest / "artifacts"
        return {path.name: path.read_bytes() for path in folder.glob("*")}

    def count_outputs(self, volume: Path) -> int:
        """Count the existing output files."""
        return len(list(self.find_folder(volume).output.glob("???/*/*")))

    def read_finished(self, volume: Path) -> set[str]:
        """Return the keys of the finished sources in the ledger."""
        ledger = self.find_folder(volume).ledger
        if not (ledger / "data.mdb").exists():
            return set()
        store = Store(ledger, readonly=True)
        try:
            return {record.key for _, _, record in store.list_records()}
        finally:
            store.close()

    def read_opened(self, volume: Path) -> list[str]:
        """Return the keys of the processed sources in order, with repetitions."""
        log = volume / "opened.log"
        return log.read_text().splitlines() if log.exists() else []

    def read_log(self, volume: Path) -> str:
        """Return the end of the output of the job's processes."""
        return (volume / "run.log").read_text(errors="replace")[-4000:]

    def find_problems(
        self, volume: Path, outputs: OutputStore | None = None, unfinished: int = 0
    ) -> list[str]:
        """Return the differences from the state that a complete run must leave, as sentences.

        Args:
            volume: the volume of the run.
            outputs: location of the outputs, or None if they are on the volume.
            unfinished: number of sources that always fail.
        """
        folder = self.find_folder(volume)
        return [
            *_find_unproven(folder, outputs or LocalOutputs(folder.output), unfinished),
            *_find_open_ends(folder),
            *_find_unpublished(folder, unfinished),
            *_find_leftovers(folder),
        ]

    def _make_environment(self) -> dict[str, str]:
        path = [str(DRIVER_NODE), str(self._absent), *filter(None, [os.environ.get("PYTHONPATH")])]
        # Keep the bytecode. Otherwise each of the many processes would compile all modules.
        unwanted = {"STRANDLINE_FAULT", "PYTHONDONTWRITEBYTECODE"}
        clean = {name: value for name, value in os.environ.items() if name not in unwanted}
        return {**clean, "PYTHONPATH": os.pathsep.join(path), "PYTHONFAULTHANDLER": "1"}


def _list_variables(volume: Path, extra: Mapping[str, str] | None) -> dict[str, str]:
    own = {
        "OPENED_LOG": str(volume / "opened.log"),
        "STRANDLINE_FAULT_LOG": str(volume / "fault.log"),
    }
    return {**own, **(extra or {})}


def _find_unproven(folder: PipelineFolder, outputs: OutputStore, unfinished: int) -> Iterator[str]:
    store = Store(folder.ledger, readonly=True)
    try:
        verdict = verify(store, outputs)
        gathered = verify_pieces(store, folder.shards)
        lease = store.read_meta("lease")
    finally:
        store.close()
    yield from verdict.problems
    yield from gathered.problems
    if verdict.unfinished != unfinished:
        yield f"{verdict.unfinished} sources are unfinished, not {unfinished}"
    if not lease["ended"]:
        yield f"the lease of attempt {lease['attempt']} has not ended"


def _find_open_ends(folder: PipelineFolder) -> Iterator[str]:
    before = None
    for record in read_chain(folder):
        if record.ended is None or record.outcome is None or record.witness is None:
            yield f"attempt {record.number} has no end"
        if record.previous != before:
            yield f"attempt {record.number} follows {record.previous}, not {before}"
        before = record.number


def _find_unpublished(folder: PipelineFolder, unfinished: int) -> Iterator[str]:
    published = resolve(folder)
    if published is None or find_target(folder, folder.latest) != published.identity:
        yield "`latest` leads to nothing complete"
        return
    facts = published.facts
    sources = facts["sources"]
    assert isinstance(sources, dict)  # in the format of `run.publishing`
    done: Any = sources["finished"] + sources["skipped"]  # type: ignore[operator]
    if not facts["isFinal"] or sources["total"] != done + unfinished:
        yield f"`latest` says that the sources are {sources}"
    if list_publication_ids(folder) != [published.identity]:
        yield f"there are other publications: {list_publication_ids(folder)}"


def _find_leftovers(folder: PipelineFolder) -> Iterator[str]:
    for path in folder.path.rglob(".*"):
        if path not in {folder.output / TEMPORARY, folder.output / OWNER}:
            yield f"left over: {path.relative_to(folder.path)}"
    for path in folder.shards.glob("*"):
        if path.suffix not in {".pack", ".merged"}:
            yield f"left over: {path.relative_to(folder.path)}"
    for path in (folder.output / TEMPORARY).glob("*"):
        yield f"left over: {path.relative_to(folder.path)}"


def find_driver(parent: int) -> psutil.Process | None:
    """Return the driver's process, a child of the started process."""
    with suppress(psutil.Error):
        for child in psutil.Process(parent).children():
            if child.name() == spare_driver.NAME or "drive" in child.cmdline():
                return child
    return None


def find_victims(parent: int, target: str) -> list[psutil.Process]:
    """Return the processes to kill: the parent, the driver, or a kind of Ray process."""
    with suppress(psutil.Error):
        if target == "parent":
            return [psutil.Process(parent)]
        driver = find_driver(parent)
        if target == "driver" or driver is None:
            return [driver] if driver else []
        return find_ray_processes(driver, target)
    return []


def find_ray_processes(driver: psutil.Process, target: str) -> list[psutil.Process]:
    """Return the processes of one kind in the Ray that this driver started."""
    pattern = PATTERNS[target]
    return [
        process
        for process in driver.children(recursive=True)
        if _title(process).startswith(pattern)
    ]


def end_strays(volume: Path) -> None:
    """Kill remaining processes of runs on this volume. The Ray of a killed driver ends slowly."""
    mark = str(volume / "opened.log")
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("OPENED_LOG") == mark:
                process.kill()


def _title(process: psutil.Process) -> str:
    try:
        return process.name() if process.name() == "raylet" else " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill_tree(pid: int) -> None:
    with suppress(psutil.Error):
        for process in [*psutil.Process(pid).children(recursive=True), psutil.Process(pid)]:
            with suppress(psutil.Error):
                process.kill()
