"""The programs that a node needs: built from the Go modules beside this package, or of Debian.

This room must not know how they are run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from real_node.errors import NodeError

ROOT = Path(__file__).parents[2]
PLUGINS = Path("/usr/lib/cni")
# Program: the Debian package that has it.
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    str(PLUGINS / "bridge"): "containernetworking-plugins",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "mount": "mount",
}


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of what was built.

    Attributes:
        cluster: all of Kubernetes, kubectl included, and etcd; the first argument says which.
        dns: the DNS server.
        pause: what holds a pod's namespaces.
    """

    cluster: Path
    dns: Path
    pause: Path


def list_missing(packages: Mapping[str, str], is_there: Callable[[str], bool]) -> list[str]:
    """List the packages that have to be installed, given which programs are there."""
    return sorted({package for program, package in packages.items() if not is_there(program)})


def provide_packages(report: Callable[[str], None], also: Mapping[str, str]) -> None:
    """Install what is missing, of `PACKAGES` and of `also`.

    Raises:
        NodeError: it is missing and cannot be installed.
    """
    missing = list_missing({**PACKAGES, **also}, lambda name: shutil.which(name) is not None)
    if not missing:
        return
    names = " ".join(missing)
    if shutil.which("apt-get") is None:
        raise NodeError(f"a node needs these packages, which are not installed: {names}")
    report(f"installing {names}")
    apt = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *missing)):
        done = subprocess.run(
            [*apt, *words], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise NodeError(f"cannot install {names}: {last_line(done.stderr)}")


def provide_binaries(report: Callable[[str], None]) -> Binaries:
    """Find what is built from source, and build it where that was not done.

    Raises:
        NodeError: it cannot be built.
    """
    cluster, dns = (build(target, report) for target in ("cluster", "dns"))
    return Binaries(cluster, dns, dns.with_name("strandline-pause"))


def build(target: str, report: Callable[[str], None]) -> Path:
    """Ask make for a binary, and pass on what it says while it works."""
    if shutil.which("make") is None:
        raise NodeError("a node is built by make, which is not installed")
    command = ["make", "--silent", "--no-print-directory", target]
    making = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with making:
        printed = stream(making.stderr or (), report)
        output = making.stdout.read() if making.stdout else ""
    if making.returncode:
        raise NodeError(f"cannot build {target}: {last_line(printed)}")
    return Path(last_line(output))


def stream(lines: Iterable[str], report: Callable[[str], None]) -> str:
    """Pass lines on, and keep them."""
    kept = []
    for line in lines:
        kept.append(line)
        report(line.rstrip())
    return "".join(kept)


def last_line(text: str) -> str:
    """Take the last line of what a program said."""
    return next(iter(reversed(text.strip().splitlines())), "it did not say why")
