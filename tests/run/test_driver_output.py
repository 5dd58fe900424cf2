"""Output of drivers is forwarded and kept on the volume, whichever process dies first."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from strandline.run.insight.records import read_record
from strandline.run.supervise.driver.driver_output import find_retained
from strandline.run.supervise.driver.driver_process import DriverLimits, DriverProcess
from strandline.run.supervise.stop import Stop
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.driver_logs import list_parts
from strandline_api.status.enums import Trigger

# A parent that makes an attempt with a given driver and also prints a line.
PARENT = """
import sys
from contextlib import suppress
from pathlib import Path
from strandline.run.supervise.driver.driver_output import find_retained
from strandline.run.supervise.driver.driver_process import DriverLimits, DriverProcess
from strandline.run.supervise.stop import Stop
from strandline.storage.layout import PipelineFolder
from strandline_api.status.enums import Trigger
folder, script = PipelineFolder(Path(sys.argv[1])), sys.argv[2]
command = [sys.executable, "-c", script, str(folder.path)]
limits, kept = DriverLimits(grace=60.0), find_retained((1, 2))
driver = DriverProcess(command, folder, limits, Stop(), kept=kept)
ended = driver.attempt(Trigger.RUN)
print("parent", ended.outcome.exit_code, ended.outcome.log_file, flush=True)
"""
# A driver that continues without its parent, as real drivers do.
ORPHAN = """
import os, sys, time
from contextlib import suppress
from pathlib import Path
from strandline.run.supervise.driver.driver_output import prepare_reading_on
here, parent, read_on = Path(sys.argv[1]), os.getppid(), prepare_reading_on(os.environ)
print("begun", flush=True)
(here / "ready").touch()
while os.getppid() == parent:
    time.sleep(0.02)
print("x" * 300_000 if {is_early} else "", flush=True)
read_on()
print("y" * 300_000, flush=True)
print("last words", file=sys.stderr, flush=True)
(here / "done").touch()
"""
LONGEST = 30.0


def start(folder: Path, script: str, **streams: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PARENT, str(folder), script]
    return subprocess.Popen(command, **streams)  # type: ignore[call-overload,no-any-return]


def run(folder: Path, script: str, **streams: int) -> tuple[int, bytes, bytes]:
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    process = start(folder, script, **given)
    out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, err
    return process.returncode, out or b"", err or b""


def read_kept(folder: Path) -> bytes:
    logs = PipelineFolder(folder).logs
    return b"".join(part.read_bytes() for path in logs.glob("*.log") for part in list_parts(path))


def await_file(path: Path) -> None:
    end = time.monotonic() + LONGEST
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.02)


def test_driver_output_is_shown_and_kept(tmp_path: Path) -> None:
    script = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)"
    code, out, err = run(tmp_path, script)
    assert (code, err) == (0, b"err\n")
    first, parent = out.splitlines()
    name = parent.split()[2].decode()
    assert (first, parent) == (b"out", f"parent 0 {name}".encode())
    kept = (tmp_path / name).read_bytes()
    assert sorted(kept.splitlines()) == [b"err", b"out"]


def test_law_streams_to_the_same_file_keep_their_order(tmp_path: Path) -> None:
    script = "import os\nfor at in range(2000):\n    os.write(1 + at % 2, f'{at}\\n'.encode())\n"
    _, out, _ = run(tmp_path, script, stderr=subprocess.STDOUT)
    expected = b"".join(b"%d\n" % at for at in range(2000))
    assert out.startswith(expected)
    assert read_kept(tmp_path) == expected


def test_driver_output_is_shown_before_the_parents_own_message(tmp_path: Path) -> None:
    _, out, _ = run(tmp_path, "print('x' * 1_000_000)")
    assert out.splitlines()[0] == b"x" * 1_000_000
    assert out.splitlines()[-1].startswith(b"parent 0 logs/")


def test_output_of_a_killed_driver_is_kept(tmp_path: Path) -> None:
    script = "import os; os.write(2, b'before the end'); os.kill(os.getpid(), 9)"
    _, out, err = run(tmp_path, script)
    assert out.startswith(b"parent 137 ")
    assert (err, read_kept(tmp_path)) == (b"before the end", b"before the end")


def test_orphans_of_a_driver_do_not_delay_the_parent(tmp_path: Path) -> None:
    script = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    process = start(tmp_path, script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert process.wait(LONGEST) == 0
    finally:
        with suppress(ProcessLookupError):  # an orphan ends together with its driver
            os.kill(int(read_kept(tmp_path)), 9)


def test_a_closed_reader_does_not_stop_the_log(tmp_path: Path) -> None:
    source, sink = os.pipe()
    os.close(source)
    script = "import os\nfor _ in range(3): os.write(2, b'a line\\n')"
    process = start(tmp_path, script, stdout=subprocess.DEVNULL, stderr=sink)
    os.close(sink)
    assert process.wait(LONGEST) == 0
    assert read_kept(tmp_path) == b"a line\n" * 3


def await_kept(folder: Path, words: bytes) -> None:
    end = time.monotonic() + LONGEST
    while words not in read_kept(folder):
        assert time.monotonic() < end, f"{words!r} never came"
        time.sleep(0.02)


@pytest.mark.parametrize("is_early", [False, True], ids=["after it reads on", "before"])
def test_law_a_driver_continues_to_print_without_its_parent(tmp_path: Path, is_early: bool) -> None:
    """A pipe holds little data, so without a reader the driver would block or fail."""
    script = ORPHAN.replace("{is_early}", "False")
    if is_early:
        # Print so much that the driver blocks until another thread reads the pipe again.
        script = script.replace(
            'print("x" * 300_000 if False else "", flush=True)\nread_on()',
            "import threading\nthreading.Timer(0.5, read_on).start()\n"
            "print('x' * 300_000, flush=True)",
        )
    process = start(tmp_path, script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    await_file(tmp_path / "ready")
    # Wait until the parent has written the line. Bytes that it has only read are lost with the
    # parent.
    await_kept(tmp_path, b"begun\n")
    process.kill()
    process.wait(LONGEST)
    await_file(tmp_path / "done")
    await_kept(tmp_path, b"last words")
    process.communicate(timeout=LONGEST)
    kept = read_kept(tmp_path)
    assert kept.startswith(b"begun\n")
    assert b"y" * 300_000 in kept
    assert (b"x" * 300_000 in kept) is is_early


def test_the_log_is_named_in_the_attempts_record(tmp_path: Path) -> None:
    begin = Path(__file__).with_name("test_driver_process.py")
    text = begin.read_text(encoding="utf-8")
    parts = [text.partition(f'{name} = """')[2].partition('"""')[0] for name in ("HEAD", "BEGIN")]
    run(tmp_path, "\n".join((*parts, "sys.exit(1)")))
    record = read_record(PipelineFolder(tmp_path), 1)
    assert record is not None
    assert record.outcome is not None
    assert (tmp_path / record.outcome.log_file).is_file()


def test_terminals_and_closed_streams_are_not_redirected() -> None:
    primary, terminal = os.openpty()
    source, sink = os.pipe()
    os.close(source)
    try:
        assert find_retained((terminal, sink, source)) == (sink,)
    finally:
        for descriptor in (primary, terminal, sink):
            os.close(descriptor)


def test_no_output_is_kept_unless_requested(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "pass", str(tmp_path)]
    driver = DriverProcess(command, PipelineFolder(tmp_path), DriverLimits(60.0), Stop())
    assert driver.attempt(Trigger.RUN).outcome.log_file == ""
    assert not PipelineFolder(tmp_path).logs.exists()
