"""Small parts of a node: images, credentials, packages, processes, and the way to a node."""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from real_node import __main__ as shell
from real_node import binaries, layout
from real_node.errors import NodeError
from real_node.images import pack_image
from real_node.inside import credentials
from real_node.node import Node, run, wait_until
from real_node.outside import lifetime

# The code waits for all children of its process, so the tests run it in a separate process.
PROCESSES = r"""
import os, sys, time
from pathlib import Path
from real_node.errors import NodeError
from real_node.inside.processes import Processes
from real_node.inside.programs import Program

folder = Path(sys.argv[1])
logs, pids, stopped = (folder / name for name in ("logs", "pids", "stopped"))
for path in (logs, pids, stopped):
    path.mkdir()
processes = Processes(logs, pids, stopped, {"PATH": os.environ["PATH"], "WORD": "known"})
pid = pids / "server"
processes.start(Program("server", ("sh", "-c", "echo $WORD; exec sleep 100")))
first = pid.read_text()
processes.wait_until("it has spoken", (logs / "server.log").read_text, 30)
(stopped / "server").touch()
processes.wait_until("it is gone", lambda: not pid.exists(), 30)
(stopped / "server").unlink()
processes.wait_until("it is back", pid.exists, 30)
log = logs / "server.log"
processes.wait_until("both have spoken", lambda: log.read_text() == "known\nknown\n", 30)
print(first != pid.read_text())
print(processes.attend(["sh", "-c", "exit $CODE"], {"PATH": os.environ["PATH"], "CODE": "5"}))
print(processes.attend(["sh", "-c", "kill -9 $$"], os.environ))
for words in (["/no/such/program"], ["sleep", "100"]):
    try:
        os.kill(int(pid.read_text()), 9)
        processes.attend(words, os.environ)
    except NodeError as error:
        print(error)
"""


def read_tar(data: bytes) -> dict[str, bytes]:
    """Return the files of a tar archive by name."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {entry.name: archive.extractfile(entry) for entry in archive}
        return {name: file.read() for name, file in members.items() if file}


def test_an_image_contains_its_files_and_its_command() -> None:
    data = pack_image("some/image:1", {"bin/true": b"program"}, ["/bin/true"])
    archive = read_tar(data)
    manifest = json.loads(archive["manifest.json"])[0]
    assert manifest["RepoTags"] == ["some/image:1"]
    assert read_tar(archive[manifest["Layers"][0]]) == {"bin/true": b"program"}
    assert json.loads(archive[manifest["Config"]])["config"]["Entrypoint"] == ["/bin/true"]
    assert data == pack_image("some/image:1", {"bin/true": b"program"}, ["/bin/true"])


def test_a_key_is_valid_for_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "new" / "key"
    credentials.write_private(path, credentials.make_key())
    lines = path.read_text().splitlines()
    assert path.stat().st_mode & 0o777 == 0o600
    assert (lines[0], lines[-1]) == (
        "-----BEGIN EC PRIVATE KEY-----",
        "-----END EC PRIVATE KEY-----",
    )
    assert max(map(len, lines[1:-1])) <= 64
    der = base64.b64decode("".join(lines[1:-1]))
    assert (der[0], der[1]) == (0x30, len(der) - 2)
    assert der.startswith(credentials.KEY_BEGIN)
    assert der.endswith(credentials.KEY_END)
    assert credentials.make_key() != credentials.make_key()


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (set(binaries.PACKAGES), []),
        (set(binaries.PACKAGES) - {"ctr", "containerd"}, ["containerd"]),
        (set(binaries.PACKAGES) - {"nft", "runc"}, ["nftables", "runc"]),
    ],
)
def test_a_package_is_missing_if_one_of_its_programs_is(
    there: set[str], expected: list[str]
) -> None:
    assert binaries.list_missing(binaries.PACKAGES, there.__contains__) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a\nb\n\n", "b"), ("", "it did not say why"), ("one", "one")]
)
def test_the_last_line_gives_the_reason(text: str, expected: str) -> None:
    assert binaries.last_line(text) == expected


def test_processes_are_stopped_and_started_and_their_end_is_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESSES, str(tmp_path)]
    done = subprocess.run(
        command, env=lifetime.describe_environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "True",
        "5",
        "137",
        "cannot run /no/such/program: No such file or directory",
        "server ended with exit code -9",
        "known",
        "known",
    ], done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["up", "--", "kubectl", "--", "x"], (["up"], ["kubectl", "--", "x"])),
        (["up", "--trial"], (["up", "--trial"], [])),
        (["up", "--"], (["up"], [])),
    ],
)
def test_the_command_follows_two_dashes(
    words: list[str], expected: tuple[list[str], list[str]]
) -> None:
    assert shell.split_command(words) == expected


def test_an_order_is_parsed_from_its_arguments() -> None:
    order = shell.read_order(["/node", "/cluster", "/dns", "/pause", "sh", "-c", "true"])
    assert order.folder == Path("/node")
    assert order.binaries == binaries.Binaries(Path("/cluster"), Path("/dns"), Path("/pause"))
    assert order.command == ["sh", "-c", "true"]


def test_a_node_is_found_by_programs_running_on_it() -> None:
    found = Node.find({layout.FOLDER_VARIABLE: "/node", layout.BINARY_VARIABLE: "/cluster"})
    assert found == Node(Path("/node"), Path("/cluster"))
    assert found.kubeconfig == Path("/node/admin.kubeconfig")
    for environment in ({}, {layout.FOLDER_VARIABLE: "/node"}):
        with pytest.raises(NodeError, match="this runs on no node"):
            Node.find(environment)


def test_a_failing_program_reports_the_reason() -> None:
    assert run(("cat",), stdin="text") == "text"
    with pytest.raises(NodeError, match="sh -c echo why >&2; exit 1: why"):
        run(("sh", "-c", "echo why >&2; exit 1"))
    with pytest.raises(NodeError, match="sleep 100 took more than 0 s"):
        run(("sleep", "100"), timeout=0.01)


def test_a_wait_is_limited_and_names_its_condition() -> None:
    answers = iter([False, True])
    wait_until("it is so", lambda: next(answers))
    with pytest.raises(NodeError, match="waited 0 s in vain until it is so"):
        wait_until("it is so", lambda: False, timeout=0)
