"""Creates mounts, links, and kernel settings of a node, inside its new namespaces.

All of these end with the namespaces. This module must not depend on the programs that use them.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from real_node import layout
from real_node.errors import NodeError

HOME = Path(layout.HOME)
# Kernel settings that the kubelet checks. If a value differed, it would write to the whole machine.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
NETWORK_SETTINGS = {
    "net/ipv4/ip_forward": "1",
    # Pods on one bridge reach each other through Services only if bridged packets pass nftables.
    "net/bridge/bridge-nf-call-iptables": "1",
}


def run(*command: str) -> None:
    """Run a short program.

    Raises:
        NodeError: if the program failed; the text has its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NodeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


def mount_folders(folder: Path) -> None:
    """Mount a separate `/run` and `/var/log` for the node, with its state and its logs."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "node", "/run")
    HOME.mkdir()
    Path("/run/lock").mkdir()
    run("mount", "--bind", str(folder / layout.STATE), str(HOME))
    run("mount", "--make-rshared", str(HOME))
    run("mount", "--bind", str(folder / layout.LOG_FOLDER), str(layout.LOGS))


def mount_names() -> None:
    """Mount the node's `resolv.conf` and `hosts`, so that its programs resolve names as pods do."""
    for name in ("resolv.conf", "hosts"):
        run("mount", "--bind", str(HOME / layout.SETTINGS / name), f"/etc/{name}")
    socket.sethostname(layout.NODE_NAME)


def shield_kernel() -> None:
    """Mount files over the kernel settings that a kubelet would write."""
    folder = HOME / "kernel"
    for name, value in KERNEL_SETTINGS.items():
        shield, setting = folder / name, Path("/proc/sys", name)
        shield.parent.mkdir(parents=True, exist_ok=True)
        shield.write_text(f"{value}\n", encoding="utf-8")
        if setting.exists():
            run("mount", "--bind", str(shield), str(setting))


def make_links() -> None:
    """Set up the loopback and the node's own address, which must not be a loopback address."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", layout.NODE_LINK, "type", "bridge")
    run("ip", "address", "add", f"{layout.NODE_ADDRESS}/32", "dev", layout.NODE_LINK)
    run("ip", "link", "set", layout.NODE_LINK, "up")
    # Without this route, packets to Services would never reach the rules of kube-proxy.
    run("ip", "route", "add", layout.SERVICE_RANGE, "dev", layout.NODE_LINK)
    for name, value in NETWORK_SETTINGS.items():
        setting = Path("/proc/sys", name)
        if setting.exists():
            setting.write_text(value, encoding="ascii")


def find_snapshotter() -> str:
    """Return a snapshotter for containerd: `overlayfs`, or `native` if overlays are unavailable."""
    folders = {name: HOME / "overlay" / name for name in ("lower", "upper", "work", "all")}
    for path in folders.values():
        path.mkdir(parents=True)
    layers = ",".join(f"{name}dir={folders[name]}" for name in ("lower", "upper", "work"))
    try:
        run("mount", "-t", "overlay", "-o", layers, "overlay", str(folders["all"]))
    except NodeError:
        return "native"
    run("umount", str(folders["all"]))
    return "overlayfs"
