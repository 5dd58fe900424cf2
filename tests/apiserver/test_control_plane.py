"""No process of a control plane outlives the tests, and an error message names missing tools."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from api_server import ADVICE, EXISTING, ROOT, SMALL, ApiServer, find_binary, list_kuberays
from control_plane import NotStartedError, run_program
from kube_client import KubeClient
from kuberay_standin.shell.api import make_context
from waiting import wait_until

# All tools of `make cluster` except Go.
TOOLS = ("make", "sh", "cat", "cut", "sha256sum", "mkdir", "flock", "sed", "find", "sort", "xargs")
PROBE = "tests/apiserver/test_control_plane.py::test_the_server_is_ready"
PARENT = """
import signal, sys, time
from pathlib import Path
from control_plane import list_etcd_flags, run_program
binary, folder = map(Path, sys.argv[1:])
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in background jobs
with run_program(binary, "etcd", folder, list_etcd_flags(folder, 0, 0)) as etcd:
    print(etcd.process.pid, flush=True)
    while True:  # a signal that comes just before a sleep begins is answered after it
        time.sleep(0.1)
"""

needs_own_server = pytest.mark.skipif(EXISTING in os.environ, reason="the server is another's")


def test_the_server_is_ready(api_server: ApiServer) -> None:
    assert api_server.client.ask("GET", "readyz") == {"text": "ok"}


@needs_own_server
def test_the_server_reports_its_version(client: KubeClient) -> None:
    text = (ROOT / "e2e" / "cluster" / "go.mod").read_text(encoding="utf-8")
    version = client.ask("GET", "version")
    assert f"k8s.io/kubernetes {version['gitVersion']}\n" in text
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")


@needs_own_server
@pytest.mark.parametrize("last", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_program_ends_with_its_parent(
    last: signal.Signals, api_server: ApiServer, tmp_path: Path
) -> None:
    binary = find_binary(print)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, binary, tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(last)
    wait_until(lambda: not is_alive(child))


def is_alive(process: int) -> bool:
    """Return True if a process is running. A zombie is not running."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


@needs_own_server
def test_a_program_that_ends_at_once_is_reported_with_the_reason(
    api_server: ApiServer, tmp_path: Path
) -> None:
    flags = {"no-such-flag": "1"}
    with (
        run_program(find_binary(print), "kube-apiserver", tmp_path, flags) as program,
        pytest.raises(NotStartedError, match=r"(?s)kube-apiserver ended .*no-such-flag"),
    ):
        program.wait_for(api_server.client, "no-such-path")


@pytest.mark.parametrize(
    ("environment", "outcome"), [({}, "1 skipped"), ({"CI": "true"}, "1 error")], ids=["own", "CI"]
)
def test_without_go_the_tests_are_skipped_loudly_and_fail_in_ci(
    environment: dict[str, str], outcome: str, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or "missing")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", PROBE]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": str(tools), "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ran.stdout.splitlines() if ADVICE in line]
    assert lines, ran.stdout
    assert "there is no go" in lines[-1]
    assert outcome in ran.stdout.splitlines()[-1]
    assert (ran.returncode == 0) == (not environment)


def test_a_named_folder_is_used_even_if_wrong(tmp_path: Path) -> None:
    found = list_kuberays({"STRANDLINE_KUBERAY_CRDS": str(tmp_path)})
    assert [path.name for path in found] == ["ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml"]
    assert {path.parent for path in found} == {tmp_path}


@pytest.mark.skipif(not os.environ.get("CI"), reason="people may test with the small definitions")
def test_ci_uses_kuberays_own_definitions() -> None:
    assert SMALL not in {path.parent for path in list_kuberays(os.environ)}


def test_an_unsupported_login_is_named() -> None:
    with pytest.raises(ValueError, match="a token or a client certificate"):
        make_context({}, {"exec": {"command": "aws"}})
