"""A real control plane on loopback: etcd, API server, and cleanup controllers.

One folder holds everything: data, certificate, key, tokens, logs, and kubeconfig. Nothing outlives
the process that started the control plane. There is no scheduler and no kubelet, so tests act in
place of both. The module must not depend on the subject of the tests.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from kube_client import RESOURCES, KubeClient, Refusal, spell_path
from recordings import Json

PATIENCE = 90  # seconds; a machine that also runs other tests is slow
PAUSE = 0.05
LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 32_000
LAST_LINES = 15
# Garbage-collect less often: memory is plentiful, and time is not.
GOGC = "400"
# Controllers that remove the dependents of deleted owners, objects of deleted namespaces, and
# unused claims.
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolumeclaim-protection-controller",
)
# A P-256 EC key in SEC 1 form: this prefix, 32 random bytes, and the suffix.
KEY_BEGIN, KEY_END = bytes.fromhex("30310201010420"), bytes.fromhex("a00a06082a8648ce3d030107")


class NotStartedError(Exception):
    """A program of the control plane ended or did not answer. The message has its last lines."""


@dataclass(frozen=True, slots=True)
class Program:
    """A started program and its log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def complain(self, what: str) -> NotStartedError:
        """Return an error with the problem and the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return NotStartedError("\n".join([f"{self.name} {what}", *lines]))

    def wait_for(self, client: KubeClient, path: str) -> None:
        """Repeat a request until the server accepts it.

        Raises:
            NotStartedError: if the program ended or took too long.
        """
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise self.complain(f"ended with exit code {self.process.returncode}")
            try:
                client.ask("GET", path)
            except (OSError, Refusal):
                time.sleep(PAUSE)
            else:
                return
        raise self.complain(f"did not answer within {PATIENCE} s")


@contextmanager
def run_program(
    binary: Path, name: str, folder: Path, flags: Mapping[str, str]
) -> Iterator[Program]:
    """Run one program of the multi-call binary. Kill the program when the block ends."""
    log = folder / f"{name}.log"
    arguments = [f"--{flag}={value}" for flag, value in flags.items()]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [binary, f"--die-with-parent={os.getpid()}", name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "GOGC": GOGC},
            start_new_session=True,  # Ctrl-C must not end the program before the tests
        )
    try:
        yield Program(name, process, log)
    finally:
        process.kill()  # the data is not needed any more
        process.wait()


@contextmanager
def run_control_plane(
    binary: Path,
    folder: Path,
    manifests: Sequence[Path],
    also: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Path]:
    """Run etcd, an API server with CRDs, and the controllers; yield a kubeconfig.

    Args:
        binary, folder, manifests: the programs, the folder for their files, and the CRDs.
        also: additional flags of the API server.

    Raises:
        NotStartedError: if a program ended or took too long.
    """
    data, peer, api = find_free_ports(3)
    token = secrets.token_hex(16)
    write_secret(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
    write_secret(folder / "accounts.key", make_key())
    with ExitStack() as stack:
        etcd = run_program(binary, "etcd", folder, list_etcd_flags(folder, data, peer))
        stack.enter_context(etcd)
        flags = {**list_server_flags(folder, data, api), **also}
        server = stack.enter_context(run_program(binary, "kube-apiserver", folder, flags))
        kubeconfig = folder / "admin.kubeconfig"
        wait_for_file(server, folder / "certificates" / "apiserver.key")  # follows the certificate
        write_kubeconfig(kubeconfig, describe_cluster(folder, api), token)
        client = KubeClient(kubeconfig)
        stack.callback(client.close)
        server.wait_for(client, "readyz")
        install_definitions(client, manifests)
        # Start the manager after the CRDs: later, it discovers new kinds only every half minute.
        flags = list_controller_flags(kubeconfig)
        stack.enter_context(run_program(binary, "kube-controller-manager", folder, flags))
        yield kubeconfig


def list_etcd_flags(folder: Path, port: int, peer: int) -> dict[str, str]:
    """Return flags for a single member on loopback without disk syncs."""
    address = f"http://{LOOPBACK}:{port}"
    return {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": address,
        "advertise-client-urls": address,
        "listen-peer-urls": f"http://{LOOPBACK}:{peer}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }


def list_server_flags(folder: Path, etcd: int, port: int) -> dict[str, str]:
    """Return flags for real authorization and validation. Pods need no service account."""
    return {
        "etcd-servers": f"http://{LOOPBACK}:{etcd}",
        "bind-address": LOOPBACK,
        "advertise-address": LOOPBACK,
        "secure-port": str(port),
        "cert-dir": str(folder / "certificates"),
        "token-auth-file": str(folder / "tokens.csv"),
        "authorization-mode": "RBAC",
        "service-cluster-ip-range": "10.0.0.0/24",
        "endpoint-reconciler-type": "none",
        "disable-admission-plugins": "ServiceAccount",
        "service-account-issuer": "strandline-tests",
        "service-account-key-file": str(folder / "accounts.key"),
        "service-account-signing-key-file": str(folder / "accounts.key"),
    }


def list_controller_flags(kubeconfig: Path) -> dict[str, str]:
    """Return flags that enable only the cleanup controllers."""
    return {
        "kubeconfig": str(kubeconfig),
        "controllers": ",".join(CONTROLLERS),
        "leader-elect": "false",
        "secure-port": "0",
        "kube-api-qps": "200",
        "kube-api-burst": "400",
    }


def install_definitions(client: KubeClient, manifests: Sequence[Path]) -> None:
    """Apply CRDs, one per file, and wait until the server serves each of them.

    The files are applied server-side, because KubeRay's CRDs are too large for a client-side apply.
    """
    names = []
    for manifest in manifests:
        text = manifest.read_bytes()
        line = next(line for line in text.splitlines() if line.startswith(b"  name: "))
        names.append(line.decode().split()[1])
        client.apply(text, "CustomResourceDefinition", names[-1])
    end = time.monotonic() + PATIENCE
    for name in names:
        while not is_served(client, name):
            if time.monotonic() > end:
                raise NotStartedError(f"the API server does not serve {name}")
            time.sleep(PAUSE)


def is_served(client: KubeClient, name: str) -> bool:
    """Return True if objects of a CRD can be listed, which is faster than reading a large CRD."""
    plural, _, group = name.partition(".")
    paths = (spell_path(kind) for kind, (version, _) in RESOURCES.items() if group in version)
    try:
        client.ask(
            "GET", next(path for path in paths if path.endswith(f"/{plural}")), query={"limit": "1"}
        )
    except Refusal:
        return False
    return True


def describe_cluster(folder: Path, port: int) -> Json:
    """Return the cluster entry of a kubeconfig: the server's address and its certificate."""
    authority = folder / "certificates" / "apiserver.crt"
    return {"server": f"https://{LOOPBACK}:{port}", "certificate-authority": str(authority)}


