"""The audit section of docs/upkeep.md: the API server's audit log shows who sent a request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from api_server import find_binary, list_ours
from cluster_objects import make_config, read_pipeline_object
from control_plane import run_control_plane
from kube_client import KubeClient
from strandline.cli.cluster.job import JobOrder, render_job, separate_errors
from strandline.cli.cluster.placement import JobPlacement

PAGE = Path(__file__).parents[2] / "docs" / "upkeep.md"
PIPELINE = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "corpus"},
    "spec": {"source": {"use": "files"}, "stages": [], "sink": {"use": "parquet"}},
}
OPERATOR = "system:serviceaccount:strandline:strandline"


class Audited(NamedTuple):
    """A control plane with the page's audit policy."""

    client: KubeClient
    kubeconfig: Path
    folder: Path

    def kubectl(self, *words: str) -> str:
        binary, ours = find_binary(print), f"--kubeconfig={self.kubeconfig}"
        command = [str(binary), "kubectl", ours, f"--cache-dir={self.folder / 'cache'}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask_plugin(self, *words: str) -> None:
        """Call the plugin with a kubectl that authenticates as alice."""
        kubectl = self.folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {find_binary(print)} kubectl --as=alice "$@"\n')
        kubectl.chmod(0o755)
        code = "from strandline.__main__ import main_on_cluster as main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--kubeconfig", str(self.kubeconfig)],
            env={**os.environ, "PATH": f"{self.folder}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr

    def read_log(self) -> list[list[str]]:
        """Return the output of the page's query, as rows."""
        question = read_block("sh")
        command = ["/bin/sh", "-c", question]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]


def read_block(language: str) -> str:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"```{language}\n")
    return rest.partition("\n```")[0]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    (folder / "policy.yaml").write_text(read_block("yaml"), encoding="utf-8")
    flags = {
        "audit-policy-file": str(folder / "policy.yaml"),
        "audit-log-path": str(folder / "audit.log"),
    }
    binary = find_binary(print)
    with (
        run_control_plane(binary, folder, list_ours(), flags) as kubeconfig,
        closing(KubeClient(kubeconfig)) as client,
    ):
        found = Audited(client, kubeconfig, folder)
        client.create(PIPELINE, "default")
        grant = ("create", "clusterrolebinding", "alice", "--clusterrole=cluster-admin")
        found.kubectl(*grant, "--user=alice", f"--user={OPERATOR}")
        yield found


def test_the_plugin_records_a_name_and_the_log_proves_it(audited: Audited) -> None:
    before = len(audited.read_log())
    audited.ask_plugin("retry", "corpus")
    audited.ask_plugin("cancel", "corpus")
    audited.ask_plugin("suspend", "corpus")
    found = audited.client.get("CurationPipeline", "corpus", "default")
    assert found is not None
    values = found["metadata"]["annotations"]
    retry, cancel = values["strandline.dev/retry"], values["strandline.dev/cancel"]
    assert (retry[-9:], cancel[-9:]) == (" by alice", " by alice")
    rows = audited.read_log()[before:]
    assert [row[1:5] for row in rows] == [["alice", "patch", "default", "corpus"]] * 3
    assert [json.loads(row[5].replace("\\\\", "\\")) for row in rows] == [
        {"strandline.dev/retry": retry},
        {"strandline.dev/cancel": cancel},
        {"suspend": True},
    ]


def test_objects_do_not_name_the_annotating_user(audited: Audited) -> None:
    mallory = ("strandline.dev/retry=9 by bob", "--overwrite", "--as=alice")
    audited.kubectl("annotate", "curationpipelines", "corpus", *mallory)
    words = ("get", "curationpipelines", "corpus", "-o", "json", "--show-managed-fields")
    found = json.loads(audited.kubectl(*words))
    (fields,) = (
        each
        for each in found["metadata"]["managedFields"]
        if "f:strandline.dev/retry" in json.dumps(each) and each["manager"] == "kubectl-annotate"
    )
    assert fields["time"]
    assert "alice" not in json.dumps(fields)
    *_, last = audited.read_log()
    assert (last[1], "9 by bob" in last[5]) == ("alice", True)


def test_a_volume_command_is_logged_with_its_arguments_without_other_jobs(
    audited: Audited,
) -> None:
    before = len(audited.read_log())
    head = json.loads(make_config()["data"]["head.json"])
    words = separate_errors(["strandline", "ledger", "quarantine", "release", "--all"])
    placement = JobPlacement("", writes_ledger=True, writes_output=False)
    job = render_job(JobOrder("release", words, read_pipeline_object(), head, placement))
    job["metadata"]["namespace"] = "default"
    path = audited.folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    audited.kubectl("create", "--as=alice", "-f", str(path))
    audited.kubectl("create", "job", "--as=alice", "other", "--image=example.com/other")
    (row,) = audited.read_log()[before:]
    assert row[1:4] == ["alice", "create", "default"]
    assert row[4].startswith("corpus")
    assert "release" in row[5]


def test_the_operators_own_writes_are_omitted(audited: Audited) -> None:
    namespace, account = OPERATOR.split(":")[2:]
    audited.kubectl("create", "namespace", namespace)
    audited.kubectl("create", "serviceaccount", account, "-n", namespace)
    token = audited.kubectl("create", "token", account, "-n", namespace).strip()
    before = len(audited.read_log())
    word = "strandline.dev/note=x"
    audited.kubectl("annotate", "curationpipelines", "corpus", word, f"--token={token}")
    found = audited.client.get("CurationPipeline", "corpus", "default")
    assert found is not None
    assert found["metadata"]["annotations"]["strandline.dev/note"] == "x"
    assert len(audited.read_log()) == before
