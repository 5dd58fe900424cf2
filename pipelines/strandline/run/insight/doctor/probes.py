"""Collects facts for `strandline doctor` by reading, and by trials in temporary folders.

The module never writes to the volume's other folders, its ledgers, or its outputs.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

from strandline.ledger.access.output_location import locate_outputs
from strandline.ledger.access.session import opened_new, opened_to_read
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.space import explain_shortage
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.code.requirements import find_lacks
from strandline.run.insight.doctor.facts import (
    Disk,
    Facts,
    Lease,
    Ledger,
    Machine,
    Need,
    Package,
    RayStart,
    StagesProbe,
    VolumeFact,
)
from strandline.run.insight.memory_kills import MemoryKills
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.filesystems import explain_unsafe, find_filesystem, read_mounts
from strandline.storage.layout import PipelineFolder, check_writable
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.volume.locks import Process, find_process, hold_alone, read_boot_id
from strandline_api.documents.problems import Problem

MEMORY = Path("/proc/meminfo")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Ray keeps its objects
LEDGERS_AT_MOST = 100
_PROBE = ".strandline-doctor-"
_CONTENT = b"strandline" * 400
# Prefixes of the lines that explain why a run failed.
_TELLING = ("strandline: error: ", "the attempt ended with ")
_TRIAL = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: trial}
spec:
  engine: ray
  retry: {maxRetries: 0}
  source: {use: files, with: {paths: [text.txt]}}
  stages: [{use: read-files}]
  sink: {use: parquet}
"""


def look(
    volume: Path,
    plan: PipelinePlan | None = None,
    unmet: Iterable[Problem] = (),
    *,
    starts_ray: bool = False,
) -> Facts:
    """Return all facts about this machine, the volume, and the pipeline, if given.

    Args:
        unmet: requests of the pipeline's stages that exceed this machine.
        starts_ray: whether to run a trial on a local Ray instance, which takes seconds.
    """
    volume = volume.absolute()
    stages = None if plan is None else look_at_stages(plan, volume, unmet)
    machine = look_at_machine()
    if starts_ray and machine.ray.version is not None:
        machine = replace(machine, ray_start=try_ray())
    return Facts(machine, look_at_volume(volume), tuple(look_at_ledgers(volume, plan)), stages)


def look_at_machine() -> Machine:
    """Return the facts about this machine that are visible to this process."""
    with closing(MemoryKills.of_this_process()) as kills:
        limit = kills.limit()
    temporary = tempfile.gettempdir()
    return Machine(
        python=Package(platform.python_version(), _read_python_bounds()),
        ray=Package(_find_version("ray"), read_bounds("ray", _list_requirements())),
        cpus=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        limit=limit,
        shared_memory=_read_free(SHARED_MEMORY),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        time=time.time(),
        free_memory=parse_free_memory(_read_text(MEMORY)),
        load=os.getloadavg()[0],
        temporary=temporary,
        temporary_disk=_read_disk(Path(temporary)),
        token_mode=os.environ.get("RAY_AUTH_MODE", ""),
        has_token=find_token(os.environ),
    )


def try_ray() -> RayStart:
    """Run a small pipeline on a local Ray instance, in a separate process and folder."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=_PROBE) as name:
        folder = Path(name)
        (folder / "text.txt").write_bytes(_CONTENT)
        (folder / "trial.yaml").write_text(_TRIAL, encoding="utf-8")
        command = [sys.executable, "-m", "strandline", "run", "trial.yaml", "--workers", "1"]
        done = subprocess.run(  # noqa: S603 - this program
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    seconds = time.monotonic() - begun
    return RayStart(seconds, find_problem(done.stderr) if done.returncode else "")


def find_problem(text: str) -> str:
    """Return the error message from the output of a failed run."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    sentences = [line for line in lines if line.startswith(_TELLING)]
    return (sentences or lines or ["it ended without a message"])[0].removeprefix(_TELLING[0])


