"""Simulates a node and the Job controller for the chart's removal hook.

The command of the Job's pod runs in this process's environment, with the pod's account and flags,
and the Job gets the result as its status. The module must not depend on the command's effects.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from chart_cluster import ChartCluster
from kube_client import KubeClient

Json = dict[str, Any]
JOBS = "apis/batch/v1/jobs"
SELECTOR = "app.kubernetes.io/component=uninstall"
PAUSE = 0.2
LONGEST = 120


@dataclass
class UninstallPlayer:
    """Runs the commands of removal hooks until `close` is called.

    Attributes:
        lines: output of the pods, with `exit code N` after each pod.
    """

    cluster: ChartCluster
    lines: list[str] = field(default_factory=list)
    _played: set[str] = field(default_factory=set)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Run each Job once, until `close` is called."""
        # Use a separate client, because a client belongs to one thread.
        with closing(KubeClient(self.cluster.kubeconfig)) as client:
            while not self._is_over.wait(PAUSE):
                for job in client.ask("GET", JOBS, query={"labelSelector": SELECTOR})["items"]:
                    if job["metadata"]["uid"] not in self._played:
                        self._played.add(job["metadata"]["uid"])
                        self._play(client, job)

    def close(self) -> None:
        """Stop running Jobs."""
        self._is_over.set()

    def _play(self, client: KubeClient, job: Json) -> None:
        metadata, pod = job["metadata"], job["spec"]["template"]["spec"]
        kubeconfig = self.cluster.log_in(metadata["namespace"], pod["serviceAccountName"], client)
        (container,) = pod["containers"]
        program, *words = container["command"]
        assert program == "strandline-operator"
        done = subprocess.run(
            [sys.executable, "-m", "strandline_operator", *words, *container["args"]],
            env={"KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
        self.lines += [*done.stdout.splitlines(), *done.stderr.splitlines()]
        self.lines.append(f"exit code {done.returncode}")
        path = f"apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}/status"
        client.ask("PUT", path, {**job, "status": render_end(is_well=done.returncode == 0)})


def render_end(*, is_well: bool) -> Json:
    """Render the status of a finished Job, as the controller writes it."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = ("SuccessCriteriaMet", "Complete") if is_well else ("FailureTarget", "Failed")
    conditions = [
        {"type": word, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
        for word in words
    ]
    counts: Json = {"succeeded": 1, "completionTime": now} if is_well else {"failed": 1}
    return {"startTime": now, "conditions": conditions, **counts}


@contextmanager
def play_uninstalls(cluster: ChartCluster) -> Iterator[UninstallPlayer]:
    """Run removal hooks until the end of the block."""
    player = UninstallPlayer(cluster)
    thread = threading.Thread(target=player.follow, daemon=True)
    thread.start()
    try:
        yield player
    finally:
        player.close()
        thread.join(LONGEST)
