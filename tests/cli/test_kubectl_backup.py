"""`kubectl strandline ledger backup` and `restore`: exact bytes, or the existing file is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_project import Call
from cluster_objects import make_attempt_object, make_pipeline_object, make_pod
from fake_kubectl import JOB, PIPELINE, FakeKubectl

COPY = b"\0\r\n\xff a ledger"
RUNNING = {
    "metadata": {"name": JOB},
    "status": {"containerStatuses": [{"name": "strandline", "state": {"running": {}}}]},
}
WHERE = ["/etc/strandline/pipeline.yaml", "--volume", "/var/lib/strandline"]


@pytest.fixture
def cluster(kubectl: FakeKubectl) -> FakeKubectl:
    """Return a cluster on which the pod of a command runs until it is deleted."""
    kubectl.answer("get pods|job-name", {"items": [RUNNING]})
    kubectl.answer("exec", COPY)
    return kubectl


def find_call(kubectl: FakeKubectl) -> list[str]:
    (call,) = (call for call in kubectl.calls if call[0] == "exec")
    return call


def test_a_copy_arrives_unchanged(cluster: FakeKubectl, ask: Call, tmp_path: Path) -> None:
    result = ask("ledger", "backup", "corpus", "--to", "corpus.mdb")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("corpus.mdb: ")
    assert (tmp_path / "corpus.mdb").read_bytes() == COPY
    words = find_call(cluster)
    assert words[words.index("--") + 1 :] == ["strandline", "ledger", "backup", *WHERE, "--to", "-"]
    assert cluster.list_verbs() == ["create", "exec", "delete"]
    assert cluster.created[0]["metadata"]["generateName"] == "corpus-backup-"


def test_a_broken_copy_leaves_the_former_one(
    cluster: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    (tmp_path / "corpus.mdb").write_bytes(b"former")
    cluster.answer("exec", COPY[:5], code=1)
    result = ask("ledger", "backup", "corpus", "--to", "corpus.mdb")
    assert (result.exit_code, "could not be copied" in result.stderr) == (1, True)
    assert (tmp_path / "corpus.mdb").read_bytes() == b"former"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "corpus.mdb"]
    assert cluster.list_verbs()[-1] == "delete"


def test_a_copy_of_a_resting_ledger_is_refused_if_an_attempt_began_meanwhile(
    cluster: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    cluster.answer(PIPELINE, make_pipeline_object(attempt=2), after="exec")
    result = ask("ledger", "backup", "corpus", "--to", "corpus.mdb")
    assert (result.exit_code, "attempt 2 started in the meantime" in result.stderr) == (69, True)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_running_pipeline_is_copied_beside_its_head(
    cluster: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    head = make_pod("corpus-1-head", claim="corpus-ledger", role="head")
    cluster.answer("get pods|status.phase", {"items": [head]})
    cluster.answer("get curationattempts", make_attempt_object(1, phase="Running"))
    assert ask("ledger", "backup", "corpus", "--to", "corpus.mdb").exit_code == 0
    assert "node-of-corpus-1-head" in json.dumps(cluster.created)
    assert (tmp_path / "corpus.mdb").read_bytes() == COPY


def test_a_copy_is_sent_to_the_pod(cluster: FakeKubectl, ask: Call, tmp_path: Path) -> None:
    (tmp_path / "corpus.mdb").write_bytes(COPY)
    cluster.answer("exec", "restored as of attempt 1\n", code=0)
    result = ask("ledger", "restore", "corpus", "--from", "corpus.mdb")
    assert (result.exit_code, result.stdout) == (0, "restored as of attempt 1\n")
    words = find_call(cluster)
    assert "--stdin" in words[: words.index("--")]
    assert words[words.index("--") + 1 :] == [
        *("strandline", "ledger", "restore"),
        *WHERE,
        *("--from", "-"),
    ]
    assert (cluster.folder / "stdin").read_bytes() == COPY
    (volumes,) = (
        job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] for job in cluster.created
    )
    (ledger,) = (each for each in volumes if each["mountPath"] == "/var/lib/strandline")
    assert not ledger["readOnly"]


def test_nothing_is_restored_during_an_attempt(
    cluster: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    (tmp_path / "corpus.mdb").write_bytes(COPY)
    cluster.answer("get curationattempts", make_attempt_object(1, phase="Running"))
    result = ask("ledger", "restore", "corpus", "--from", "corpus.mdb")
    assert (result.exit_code, cluster.list_verbs()) == (69, [])
    assert "kubectl strandline suspend corpus" in result.stderr


def test_a_restore_exits_with_the_code_of_its_command(
    cluster: FakeKubectl, ask: Call, tmp_path: Path
) -> None:
    (tmp_path / "corpus.mdb").write_bytes(b"no ledger")
    cluster.answer("exec", code=65)
    assert ask("ledger", "restore", "corpus", "--from", "corpus.mdb").exit_code == 65
    missing = ask("ledger", "restore", "corpus", "--from", "none.mdb")
    assert (missing.exit_code, "does not exist" in missing.stderr) == (64, True)
