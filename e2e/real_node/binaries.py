"""Provides the programs that a node needs: Go modules built in this package, or Debian packages.

This module must not depend on how the programs run.
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
# Programs and their Debian packages.
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
    """Paths of built binaries.

    Attributes:
        cluster: Kubernetes, kubectl, and etcd in one binary; the first argument selects the
            program.
        dns: the DNS server.
        pause: the process that holds a pod's namespaces.
    """

    cluster: Path
    dns: Path
    pause: Path


def list_missing(packages: Mapping[str, str], is_there: Callable[[str], bool]) -> list[str]:
    """Return the Debian packages of missing programs."""
    return sorted({package for program, package in packages.items() if not is_there(program)})


def provide_packages(report: Callable[[str], None], also: Mapping[str, str]) -> None:
    """Install the missing packages of `PACKAGES` and `also`.

    Raises:
        NodeError: if a package is missing and cannot be installed.
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
    """Return the built binaries, and build them first if necessary.

    Raises:
        NodeError: if a build fails.
    """
    cluster, dns = (build(target, report) for target in ("cluster", "dns"))
    return Binaries(cluster, dns, dns.with_name("strandline-pause"))


def build(target: str, report: Callable[[str], None]) -> Path:
    """Build a binary with make, and report the output line by line."""
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
    """Report the lines of a stream, and return them."""
    kept = []
    for line in lines:
        kept.append(line)
        report(line.rstrip())
    return "".join(kept)


def last_line(text: str) -> str:
    """Return the last line of a program's output."""
    return next(iter(reversed(text.strip().splitlines())), "it did not say why")
