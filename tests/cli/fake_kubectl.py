"""A fake kubectl that needs no cluster: it answers from a file and records its calls."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

PIPELINE = "get curationpipelines.strandline.dev corpus"
JOB = "corpus-verify-x7k2p"
SCRIPT = """#!{python} -IS
import json, pathlib, sys, time

folder = pathlib.Path({folder!r})
words, given = sys.argv[1:], sys.stdin.read() if "-f" in sys.argv else ""
if "--stdin" in words:
    (folder / "stdin").write_bytes(sys.stdin.buffer.read())
with (folder / "calls.jsonl").open("a") as file:
    file.write(json.dumps([words, given]) + "\\n")
named = {{"--context", "--namespace", "--kubeconfig"}}
text = " ".join(
    word for at, word in enumerate(words) if not named.intersection(words[max(at - 1, 0) : at + 1])
)
before = [json.loads(line)[0][0] for line in (folder / "calls.jsonl").open()][:-1]
for pattern, answer in json.loads((folder / "answers.json").read_text()):
    is_due = not answer["after"] or answer["after"] in before
    if is_due and all(part in text for part in pattern.split("|")):
        sys.stdout.buffer.write(bytes.fromhex(answer["hex"]) if "hex" in answer
                                else answer["out"].encode())
        sys.stdout.flush()
        time.sleep(answer["seconds"])
        sys.exit(answer["error"] or answer["code"])
sys.exit(f'Error from server (NotFound): there is nothing for "{{text}}"')
"""


class FakeKubectl:
    """Answers a call with the first matching pattern.

    A pattern has parts separated by bars, and matches if each part is in the words of the call.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: list[tuple[str, dict[str, Any]]] = []
        path = folder / "kubectl"
        path.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self._save()

    def answer(
        self,
        pattern: str,
        out: object = "",
        *,
        code: int = 0,
        after: str = "",
        seconds: float = 0,
    ) -> None:
        """Answer matching calls with text, bytes, or JSON. Later answers take precedence.

        Args:
            pattern, out, code: pattern of calls, their output, and their exit code.
            after: verb of the call after which this answer applies, or an empty string.
            seconds: delay between the output and the end.
        """
        known: dict[str, Any] = {"code": code, "out": "", "after": after, "seconds": seconds}
        known["error"] = ""
        if isinstance(out, bytes):
            known["hex"] = out.hex()
        else:
            known["out"] = out if isinstance(out, str) else json.dumps(out)
        self.answers.insert(0, (pattern, known))
        self._save()

    def refuse(self, pattern: str, error: str) -> None:
        """Reject calls that match a pattern with a message."""
        self.answer(pattern)
        self.answers[0][1]["error"] = error
        self._save()

    @property
    def calls(self) -> list[list[str]]:
        """Return the words of all calls."""
        return [words for words, _ in self._read()]

    @property
    def created(self) -> list[dict[str, Any]]:
        """Return the objects that kubectl was requested to create."""
        return [json.loads(given) for words, given in self._read() if words[0] == "create"]

    def list_verbs(self) -> list[str]:
        """Return the verbs of calls that change the cluster."""
        return [words[0] for words in self.calls if words[0] not in {"get", "auth"}]

    def _read(self) -> list[Any]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _save(self) -> None:
        (self.folder / "answers.json").write_text(json.dumps(self.answers))


def read_command(kubectl: FakeKubectl) -> list[str]:
    """Return the command of the Job, without the surrounding shell."""
    (job,) = kubectl.created
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command: list[str] = container["command"]
    return command[4:]
