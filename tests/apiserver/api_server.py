"""The API server of the tests: an existing server, or one that this module starts.

    STRANDLINE_TEST_KUBECONFIG  use this cluster instead of starting a control plane
    STRANDLINE_KUBERAY_CRDS     folder with KubeRay's own CRDs; otherwise `../shared/crds/kuberay`
                                if it exists, and otherwise the small ones beside this module

If necessary, `make cluster` builds the control plane. The first build needs Go and takes some
minutes. The module must not depend on the subject of the tests.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from control_plane import install_definitions, run_control_plane, write_kubeconfig
from kube_client import KubeClient
from kuberay_standin.shell.api import find_context
from recordings import Json

ROOT = Path(__file__).parents[2]
OURS = ROOT / "crds"
SMALL = Path(__file__).parent / "crds"
SHARED = ROOT.parent / "shared" / "crds" / "kuberay"
EXISTING = "STRANDLINE_TEST_KUBECONFIG"
KUBERAY = "STRANDLINE_KUBERAY_CRDS"
ADVICE = (
    "NO API SERVER, so nothing that needs one was tested: install Go 1.24 or newer"
    f" (`make cluster` then builds one, once), or set {EXISTING} to a kubeconfig"
)


class NoApiServerError(Exception):
    """No API server is available. The message explains how to get a server."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API server that serves the CRDs of Strandline and KubeRay.

    Attributes:
        kubeconfig: an administrator's kubeconfig.
        client: an administrator's client, for one thread.
    """

    kubeconfig: Path
    client: KubeClient
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def make_namespace(self, prefix: str = "t", client: KubeClient | None = None) -> str:
        """Create a namespace with an unused name, and return the name."""
        name = f"{prefix}-{next(self._numbers)}-{secrets.token_hex(3)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        (client or self.client).create(body)
        return name

    def make_account(self, namespace: str, name: str) -> Path:
        """Create a service account without permissions, and return its kubeconfig."""
        place = f"api/v1/namespaces/{namespace}/serviceaccounts"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.client.ask("POST", place, account)
        return self.log_in(namespace, name)

    def log_in(self, namespace: str, name: str, client: KubeClient | None = None) -> Path:
        """Return a kubeconfig for an existing service account. Each thread needs its own client."""
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = (client or self.client).ask("POST", path, request)
        cluster, _ = find_context(self.kubeconfig)
        kubeconfig = self.folder / f"{namespace}-{name}.kubeconfig"
        write_kubeconfig(kubeconfig, cluster, answer["status"]["token"])
        return kubeconfig


@contextmanager
def open_api_server(folder: Path, say: Callable[[str], None]) -> Iterator[ApiServer]:
    """Find or start an API server that serves the CRDs. A started server ends with the block.

    Raises:
        NoApiServerError: if no server exists and none can be started.
        NotStartedError: if the server does not start.
    """
    existing = os.environ.get(EXISTING)
    if existing:
        with closing(KubeClient(Path(existing))) as client:
            install_definitions(client, [*list_ours(), *list_missing(client)])
            yield ApiServer(Path(existing), client, folder)
        return
    definitions = [*list_ours(), *list_kuberays(os.environ)]
    with (
        run_control_plane(find_binary(say), folder, definitions) as kubeconfig,
        closing(KubeClient(kubeconfig)) as client,
    ):
        yield ApiServer(kubeconfig, client, folder)


def find_binary(say: Callable[[str], None]) -> Path:
    """Return the path of the control plane's binary. Build the binary if necessary.

    Raises:
        NoApiServerError: if the binary is missing and cannot be built.
    """
    if shutil.which("make") is None:
        raise NoApiServerError(ADVICE)
    command = ["make", "--silent", "--no-print-directory", "cluster"]
    making = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with making:
        complaints = []
        for line in making.stderr or ():
            complaints.append(line)
            say(line.rstrip())
        output = making.stdout.read() if making.stdout else ""
    if making.returncode:
        raise NoApiServerError(f"{ADVICE} ({''.join(complaints[-5:]).strip()})")
    return Path(output.splitlines()[-1])


def list_ours() -> list[Path]:
    """Return Strandline's CRDs, as they are installed."""
    return sorted(OURS.glob("*.yaml"))


def list_kuberays(environment: Mapping[str, str]) -> list[Path]:
    """Return KubeRay's CRDs if available, or else the small CRDs of the tests."""
    named = environment.get(KUBERAY)
    folder = Path(named) if named else SHARED
    found = [folder / f"ray.io_{plural}.yaml" for plural in ("rayclusters", "rayjobs")]
    if named or all(path.is_file() for path in found):
        return found
    return sorted(SMALL.glob("*.yaml"))


def list_missing(client: KubeClient) -> list[Path]:
    """Return KubeRay's CRDs, or an empty list if the cluster has them."""
    if client.get("CustomResourceDefinition", "rayjobs.ray.io") is not None:
        return []
    return list_kuberays(os.environ)
