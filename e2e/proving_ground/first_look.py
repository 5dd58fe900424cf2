"""Implements `make try`: runs the main example on a local node, and kills a worker during the run.

Shows the view of users, with commands that they can repeat. Everything runs on a node that ends
with this process, so there is no cleanup.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from proving_ground.cluster.kube import Json, Kube, RefusedError
from proving_ground.cluster.volumes import make_volume
from proving_ground.installation.chart import Installation, install
from proving_ground.pipelines import KERNEL_ONLY, render_pipeline, render_stages
from proving_ground.story import ATTEMPT, END_SECONDS, PIPELINE, Story

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "python-functions.yaml"
NAMESPACE = "try"
LEDGER, OUTPUT = "ledger", "output"
# Fields that a small node with its own volumes needs. All other fields come from the example.
CLUSTER_FIELDS = ("storage", "checkpoint", "deadlines", "ray", "retry")
WORKER_MEMORY = "3Gi"  # each stage has its own process
# The whole example takes seconds. The pauses leave time to watch the run and to kill a worker.
PAUSE: Json = {"use": "tide:Work", "with": {"seconds": 3}}
# Number of sources to finish before the worker is killed, so that the second attempt can skip some.
EARLY = 3
INTERRUPTED = 130
# The kernel counts files in memory as the container's memory, and kills a container over its limit.
FILL = ("dd", "if=/dev/zero", "of=/dev/shm/filler", "bs=1M")


def main() -> int:
    """Run the example and return an exit code."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            report("installing the operator by its chart, and the stand-in for KubeRay")
            with install(Path(folder)) as installation:
                show(installation, report)
    except KeyboardInterrupt:
        report("interrupted; the node ends, and everything on it")
        return INTERRUPTED
    return 0


def show(installation: Installation, report: Callable[[str], None]) -> Story:
    """Run the example until its end, and kill a worker during the run. Return the pipeline's story.

    Raises:
        AssertionError: if the run did not resume as documented.
    """
    story = begin(installation)
    report(f"$ kubectl apply --namespace {NAMESPACE} -f {EXAMPLE.name}   # slowed down")
    is_killed = False
    seen: object = None

    def look() -> bool:
        nonlocal is_killed, seen
        shown = _read_columns(story)
        if shown != seen:
            seen = shown
            report(f"$ kubectl get {ATTEMPT}\n{story.kube.call('get', ATTEMPT).rstrip()}")
        if not is_killed and _is_well_under_way(story):
            kill_worker(story, report)
            is_killed = True
        return story.condition("Succeeded").get("status") in {"True", "False"}

    story.wait_until("the end of the run", look, END_SECONDS)
    report(f"$ kubectl get {PIPELINE}\n{story.kube.call('get', PIPELINE).rstrip()}")
    assert story.condition("Succeeded")["status"] == "True", story.describe()
    report(describe_end(story.attempts))
    return story


def begin(installation: Installation) -> Story:
    """Apply the example in a namespace with two volumes."""
    kube: Kube = installation.kube.within(NAMESPACE)
    root = installation.node.volumes if installation.node else None
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    installation.kube.apply(namespace)
    kube.apply(render_stages())
    for claim in (LEDGER, OUTPUT):
        make_volume(kube, claim, root)
    manifest = render_example()
    story = Story(kube, manifest["metadata"]["name"])
    story.begin(manifest)
    return story


def render_example() -> Json:
    """Render the example, and replace the fields that a small node needs."""
    example: Json = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    rendered = render_pipeline("example", ledger=LEDGER, output=OUTPUT, env=KERNEL_ONLY)["spec"]
    example["spec"] |= {name: rendered[name] for name in CLUSTER_FIELDS}
    example["spec"]["stages"].insert(0, PAUSE)
    example["spec"]["ray"]["workerGroups"][0]["resources"]["memory"] = WORKER_MEMORY
    return example


def kill_worker(story: Story, report: Callable[[str], None]) -> None:
    """Exceed the memory limit of a worker's container, so that the kernel kills the container."""
    (worker, *_) = story.pods("worker", 1)
    pod = worker["metadata"]["name"]
    words = ("exec", pod, "-c", "ray-worker", "--", *FILL)
    report(f"killing the worker:\n$ kubectl {' '.join(words)}")
    try:
        story.kube.call(*words, timeout=120)
    except RefusedError:  # the command ends with the container
        return


def describe_end(attempts: list[Json]) -> str:
    """Describe how much work the second attempt skipped.

    Raises:
        AssertionError: if no second attempt followed the kill.
    """
    first, *others = attempts
    cause = first["status"].get("cause")
    assert others, f"the run has ended in one attempt, with the cause {cause}"
    status = others[-1]["status"]
    kept = first["status"]["progress"]["finished"]
    return (
        f"attempt 1 ended with {cause}; attempt {others[-1]['spec']['number']} went on from its"
        f" {kept} finished sources to {status['progress']['text']}, with more memory for the worker"
    )


def _is_well_under_way(story: Story) -> bool:
    progress = story.status.get("progress") or {}
    is_going = [each["status"].get("phase") for each in story.attempts if "status" in each]
    return is_going == ["Running"] and progress.get("finished", 0) >= EARLY


def _read_columns(story: Story) -> list[tuple[object, ...]]:
    """Read the columns to print if they change. Ages change all the time, so omit them."""
    statuses = [(each["spec"]["number"], each.get("status") or {}) for each in story.attempts]
    return [
        (
            number,
            status.get("phase"),
            status.get("cause"),
            (status.get("progress") or {}).get("text"),
        )
        for number, status in statuses
    ]


def report(text: str) -> None:
    """Print a message for the user."""
    print(f"try: {text}" if not text.startswith("$") else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
