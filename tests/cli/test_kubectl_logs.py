"""`kubectl strandline logs` prints logs from running pods, from the volume, or from the status."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli_project import Call
from cluster_objects import end_pod, make_attempt_object, make_pod
from fake_kubectl import JOB, FakeKubectl, read_command

LOG = "logs/20251125T071100.123Z.log"


def test_a_log_or_its_kept_part_is_printed(kubectl: FakeKubectl, ask: Call) -> None:
    kept = ask("logs", "corpus")
    assert (kept.exit_code, kept.stdout) == (64, "")
    tail = make_attempt_object(1, phase="Failed", logTail=["a", "b"])
    kubectl.answer("get curationattempts.strandline.dev corpus-1", tail)
    assert ask("logs", "corpus").stdout == "a\nb\n"
    pod: dict[str, Any] = make_pod("corpus-1-abc", role="submitter")
    state = {"name": "ray-job-submitter", "state": {"running": {}}}
    pod["status"] = {"containerStatuses": [state]}
    kubectl.answer("get pods", {"items": [pod]})
    kubectl.answer("logs", "working\n")
    assert ask("logs", "corpus", "-f").stdout == "working\n"
    (call,) = (call for call in kubectl.calls if call[0] == "logs")
    assert call == ["logs", "--follow", "-c", "ray-job-submitter", "pod/corpus-1-abc"]


def keep_log(kubectl: FakeKubectl, **status: Any) -> None:
    known = {"phase": "Failed", "isFrozen": True, "logFile": LOG, "logTail": ["a", "b"], **status}
    kubectl.answer("get curationattempts.strandline.dev corpus-1", make_attempt_object(1, **known))


def test_a_log_without_pods_is_read_from_the_volume(
    kubectl: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    keep_log(kubectl)
    kubectl.answer("logs", "all of it\n")
    result = ask("logs", "corpus")
    assert (result.exit_code, result.stdout) == (0, "all of it\n")
    assert result.stderr == f"no pod of attempt 1 prints a log; reading {LOG}\n"
    assert kubectl.list_verbs() == ["create", "logs", "delete"]
    *shell, path = read_command(kubectl)
    assert path == f"/var/lib/strandline/team/corpus/{LOG}"
    (mount,) = (
        each
        for each in kubectl.created[0]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        if each["mountPath"] == "/var/lib/strandline"
    )
    assert mount["readOnly"] is True

    def print_log() -> tuple[int, str]:
        words = [*shell, str(tmp_path / "one.log")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert print_log() == (1, "")
    (tmp_path / "one.log").write_text("new\n")
    assert print_log() == (0, "new\n")
    (tmp_path / "one.log.1").write_text("old\n")
    assert print_log() == (0, "old\nnew\n")


@pytest.mark.parametrize(
    ("pattern", "answer", "why"),
    [
        ("get pods|job-name", {"items": [end_pod(JOB, 1)]}, "was removed to make space for newer"),
        ("create", None, "kubectl: Error from server (Forbidden): no Jobs"),
        ("get persistentvolumeclaim corpus-ledger", None, "Forbidden"),
    ],
)
def test_the_last_lines_are_printed_without_the_volume(
    kubectl: FakeKubectl, ask: Call, pattern: str, answer: object, why: str
) -> None:
    keep_log(kubectl)
    kubectl.answer("logs", "")
    if answer is None:
        kubectl.refuse(pattern, "Error from server (Forbidden): no Jobs")
    else:
        kubectl.answer(pattern, answer)
    result = ask("logs", "corpus")
    assert (result.exit_code, result.stdout) == (0, "a\nb\n")
    assert f"{LOG} can't be read: " in result.stderr
    assert why in result.stderr


def test_paths_of_other_files_than_logs_are_not_read(kubectl: FakeKubectl, ask: Call) -> None:
    keep_log(kubectl, logFile="../../../../etc/passwd")
    assert ask("logs", "corpus").stdout == "a\nb\n"
    assert kubectl.created == []
