"""Record Kueue's actions on RayJobs, and check the operator's results: `make kueue`.

The recording uses a real API server with Kueue's own manager and webhooks, the operator as a
process, and the stand-in for KubeRay. Each story is written to a file of tests/fixtures/kueue with
every version of RayJobs and Workloads, and Kueue's events. Templates are reduced to the fields that
Kueue writes. The operator's results are printed. The module must not depend on any story.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from api_server import find_binary, list_kuberays, list_ours
from control_plane import run_control_plane
from guide_cluster import Driver, serve_driver
from kube_client import KubeClient
from kuberay_standin.shell.api import read_kubeconfig
from kueue_play import ATTEMPTS, PIPELINES, Play
from kueue_process import run_kueue
from kueue_stage import NAMESPACE, OwnApi, Stage
from kueue_stories import STORIES
from operator_process import QUICK, run_operator
from operator_stories import make_node

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kueue"
VERSION = "v0.17.0"
PAGES = {"/progress": {"event": "progress", "sources": {"total": 100, "finished": 40}}}


def record(name: str, program: Path, components: Path) -> None:
    """Play a story on an empty cluster, and write its file.

    Raises:
        TimeoutError: if an expected result does not occur in time.
    """
    story = STORIES[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        binary = find_binary(report)
        definitions = [*list_ours(), *list_kuberays(os.environ)]
        kubeconfig = stack.enter_context(run_control_plane(binary, folder, definitions))
        client = KubeClient(kubeconfig)
        stack.callback(client.close)
        running = run_kueue(program, components, kubeconfig, folder, client, **story.kueue)
        stack.enter_context(running)
        client.ask("POST", "api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        make_node(client)
        Driver.pages = dict(PAGES)
        variables = {**QUICK, "STRANDLINE_DRIVER_PORT": str(stack.enter_context(serve_driver()))}
        operator = stack.enter_context(
            run_operator(kubeconfig, folder, "--namespaces", NAMESPACE, **variables)
        )
        stage = Stage(client, OwnApi(read_kubeconfig(kubeconfig)))
        play = Play(stage, operator)
        try:
            story.tell(play)
            stage.go_on(2.0)
        except (AssertionError, TimeoutError):
            report((folder / "kueue.log").read_text()[-3000:])
            report(operator.tail)
            raise
        finally:
            describe(play, name)
        faults = operator.faults
        assert not faults, faults
    FIXTURES.mkdir(exist_ok=True)
    lines = [{"kueue": VERSION, "story": story.tell.__doc__}, *stage.lines]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    (FIXTURES / f"{name}.jsonl").write_text(text, encoding="utf-8")


def describe(play: Play, name: str) -> None:
    """Print the operator's results for a story."""
    report(f"== {name}")
    for pipeline in play.stage.list_all(PIPELINES):
        status = pipeline.get("status", {})
        report(f"{pipeline['metadata']['name']}: {status.get('phase')} {status.get('retries')}")
        for condition in status.get("conditions", ()):
            report(f"   {condition['type']} {condition['reason']}: {condition['message']}")
    for attempt in play.stage.list_all(ATTEMPTS):
        status = attempt.get("status", {})
        words = (status.get(key) for key in ("phase", "cause", "message", "evidence"))
        report(" | ".join([attempt["metadata"]["name"], *map(str, words)]))


def report(line: str) -> None:
    """Print a line to standard error, not to the recording."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    for chosen in os.environ.get("STORIES", ",".join(STORIES)).split(","):
        record(chosen, Path(sys.argv[1]), Path(sys.argv[2]))
