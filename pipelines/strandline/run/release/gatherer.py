"""Gathers statistics of stages, during a run or by a command, and writes artifacts for people.

An error in a stage's merge code must not end a run before its sources finish, so the error is
raised after all other work.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from strandline.ledger.access.commands import hold_by_command, make_claimant, written_alone
from strandline.ledger.access.heartbeat import Heartbeat
from strandline.ledger.access.lease import OnChange, refuse_changes
from strandline.ledger.access.output_location import make_claim
from strandline.ledger.access.session import LedgerSession, require_ledger
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.gather import gather
from strandline.ledger.gather.merge import FAULTS_OF_DISKS, MergeError
from strandline.ledger.gather.space import explain_shortage
from strandline.ledger.gather.state import GatherState, find_merged, is_merged_there, read_state
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.stages.stage import StatefulFilter
from strandline.storage import faults
from strandline.storage.errors import naming_volume
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.hashing import digest_file
from strandline.storage.outputs.remote import put_files
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import Publication, check_file_name, find_newest

ARTIFACTS = "artifacts"
Artifacts = Mapping[str, Path]


@dataclass(slots=True)
class Gatherer:
    """Merges the statistics of a pipeline's stages, and writes artifacts from them.

    Attributes:
        folder: folder of the pipeline.
        stages: the stages that gather statistics, by name.
        session: session of the ledger. If this process already has the ledger open, gathering runs
            in the calling thread.
        heartbeat: receives progress.
        note: receives a sentence if statistics could not be merged during a run.
        failure: error of a stage in the last merge, or None.
    """

    folder: PipelineFolder
    stages: Mapping[str, StatefulFilter]
    session: LedgerSession
    heartbeat: Heartbeat
    note: Callable[[str], None] = lambda _: None
    failure: MergeError | None = None
    _thread: threading.Thread | None = None
    _error: BaseException | None = None
    _is_leaving: bool = False
    _has_warned: bool = False

    def is_ready(self) -> bool:
        """Gather new statistics, in a thread if possible. Return True once the gathering has ended.

        Raises:
            LedgerError, VolumeError: if the ledger or the volume fails, which ends the attempt.
        """
        if not self.stages:
            return True
        if self._thread is None and self.session.is_open:
            self._gather_too()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._gather_too, name="gather", daemon=True)
            self._thread.start()
            return False
        elif self._thread.is_alive():
            return False
        self._thread = None
        self._raise()
        return True

    def close(self) -> None:
        """Stop gathering, and wait for the thread."""
        # The thread sees the flag and stops merging early.
        self._is_leaving = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._is_leaving = False

    def check(self) -> None:
        """Raise the error of a stage in the last merge, if any."""
        if self.failure is not None:
            raise self.failure

    def gather(self, *, is_whole: bool, is_brief: bool = False) -> None:
        """Gather now. Store an error of a stage in `failure`.

        Args:
            is_whole, is_brief: see `ledger.gather.gather`.

        Raises:
            LedgerError, VolumeError: see `ledger.gather.gather`.
        """
        if not self.stages:
            return
        merges = {name: type(stage).merge for name, stage in self.stages.items()}
        self.failure = None
        try:
            # Count CPU time and I/O as progress, because a stage can't report progress within its
            # merge.
            with self.session.open() as store, self.heartbeat.trusting():
                gather(
                    store,
                    self.folder.shards,
                    merges,
                    is_whole=is_whole,
                    is_brief=is_brief,
                    must_stop=self._look_up,
                )
        except MergeError as error:
            self._fail(error)

    @contextmanager
    def artifacts(self) -> Iterator[Artifacts]:
        """Provide artifacts of the last merge by published name, as temporary files.

        Store an error of a stage in `failure`.
        """
        if not self.stages:
            yield {}
            return
        with self.session.open() as store:
            state = read_state(store)
        scratch = self.folder.shards / ARTIFACTS
        try:
            with naming_volume(self.folder.shards), self.heartbeat.trusting():
                # Remove files that a killed process has left.
                shutil.rmtree(scratch, ignore_errors=True)
                found = [
                    each
                    for stage in self.stages
                    if stage in state.merged and is_merged_there(self.folder.shards, state, stage)
                    for each in self._write_one(stage, state, scratch / stage)
                ]
                faults.reach("artifacts.written")
            yield dict(found)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def put_beside(self, location: str) -> None:
        """Copy the artifacts into a folder next to the output location."""
        with self.artifacts() as artifacts:
            files = {name.removeprefix(f"{ARTIFACTS}/"): path for name, path in artifacts.items()}
            put_files(f"{location.rstrip('/')}-{ARTIFACTS}", files)

    def _write_one(self, stage: str, state: GatherState, folder: Path) -> list[tuple[str, Path]]:
        folder.mkdir(parents=True)
        try:
            self.stages[stage].artifacts(find_merged(self.folder.shards, state, stage), folder)
            return _list_files(stage, folder)
        except Exception as error:
            # A full or broken disk is not the stage's fault, and ends the attempt.
            if isinstance(error, OSError) and error.errno in FAULTS_OF_DISKS:
                raise
            what = " ".join(f"{type(error).__name__}: {error}".split())
            self._fail(MergeError(f"stage {stage!r} can't write its artifacts: {what}"))
            return []

    def _look_up(self) -> bool:
        self.heartbeat.note_progress()
        return self._is_leaving

    def _fail(self, error: MergeError) -> None:
        self.failure = error
        if not self._is_leaving:
            self.note(str(error))

    def _gather_too(self) -> None:
        try:
            self._warn()
            self.gather(is_whole=False)
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits for it
            self._error = error

    def _warn(self) -> None:
        """Report once, as early as possible, that the volume lacks the space for a merge."""
        if self._has_warned:
            return
        with naming_volume(self.folder.shards):
            shortage = explain_shortage(self.folder.shards)
        if shortage is not None:
            self._has_warned = True
            self.note(shortage)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


def list_artifacts(published: Publication, stage: str) -> list[Path]:
    """Return the files of a stage in a publication, by name."""
    mine = f"{ARTIFACTS}/{stage}."
    return [published.path / name for name in sorted(published.files) if name.startswith(mine)]


def _list_files(stage: str, folder: Path) -> list[tuple[str, Path]]:
    """Return the files that a stage has written into its folder, by published name.

    Raises:
        ValueError: if the files can't be published.
    """
    found = [(_name(stage, path.name), path) for path in sorted(folder.iterdir())]
    for _, path in found:
        if not path.is_file():
            raise ValueError(f"{path.name} is a folder; only files are published")
    if len(dict(found)) < len(found):
        raise ValueError("two of its files would be published under the same name")
    return found


def _name(stage: str, file: str) -> str:
    """Return the published name of a stage's file, which starts with the stage's name."""
    own = file if file.startswith(f"{stage}.") else f"{stage}.{file}"
    return check_file_name(f"{ARTIFACTS}/{own}")


class Done(NamedTuple):
    """The result of a gathering by a command.

    Attributes:
        pieces: number of merged pieces, by stage.
        latest: the newest publication, or None if there is no publication.
        is_new: whether the gathering created that publication.
    """

    pieces: dict[str, int]
    latest: Path | None
    is_new: bool


def gather_by_hand(
    plan: PipelinePlan,
    folder: PipelineFolder,
    on_change: OnChange,
    keep_last: int,
    clock: Callable[[], float],
    *,
    withheld: Sequence[str] = (),
) -> Done:
    """Gather all statistics. Publish the artifacts if they differ from the artifacts of `latest`.

    Args:
        clock: wall clock, in seconds since the epoch.
        withheld: a sentence for each reason to withhold the publication from readers.

    Raises:
        LedgerError: if there is no ledger, it does not match, or a driver is alive.
        MergeError: if a stage can't merge.
        VolumeError: if the volume is not writable.
    """
    require_ledger(folder.ledger)
    claimant = make_claimant()
    claim = make_claim(plan, folder, on_change)
    with written_alone(folder, claimant) as store:
        if refuse_changes(store, claim) and on_change is OnChange.RESTART:
            msg = (
                "the pipeline has changed, so its artifacts must be gathered again; run the "
                "pipeline"
            )
            raise LedgerError(msg)
        if store.read_meta("lease") is None:
            return Done({}, None, is_new=False)
        with hold_by_command(store, folder, claimant) as (session, heartbeat):
            gatherer = Gatherer(folder, plan.gathering, session, heartbeat)
            gatherer.gather(is_whole=True)
            gatherer.check()
            moment = Moment(session.attempt, clock(), withheld)
            return _publish_new(plan, gatherer, store, moment, keep_last)


class Moment(NamedTuple):
    """The attempt and the time of a publication, and the reasons to withhold it from readers.

    Attributes:
        time: seconds since the epoch.
        withheld: a sentence for each reason; empty if readers may see the publication.
    """

    attempt: int
    time: float
    withheld: Sequence[str] = ()


def _publish_new(
    plan: PipelinePlan, gatherer: Gatherer, store: Store, moment: Moment, keep_last: int
) -> Done:
    folder, merged = gatherer.folder, read_state(store).merged
    pieces = {stage: merged[stage].pieces for stage in plan.gathering if stage in merged}
    with gatherer.artifacts() as artifacts:
        # If a stage has failed, raise its error: the set of artifacts is incomplete and must not
        # replace the published set.
        gatherer.check()
        latest = find_newest(folder)
        if not artifacts or (latest is not None and _holds(latest, artifacts)):
            return Done(pieces, latest.path if latest else None, is_new=False)
        made = _publish(plan, folder, store, latest, artifacts, moment)
    retain(folder, keep_last, made)
    return Done(pieces, made.path, is_new=True)


def _publish(
    plan: PipelinePlan,
    folder: PipelineFolder,
    store: Store,
    latest: Publication | None,
    artifacts: Artifacts,
    moment: Moment,
) -> Publication:
    """Publish the files of the latest publication again, with new artifacts."""
    attempt, time, withheld = moment
    files: dict[str, bytes | Path] = dict(artifacts)
    facts: dict[str, JsonValue] = {
        "pipeline": f"{plan.namespace}/{plan.name}",
        "run": plan.run_id,
        "fingerprint": plan.fingerprint.digest,
        "attempt": attempt,
        "time": time,
        "isFinal": False,
        "sources": {"total": None, **_count(store)},
    }
    if latest is not None:
        files |= {file: latest.path / file for file in latest.files if not _is_artifact(file)}
    if latest is not None and latest.attempt == attempt:
        facts = dict(latest.facts) | {"time": time}
    return publish(folder, attempt, files, facts, withheld)


def _count(store: Store) -> Mapping[str, int]:
    counts = count_sources(store)
    return {"finished": counts["finished"], "failed": counts["failed"], "skipped": 0}


def _holds(published: Publication, artifacts: Artifacts) -> bool:
    """Return True if a publication contains exactly these artifacts."""
    there = {name: entry for name, entry in published.files.items() if _is_artifact(name)}
    if there.keys() != artifacts.keys():
        return False
    return all(there[name].digest == _digest(path) for name, path in artifacts.items())


def _is_artifact(name: str) -> bool:
    return name.startswith(f"{ARTIFACTS}/")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return digest_file(file).hex()
