"""Manages a node's lifecycle inside its namespaces: set up, start, wait, and run the command.

This is the first process of a PID namespace, so its end ends all others. The module must not depend
on anything outside the namespaces or on the purpose of the command.
"""

from __future__ import annotations

import base64
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from real_node import binaries, cgroups, layout
from real_node.binaries import Binaries
from real_node.errors import NodeError
from real_node.images import pack_image
from real_node.inside import credentials, furnishing, objects, programs, settings
from real_node.inside.processes import Processes
from real_node.inside.server import Server, has_names
from real_node.node import Node

HOME = Path(layout.HOME)
WAIT_SECONDS = 120  # timeout per step; generous, because the machine may be busy
BROKEN = 125  # exit code of a broken node
GOGC = "200"  # garbage collection of Go programs: trades memory for time


@dataclass(frozen=True, slots=True)
class Order:
    """A request for a node.

    Attributes:
        folder: the node's folder, with its path outside the namespaces.
        binaries: paths of built binaries.
        command: the user's command. If empty, the node runs until a signal arrives.
    """

    folder: Path
    binaries: Binaries
    command: Sequence[str]


def supervise(order: Order, report: Callable[[str], None]) -> int:
    """Start a node, run the command, and return its exit code, or `BROKEN`."""
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        return live(order, report)
    except NodeError as error:
        report(f"{error}\nnode: logs are in {order.folder / layout.LOG_FOLDER}")
        return BROKEN
    finally:
        (order.folder / layout.ENDED).touch()


def leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Exit on a signal; the kernel ends the other processes."""
    sys.exit(128 + number)


def live(order: Order, report: Callable[[str], None]) -> int:
    """Do the work of `supervise` without its error handling.

    Raises:
        NodeError: if the node broke before or during the command.
    """
    begun = time.monotonic()
    server = furnish(order.folder)
    node = Node(order.folder, order.binaries.cluster)
    processes = start_processes(order)
    bring_up(processes, server, node, order.binaries)
    report(f"the node is ready after {time.monotonic() - begun:.1f} s")
    environment = write_environment(order, os.environ)
    # Ctrl-C is meant for the command. Use a handler instead of SIG_IGN, which the command would
    # inherit.
    signal.signal(signal.SIGINT, pass_over)
    if not order.command:
        report(describe_entrance(order.folder))
        processes.attend(["sleep", "infinity"], environment)
        return 0
    code = processes.attend(order.command, environment)
    if code:
        with suppress(NodeError):
            report(f"logs and objects are in {node.collect()}")
    return code


def pass_over(_number: int, _frame: FrameType | None) -> None:
    """Ignore a signal."""


def describe_entrance(folder: Path) -> str:
    """Describe how to run a command on a running node."""
    package = Path(__file__).parents[2]
    call = f"PYTHONPATH={package} {sys.executable} -m real_node enter --folder {folder}"
    return (
        f"KUBECONFIG={folder / layout.KUBECONFIG} works on the node only\n"
        f"node: to enter it: {call} -- COMMAND\n"
        "node: Ctrl-C ends it"
    )


def furnish(folder: Path) -> Server:
    """Create mounts, links, and settings. Return a client of the API server, which starts later."""
    furnishing.mount_folders(folder)
    tokens = {program: credentials.make_token() for program, _, _ in settings.USERS}
    cgroup = layout.name_cgroup(folder)
    plugins = str(binaries.PLUGINS)
    files = settings.list_settings(cgroup, furnishing.find_snapshotter(), plugins, tokens)
    for name, text in files.items():
        credentials.write_private(HOME / layout.SETTINGS / name, text)
    for name in ("resolv.conf", "hosts"):
        (HOME / layout.SETTINGS / name).chmod(0o644)
    credentials.write_private(HOME / "accounts.key", credentials.make_key())
    for name in (layout.PIDS, layout.STOPPED, "volumes"):
        (HOME / name).mkdir()
    furnishing.mount_names()
    furnishing.shield_kernel()
    furnishing.make_links()
    cgroups.make_cgroups(cgroup)
    return Server(HOME / "certificates" / "apiserver.crt", tokens["admin"])


def start_processes(order: Order) -> Processes:
    """Start the programs that do not depend on others."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GOGC": GOGC,
        layout.FOLDER_VARIABLE: str(order.folder),
    }
    logs = order.folder / layout.LOG_FOLDER
    processes = Processes(logs, HOME / layout.PIDS, HOME / layout.STOPPED, environment)
    for program in list_ours(order.binaries):
        if program.name in programs.FIRST:
            processes.start(program)
    return processes


def list_ours(built: Binaries) -> tuple[programs.Program, ...]:
    """Return the programs of a node, with the paths of built binaries."""
    return programs.list_programs(str(built.cluster), str(built.dns))


def bring_up(processes: Processes, server: Server, node: Node, built: Binaries) -> None:
    """Start the remaining programs, and wait until pods can run and find each other.

    Raises:
        NodeError: if a program ended, or on a timeout.
    """
    processes.wait_until("containerd listens", Path(layout.CONTAINERD).exists, WAIT_SECONDS)
    archive = HOME / "pause.tar"
    image = pack_image(layout.PAUSE_IMAGE, {"pause": built.pause.read_bytes()}, ["/pause"])
    archive.write_bytes(image)
    node.import_image(archive)
    processes.wait_until("the API server is ready", server.is_serving, WAIT_SECONDS)
    write_kubeconfig(node.kubeconfig, server)
    for program in list_ours(built):
        if program.name not in (*programs.FIRST, programs.LAST):
            processes.start(program)
    node.apply(*objects.list_first_objects())
    processes.start(list_ours(built)[-1])
    processes.wait_until("names are served", has_names, WAIT_SECONDS)
    processes.wait_until("accounts are made", server.has_accounts, WAIT_SECONDS)
    processes.wait_until("Services can be reached", server.has_services, WAIT_SECONDS)
    processes.wait_until("the node is ready", server.has_node, WAIT_SECONDS)


def write_kubeconfig(path: Path, server: Server) -> None:
    """Write the administrator's self-contained kubeconfig."""
    authority = base64.b64encode(server.authority.read_bytes()).decode()
    trust = {"certificate-authority-data": authority}
    credentials.write_private(
        path, settings.render(settings.describe_user("admin", server.token, trust))
    )


def write_environment(order: Order, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the user's command, and store the node's variables for `enter`."""
    tools = HOME / "bin"
    tools.mkdir()
    kubectl = tools / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec "{order.binaries.cluster}" kubectl "$@"\n')
    kubectl.chmod(0o755)
    ours = {
        "PATH": f"{tools}{os.pathsep}{outer.get('PATH', os.defpath)}",
        "KUBECONFIG": str(order.folder / layout.KUBECONFIG),
        "KUBECACHEDIR": str(layout.KUBECTL_CACHE),
        layout.FOLDER_VARIABLE: str(order.folder),
        layout.BINARY_VARIABLE: str(order.binaries.cluster),
    }
    (order.folder / layout.ENVIRONMENT).write_text(settings.render(ours), encoding="utf-8")
    return {**outer, **ours}
