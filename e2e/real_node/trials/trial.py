"""Tests the abilities that a real node must have: `make node ARGS=--trial`.

The trials run on the node under test.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real_node import layout
from real_node.errors import NodeError
from real_node.images import pack_image
from real_node.inside.objects import describe_volume
from real_node.inside.server import is_ready
from real_node.node import Node, run, wait_until
from real_node.trials.objects import (
    IMAGE,
    SLOT,
    describe_claim,
    describe_deployment,
    describe_pod,
    describe_priority,
    describe_service,
)

PACKAGES = {"busybox": "busybox-static"}
WAIT_SECONDS = 90  # default timeout in seconds
FOREVER = "exec busybox sleep 100000"
SERVE = "busybox mkdir -p /www && echo hello > /www/index.html && busybox httpd -f -p 8080 -h /www"
# Fetch with bash, because a statically linked busybox cannot resolve names.
FETCH = (
    "fetch() { exec 3<>/dev/tcp/$1/$2 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3"
    " && busybox tail -n 1 <&3; }"
)


def try_image(node: Node) -> None:
    """Check that pods can use an image imported from an archive."""
    programs = [shutil.which(name) or "" for name in ("busybox", "bash")]
    if not all(programs):
        raise NodeError("the trial needs bash, and busybox, linked statically")
    libraries = re.findall(r"(/\S+) \(0x", run(("ldd", programs[1])))
    files = {path.lstrip("/"): Path(path).read_bytes() for path in libraries}
    files |= {f"bin/{Path(path).name}": Path(path).read_bytes() for path in programs}
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        archive.write(pack_image(IMAGE, files, ["/bin/busybox"]))
        archive.flush()
        node.import_image(Path(archive.name))


def try_services(node: Node) -> None:
    """Check that a Service reaches its pod by name and address, even from the same pod."""
    node.apply(describe_deployment("web", SERVE), describe_service("web", 8080))
    node.kubectl("rollout", "status", "deployment/web", f"--timeout={WAIT_SECONDS}s")
    address = node.read("service", "web")["spec"]["clusterIP"]
    names = f"web web.default web.default.svc.{layout.CLUSTER_DOMAIN} {address}"
    script = f"{FETCH}; for name in {names}; do fetch $name 80 || exit 1; done"
    script = f"{script}; exec 4<>/dev/tcp/kubernetes.default/443"
    node.apply(describe_pod("visitor", retry(script)))
    expect_phase(node, "visitor", "Succeeded")
    text = node.kubectl("logs", "visitor")
    check(text.splitlines()[-4:] == ["hello"] * 4, f"four answers, not: {text}")
    words = ("exec", "deployment/web", "--", "bash", "-c", f"{FETCH}; fetch web 80")
    check(node.kubectl(*words) == "hello\n", "a pod that reaches itself by its Service")


def try_volume(node: Node) -> None:
    """Check that a claim is bound to a folder of the node, and that a pod writes to the folder."""
    node.apply(describe_volume("shelf", "1Gi"), describe_claim("shelf", "shelf", "1Gi"))
    claim = {"name": "shelf", "persistentVolumeClaim": {"claimName": "shelf"}}
    mount = {"name": "shelf", "mountPath": "/shelf"}
    pod = describe_pod("writer", "echo kept > /shelf/file", volumes=[claim], mounts=[mount])
    node.apply(pod)
    expect_phase(node, "writer", "Succeeded")
    text = (node.volumes / "shelf" / "file").read_text(encoding="utf-8")
    check(text == "kept\n", f"the pod's file, not: {text}")


def try_memory(node: Node) -> None:
    """Check that the kernel kills a container over its memory limit and the pod reports it."""
    node.apply(describe_pod("glutton", "busybox tail /dev/zero", limits={"memory": "32Mi"}))
    expect_phase(node, "glutton", "Failed")
    ended = node.read("pod", "glutton")["status"]["containerStatuses"][0]["state"]["terminated"]
    check((ended["reason"], ended["exitCode"]) == ("OOMKilled", 137), f"OOMKilled, not: {ended}")


def try_preemption(node: Node) -> None:
    """Check that a pod preempts a pod of lower priority that holds the only unit of a resource."""
    node.add_resource(SLOT, 1)
    wait_until("the slot is offered", lambda: SLOT in read_node(node)["status"]["allocatable"])
    node.apply(describe_priority("low", -10), describe_priority("high", 10))
    limits = {SLOT: "1"}
    node.apply(describe_pod("weak", FOREVER, priorityClassName="low", limits=limits))
    expect_phase(node, "weak", "Running")
    node.apply(describe_pod("strong", FOREVER, priorityClassName="high", limits=limits))
    expect_phase(node, "strong", "Running")
    words = ("get", "events", "--field-selector=reason=Preempted", "--output=name")
    wait_until("the weak pod is gone", lambda: not node.read("pod", "weak"))
    check(bool(node.kubectl(*words).strip()), "an event of preemption")


def try_eviction(node: Node) -> None:
    """Check that the eviction API removes a pod, unless a disruption budget forbids it."""
    node.apply(describe_pod("lodger", FOREVER))
    expect_phase(node, "lodger", "Running")
    node.kubectl(
        "create", "poddisruptionbudget", "stay", "--selector=app=lodger", "--min-available=1"
    )
    budget = ("get", "poddisruptionbudget", "stay", "--output=jsonpath={.status.currentHealthy}")
    wait_until("the budget counts the pod", lambda: node.kubectl(*budget) == "1")
    try:
        evict(node, "lodger")
    except NodeError as error:
        check("disruption budget" in str(error), f"a refusal by the budget, not: {error}")
    else:
        raise NodeError("a budget did not keep a pod from eviction")
    node.kubectl("delete", "poddisruptionbudget", "stay")
    evict(node, "lodger")
    wait_until("the evicted pod is gone", lambda: not node.read("pod", "lodger"))


def try_pod_security(node: Node) -> None:
    """Check that a namespace with the restricted level rejects an unrestricted pod."""
    node.kubectl("create", "namespace", "strict")
    label = "pod-security.kubernetes.io/enforce=restricted"
    node.kubectl("label", "namespace", "strict", label)
    pod = describe_pod("loose", FOREVER)
    pod["metadata"]["namespace"] = "strict"
    try:
        node.apply(pod)
    except NodeError as error:
        check("violates PodSecurity" in str(error), f"a refusal by its level, not: {error}")
    else:
        raise NodeError("a pod that breaks the restricted level was taken")


def try_loss(node: Node) -> None:
    """Check that a silent node becomes NotReady, loses its pods, and recovers."""
    node.apply(describe_pod("sailor", FOREVER))
    expect_phase(node, "sailor", "Running")
    node.stop_kubelet()
    wait_until("the node is not ready", lambda: not is_ready(read_node(node)), WAIT_SECONDS)
    leaving = ("get", "pod", "sailor", "--output=jsonpath={.metadata.deletionTimestamp}")
    wait_until("the pod is told to go", lambda: bool(node.kubectl(*leaving)), WAIT_SECONDS)
    check(node.read("pod", "sailor")["status"]["phase"] == "Running", "a pod that nobody ended")
    node.start_kubelet()
    wait_until("the node is ready again", lambda: is_ready(read_node(node)), WAIT_SECONDS)
    wait_until("the pod is gone", lambda: not node.read("pod", "sailor"), WAIT_SECONDS)
    node.kubectl("rollout", "status", "deployment/web", f"--timeout={WAIT_SECONDS}s")
    check(read_node(node)["status"]["capacity"].get(SLOT) == "1", "a slot that is still offered")


def try_restart(node: Node) -> None:
    """Check that the control plane keeps all of its objects over a restart."""
    for program in ("kube-apiserver", "etcd"):
        node.stop(program)
    for program in ("etcd", "kube-apiserver"):
        node.start(program)
    wait_until("the API server is back", lambda: knows(node, "web"), WAIT_SECONDS)


TRIALS: tuple[Callable[[Node], None], ...] = (
    try_image,
    try_services,
    try_volume,
    try_memory,
    try_preemption,
    try_eviction,
    try_pod_security,
    try_loss,
    try_restart,
)


def retry(script: str) -> str:
    """Render a script that retries for a while, because a Service follows its pods with a delay."""
    return f"for i in 1 2 3 4 5 6 7 8 9; do ({script}) && exit 0; busybox sleep 1; done; exit 1"


def expect_phase(node: Node, pod: str, phase: str) -> None:
    """Wait until a pod is in a phase."""
    words = ("get", "pod", pod, "--output=jsonpath={.status.phase}")
    wait_until(f"pod {pod} is {phase}", lambda: node.kubectl(*words) == phase, WAIT_SECONDS)


def evict(node: Node, pod: str) -> None:
    """Evict a pod through the API."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    node.kubectl("create", f"--raw={path}", "--filename=-", stdin=json.dumps(body))


def read_node(node: Node) -> dict[str, Any]:
    """Return the node's object."""
    return node.read("node", layout.NODE_NAME)


def knows(node: Node, deployment: str) -> bool:
    """Return whether the API server responds and still has a Deployment."""
    try:
        return bool(node.read("deployment", deployment))
    except NodeError:
        return False


def check(is_so: bool, expected: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Fail unless a condition holds.

    Raises:
        NodeError: if the condition does not hold.
    """
    if not is_so:
        raise NodeError(f"expected {expected}")


def main() -> int:
    """Run all trials and print their durations."""
    node = Node.find()
    for attempt in TRIALS:
        begun = time.monotonic()
        try:
            attempt(node)
        except NodeError as error:
            print(f"FAILED {attempt.__name__}: {error}", flush=True)
            return 1
        print(f"{time.monotonic() - begun:5.1f} s  {attempt.__doc__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
