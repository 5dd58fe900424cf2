"""Runs the user's kubectl, which knows clusters, users and proxies: the shell of this room.

It must not know what is asked for, nor what an answer means.
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
    """What kubectl said where it could not do what it was asked to."""


class NotOnClusterError(KubectlError):
    """There is no such object."""

    exit_code = ExitCode.BAD_SPEC


class KubectlAnswer(NamedTuple):
    """How a call of kubectl ended."""

    code: int
    out: str
    err: str


Runner = Callable[[Sequence[str], str], KubectlAnswer]
Opener = Callable[[Sequence[str], IO[bytes] | None], "subprocess.Popen[bytes]"]


def run_process(words: Sequence[str], text: str) -> KubectlAnswer:
    """Run a command with text at its stdin."""
    done = subprocess.run(words, input=text, capture_output=True, check=False, text=True)  # noqa: S603 - the user's own
    return KubectlAnswer(done.returncode, done.stdout, done.stderr)


def open_process(words: Sequence[str], source: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start a command and read its stdout here; its complaints go where this program's go."""
    given = subprocess.DEVNULL if source is None else source
    return subprocess.Popen(words, stdin=given, stdout=subprocess.PIPE)  # noqa: S603 - the same


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Asks one cluster.

    Attributes:
        options: such as `--context`, handed on with each call.
        run, open: start it.
        find: finds the program; None: it is not there.
    """

    options: tuple[str, ...] = ()
    run: Runner = run_process
    open: Opener = open_process
    find: Callable[[str], str | None] = shutil.which

    def get(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        """Return an object, or a list of them, as JSON.

        Raises:
            NotOnClusterError: there is no such object.
            KubectlError: it could not be had.
        """
        return json.loads(self._call(["get", *words, "-o", "json"]))

    def create(self, manifest: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Make an object, and return it as the API server has it."""
        return json.loads(self._call(["create", "-f", "-", "-o", "json"], json.dumps(manifest)))

    def patch(self, kind: str, name: str, patch: dict[str, Any]) -> None:
        """Merge a patch into an object."""
        self._call(["patch", kind, name, "--type", "merge", "-p", json.dumps(patch)])

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and what belongs to it, if it is there, without a wait for that."""
        words = ["--ignore-not-found", "--wait=false", "--cascade=background"]
        self._call(["delete", kind, name, *words])

    def find_user(self) -> str:
        """Return the name under which the API server knows the caller.

        Return an empty name if the kubectl or the API server is too old for the question.
        """
        try:
            review = json.loads(self._call(["auth", "whoami", "-o", "json"]))
            return str(review["status"]["userInfo"]["username"])
        except (KubectlError, ValueError, KeyError, TypeError):
            return ""

    def follow(
        self, words: Sequence[str], target: IO[bytes], source: IO[bytes] | None = None
    ) -> int:
        """Write what a call prints to a stream, as it comes; return its exit code.

        Args:
            source: a file that the call reads at its stdin.
        """
        with self.reading(words, source) as (output, code):
            while chunk := os.read(output.fileno(), 1 << 16):
                target.write(chunk)
                target.flush()
            return code()

    @contextmanager
    def reading(
        self, words: Sequence[str], source: IO[bytes] | None = None
    ) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """Provide what a call prints, and what waits for its exit code."""
        process = self.open(self._join(words), source)
        assert process.stdout is not None  # `open` makes a pipe
        try:
            yield process.stdout, process.wait
        finally:
            process.stdout.close()
            if process.poll() is None:
                process.terminate()
            process.wait()

    def _call(self, words: Sequence[str], text: str = "") -> str:
        answer = self.run(self._join(words), text)
        if answer.code == 0:
            return answer.out
        text = " ".join(answer.err.split()) or f"exit code {answer.code}"
        raise (NotOnClusterError if "(NotFound)" in text else KubectlError)(f"kubectl: {text}")

    def _join(self, words: Sequence[str]) -> list[str]:
        if self.find(PROGRAM) is None:
            msg = "there is no kubectl on PATH, which this command asks clusters by; install it"
            raise KubectlError(msg)
        verb, *rest = words
        # kubectl takes the words after `--` for the pod's command, so they come last.
        return [PROGRAM, verb, *self.options, *rest]