def find_free_ports(count: int) -> list[int]:
    """Find unused loopback ports.

    The range excludes the kernel's ephemeral ports, which a client could take before the program
    listens.
    """
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            listener = stack.enter_context(socket.socket())
            port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
            with suppress(OSError):
                listener.bind((LOOPBACK, port))
                found.append(port)
        return found


def wait_for_file(program: Program, path: Path) -> None:
    """Wait until a program has written a file.

    Raises:
        NotStartedError: if the program ended or took too long.
    """
    end = time.monotonic() + PATIENCE
    while not path.exists():
        if program.process.poll() is not None or time.monotonic() > end:
            raise program.complain("did not start")
        time.sleep(PAUSE)


def make_key() -> str:
    """Make a key that signs the tokens of service accounts, in PEM form."""
    der = KEY_BEGIN + b"\0" + secrets.token_bytes(31) + KEY_END
    text = base64.b64encode(der).decode()
    return (
        f"-----BEGIN EC PRIVATE KEY-----\n{text[:64]}\n{text[64:]}\n-----END EC PRIVATE KEY-----\n"
    )


def write_secret(path: Path, text: str) -> None:
    """Write a file that only the owner may read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def write_kubeconfig(path: Path, cluster: Json, token: str) -> None:
    """Write a kubeconfig for one user of a cluster, as JSON, which is valid YAML."""
    names = {"cluster": "tests", "user": "tests"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "contexts": [{"name": "tests", "context": names}],
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": {"token": token}}],
    }
    write_secret(path, json.dumps(config, indent=1))