def parse_free_memory(table: str) -> int | None:
    """Return the available bytes from `/proc/meminfo`, or None if the line is missing."""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", table, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def find_token(environment: Mapping[str, str]) -> bool:
    """Return True if Ray would find a token in the environment or in a file."""
    if environment.get("RAY_AUTH_TOKEN"):
        return True
    own = Path(environment.get("HOME", "/"), ".ray", "auth_token")
    with suppress(OSError):
        return Path(environment.get("RAY_AUTH_TOKEN_PATH") or own).stat().st_size > 0
    return False


def read_bounds(name: str, requirements: list[str]) -> str:
    """Return the version bounds of a library from a list of requirements.

    A requirement looks like `ray<3,>=2.50; extra == 'runtime'`.
    """
    for line in requirements:
        found = re.match(r"([A-Za-z0-9._-]+)\s*(\[[^\]]*\])?\s*\(?([^;)]*)", line)
        if found and found[1].lower() == name:
            return found[3].strip()
    return ""


def look_at_volume(volume: Path, clock: Callable[[], float] = time.time) -> VolumeFact:
    """Return the facts about the volume, from trials in a temporary folder.

    A missing volume is not created.
    """
    path = find_existing(volume)
    if not path.is_dir():
        blocked = f"{path}: this is a file, but a folder is needed"
        return VolumeFact(str(volume), str(path), blocked=blocked)
    mounts = read_mounts()
    unsafe = explain_unsafe(path, mounts)
    writing, lag = try_writing(path, clock)
    return VolumeFact(
        path=str(volume),
        location=str(path),
        filesystem=find_filesystem(os.path.realpath(path), mounts),
        unsafe=unsafe,
        disk=_read_disk(path),
        writing=writing,
        lmdb=None if writing or unsafe else try_ledger(path),
        lag=lag,
    )


def find_existing(path: Path) -> Path:
    """Return the path, or its nearest existing parent."""
    # `lexists` also finds a broken link, at which no folder can be created.
    return next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))


def try_writing(path: Path, clock: Callable[[], float]) -> tuple[str | None, float | None]:
    """Try to write, sync, rename, link, and lock files as a run does.

    Returns:
        A sentence about the failure, or None; and the file's time minus the clock in seconds, or
        None.
    """
    lag = None
    try:
        with _probing(path) as folder:
            file, link = folder / "file", folder / "link"
            write_whole(file, _CONTENT)
            lag = file.stat().st_mtime - clock()
            link.symlink_to(file.name)
            if link.read_bytes() != _CONTENT:
                return (
                    f"{path}: the content read differs from the content written; check the disk"
                ), lag
            with hold_alone(folder / "lock"):
                pass
    except VolumeError as error:
        return _describe_path(path, error), lag
    return None, lag


def try_ledger(path: Path) -> str | None:
    """Write and read a small ledger. Return a sentence about the failure, or None if this works."""
    try:
        with _probing(path) as folder:
            with opened_new(folder) as store:
                store.write(Change(meta={"doctor": "was here"}))
            with opened_to_read(folder) as store:
                if store.read_meta("doctor") != "was here":
                    return (
                        f"{path}: the content read differs from the content written; check the disk"
                    )
    except (LedgerError, VolumeError) as error:
        return _describe_path(path, error)
    return None


def look_at_ledgers(volume: Path, plan: PipelinePlan | None) -> Iterator[Ledger]:
    """Yield the pipeline's ledger, or all ledgers on the volume if no pipeline is given."""
    if plan is None:
        found = sorted(volume.glob("*/*/ledger/data.mdb"))[:LEDGERS_AT_MOST]
        folders = [PipelineFolder(data.parent.parent) for data in found]
    else:
        folders = [PipelineFolder.on_volume(volume, plan.namespace, plan.name)]
    for folder in folders:
        if _has_ledger(folder):
            yield look_at_ledger(folder)


def _has_ledger(folder: PipelineFolder) -> bool:
    try:
        size = (folder.ledger / "data.mdb").stat().st_size
    except OSError:
        return False
    return size > 0  # empty if creating the file was interrupted; the next run creates it


