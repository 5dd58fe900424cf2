"""A process that has loaded all that a driver needs, and becomes one driver after another by fork.

A run of the engine `inline` takes a tenth of a second then, and a round some of them. What is
forked runs `strandline drive` as the command line does. As a program it is the process that forks.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

PATIENCE = 120.0
LOADED = ("strandline.cli.app.commands", "strandline.cli.commands.runs.drive", "fuzz_stages")


class WarmDriver:
    """Runs one driver at a time.

    Args:
        environment: of all of them.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.pid = 0

    def start(self, words: Sequence[str], extra: Mapping[str, str], log: Path) -> None:
        """Begin a driver with these words of the command line."""
        assert self._process.stdin is not None
        request = {"words": list(words), "extra": dict(extra), "log": str(log)}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        self.pid = self._read(PATIENCE)["pid"]

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code, below 0 for a signal.

        Raises:
            TimeoutError: it does not end.
        """
        return int(self._read(seconds)["code"])

    def send(self, number: int) -> None:
        """Send the driver a signal; nothing happens where it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """End it, and whatever it runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.pid:
            self.send(signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def _read(self, seconds: float) -> Any:
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], seconds)[0]:
            raise TimeoutError(f"a driver has not ended within {seconds:.0f} s")
        answer = json.loads(output.readline())
        self.pid = 0 if "code" in answer else self.pid
        return answer


def main() -> None:
    """Fork a driver for each line of standard input; tell its pid, and then how it ended."""
    for name in LOADED:
        import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            answers.close()
            _become_driver(request)
        print(json.dumps({"pid": pid}), file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers, flush=True)


def _become_driver(request: dict[str, Any]) -> None:
    code = 1
    log = os.open(request["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.update(request["extra"])
    tempfile.tempdir = None
    try:
        import_module("strandline.cli.app.commands").program.main(request["words"], "strandline")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - told, and ends here
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
