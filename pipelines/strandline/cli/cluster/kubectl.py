"""Calls the user's kubectl, which handles clusters, users, and proxies.

The module must not depend on the purpose of a call, or on the meaning of a response.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode

PROGRAM = "kubectl"


class KubectlError(StrandlineError):
    """Raised if kubectl reports an error."""


class NotOnClusterError(KubectlError):
    """Raised if the requested object does not exist."""

    exit_code = ExitCode.BAD_SPEC


class KubectlAnswer(NamedTuple):
    """Result of a kubectl call."""

    code: int
    out: str
    err: str


Runner = Callable[[Sequence[str], str], KubectlAnswer]
Opener = Callable[[Sequence[str], IO[bytes] | None], "subprocess.Popen[bytes]"]


def run_process(words: Sequence[str], text: str) -> KubectlAnswer:
    """Run a command with text on its stdin."""
    done = subprocess.run(words, input=text, capture_output=True, check=False, text=True)  # noqa: S603 - the user's own
    return KubectlAnswer(done.returncode, done.stdout, done.stderr)


def open_process(words: Sequence[str], source: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start a command with its stdout piped to this process; stderr is shared."""
    given = subprocess.DEVNULL if source is None else source
    return subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE)  # noqa: S603 - the same


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Sends requests to a cluster.

    Attributes:
        options: options such as `--context`, passed to every call.
        run, open: start kubectl, with or without waiting for its end.
        find: returns the path of a program, or None.
    """

    options: tuple[str, ...] = ()
    run: Runner = run_process
    open: Opener = open_process
    find: Callable[[str], str | None] = shutil.which

    def get(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        """Return an object, or a list of objects, as JSON.

        Raises:
            NotOnClusterError: the object does not exist.
            KubectlError: the request failed.
        """
        return json.loads(self._call(["get", *words, "-o", "json"]))

    def create(self, manifest: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Create an object, and return the API server's version of the object."""
        return json.loads(self._call(["create", "-f", "-", "-o", "json"], json.dumps(manifest)))

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        """Merge a patch into an object."""
        self._call(["patch", kind, name, "--type", "merge", "-p", json.dumps(patch)])

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and its dependents, if the object exists, without waiting."""
        words = ["--ignore-not-found", "--wait=false", "--cascade=background"]
        self._call(["delete", kind, name, *words])

    def find_user(self) -> str:
        """Return the caller's user name at the API server.

        The name is empty if kubectl or the API server is too old to report it.
        """
        try:
            review = json.loads(self._call(["auth", "whoami", "-o", "json"]))
            return str(review["status"]["userInfo"]["username"])
        except (KubectlError, ValueError, KeyError, TypeError):
            return ""

    def follow(
        self, words: Sequence[str], target: IO[bytes], source: IO[bytes] | None = None
    ) -> int:
        """Copy the output of a call to a stream as it arrives; return the exit code.

        Args:
            source: file for the call's stdin.
        """
        with self.reading(words, source) as (output, code):
            # `read` of the buffered stream would wait for 64 KiB; `os.read` returns the bytes that
            # have arrived.
            while chunk := os.read(output.fileno(), 1 << 16):
                target.write(chunk)
                target.flush()
            return code()

    @contextmanager
    def reading(
        self, words: Sequence[str], source: IO[bytes] | None = None
    ) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """Yield the output stream of a call, and a function that waits for the exit code."""
        process = self.open(self._join(words), source)
        assert process.stdout is not None  # `open` creates a pipe
        try:
            yield process.stdout, process.wait
        finally:
            # Close the pipe before the wait, because kubectl may be blocked by a full pipe.
            process.stdout.close()
            if process.poll() is None:
                process.terminate()
            process.wait()

    def _call(self, words: Sequence[str], text: str = "") -> str:
        answer = self.run(self._join(words), text)
        if answer.code == 0:
            return answer.out
        text = " ".join(answer.err.split()) or f"exit code {answer.code}"
        # kubectl exits with 1 for every error. Only the text contains the reason, as in `Error from
        # server (NotFound): pods "a" not found`.
        raise (NotOnClusterError if "(NotFound)" in text else KubectlError)(f"kubectl: {text}")

    def _join(self, words: Sequence[str]) -> list[str]:
        if self.find(PROGRAM) is None:
            msg = "kubectl is not on PATH, and this command needs it to reach clusters; install it"
            raise KubectlError(msg)
        verb, *rest = words
        # Put the options first, because kubectl passes everything after `--` to the pod's command.
        return [PROGRAM, verb, *self.options, *rest]