def look_at_ledger(folder: PipelineFolder) -> Ledger:
    """Return the facts about a ledger, without changing it."""
    name = "/".join(folder.path.parts[-2:])
    files = (folder.ledger / "data.mdb", folder.ledger / "lock.mdb")
    for path in (folder.path, folder.ledger, *filter(os.path.lexists, files)):
        try:
            with naming_volume(path):
                check_writable(path)
        except VolumeError as error:
            return Ledger(name, str(error))
    try:
        with opened_to_read(folder.ledger) as store:
            readers = parse_readers(store.describe_readers())
            stale = tuple(pid for pid in readers if find_process(pid) is None)
            finished, shortage = store.count()["finished"], explain_shortage(folder.shards)
            return Ledger(name, None, _read_lease(store), finished, stale, shortage)
    except (LedgerError, VolumeError) as error:
        return Ledger(name, str(error))


def parse_readers(table: str) -> list[int]:
    """Return the pids from LMDB's table of readers. Skip readers that are idle."""
    pids = set()
    # LMDB prints a line with pid, thread, and transaction for each reader; `-` marks an idle
    # reader.
    for line in table.splitlines():
        words = line.split()
        if words and words[0].isdigit() and words[-1] != "-":
            pids.add(int(words[0]))
    return sorted(pids)


def _read_lease(store: Store) -> Lease | None:
    lease = store.read_meta("lease")
    if lease is None:
        return None
    driver = Process(lease["pid"], lease["started"])
    # A pid from another boot or host identifies no process here.
    is_here = lease["boot"] == read_boot_id()
    return Lease(
        attempt=lease["attempt"],
        pid=driver.pid,
        has_ended=lease["ended"],
        is_alive=find_process(driver.pid) == driver if is_here else None,
        age=time.time() - lease["time"],
    )


def look_at_stages(plan: PipelinePlan, volume: Path, unmet: Iterable[Problem] = ()) -> StagesProbe:
    """Return what the pipeline's stages reserve, and whether its output location is writable."""
    needs = (Need(stage.name, stage.min_workers, stage.cpu, stage.memory) for stage in plan.stages)
    lacks, beyond = tuple(map(str, find_lacks(plan))), tuple(map(str, unmet))
    output = locate_outputs(plan, PipelineFolder.on_volume(volume, plan.namespace, plan.name))
    local = output.removeprefix("file://")
    if "://" in local:
        return StagesProbe(tuple(needs), output, is_url=True, lacks=lacks, unmet=beyond)
    failure = None
    # Without a location of their own, the outputs are on the volume, which is tried anyway.
    if plan.output is not None:
        path = find_existing(Path(local).absolute())
        failure, _ = try_writing(path, time.time)
    return StagesProbe(tuple(needs), output, False, failure, lacks, beyond)  # noqa: FBT003 - a field


@contextmanager
def _probing(path: Path) -> Iterator[Path]:
    """Create a temporary folder in a path. Errors name the path."""
    with naming_volume(path):
        folder = Path(tempfile.mkdtemp(prefix=_PROBE, dir=path))
        try:
            yield folder
            # Raise errors of this removal only if the trial succeeded; otherwise, raise the first
            # error.
            shutil.rmtree(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _describe_path(path: Path, error: Exception) -> str:
    """Return the message of an error with the path in place of the temporary folder."""
    inside = str(error).removeprefix(str(path))
    return f"{path}: {inside.partition(': ')[2]}"


def _read_disk(path: Path) -> Disk | None:
    with suppress(OSError):
        found = os.statvfs(path)
        block = found.f_frsize
        # `f_bavail` does not include the blocks reserved for the superuser.
        return Disk(found.f_blocks * block, found.f_bavail * block, found.f_files, found.f_favail)
    return None


def _read_text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="ascii", errors="replace")
    return ""


def _read_free(path: Path) -> int | None:
    disk = _read_disk(path)
    return None if disk is None else disk.free


def _find_version(distribution: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(distribution)
    return None


def _list_requirements() -> list[str]:
    with suppress(PackageNotFoundError):
        return requires("strandline") or []
    return []


def _read_python_bounds() -> str:
    with suppress(PackageNotFoundError):
        return str(metadata("strandline").json.get("requires_python", ""))
    return ""
