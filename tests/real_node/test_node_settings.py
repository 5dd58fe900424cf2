"""The settings and commands of a node are consistent: every named file, user, or port exists."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from pathlib import Path

import pytest

from real_node import layout
from real_node.inside import programs, server, settings
from real_node.inside.objects import describe_volume, list_first_objects

ROOT = Path(__file__).parents[2]
TOKENS = {program: f"token-of-{program}" for program, _, _ in settings.USERS}
FILES = settings.list_settings("some-cgroup", "overlayfs", "/plugins", TOKENS)
PROGRAMS = programs.list_programs("/built/cluster", "/built/dns")


def list_words(program: programs.Program) -> list[str]:
    """Return the words of a command, with flags split from their values."""
    return [part for word in program.command for part in word.split("=", 1)]


def test_every_settings_file_named_by_a_command_is_written() -> None:
    folder = f"{layout.HOME}/{layout.SETTINGS}/"
    words = [word for program in PROGRAMS for word in list_words(program)]
    named = {word.removeprefix(folder) for word in words if word.startswith(folder)}
    assert len(named) >= 7
    assert named - FILES.keys() == set()


def test_every_user_has_a_valid_token_and_a_kubeconfig() -> None:
    known = [line.split(",")[:2] for line in FILES["tokens.csv"].splitlines()]
    assert known == [[TOKENS[program], name] for program, name, _ in settings.USERS]
    for program, token in TOKENS.items():
        config = json.loads(FILES[f"{program}.kubeconfig"])
        assert config["users"] == [{"name": program, "user": {"token": token}}]


def test_the_kubelets_node_matches_its_user() -> None:
    users = {program: (name, groups) for program, name, groups in settings.USERS}
    assert users["kubelet"] == (f"system:node:{layout.NODE_NAME}", "system:nodes")
    assert programs.KUBELET_FLAGS["hostname-override"] == layout.NODE_NAME


def test_pods_are_below_the_swept_cgroup() -> None:
    assert json.loads(FILES["kubelet.json"])["cgroupRoot"] == "/some-cgroup"


@pytest.mark.parametrize("snapshotter", ["overlayfs", "native"])
def test_containerd_reads_its_settings(snapshotter: str) -> None:
    files = settings.list_settings("some-cgroup", snapshotter, "/plugins", TOKENS)
    containerd = tomllib.loads(files["containerd.toml"])
    plugin = containerd["plugins"]["io.containerd.grpc.v1.cri"]
    assert plugin["containerd"]["snapshotter"] == snapshotter
    assert plugin["restrict_oom_score_adj"] is True
    assert plugin["sandbox_image"] == layout.PAUSE_IMAGE
    assert (
        f"unix://{containerd['grpc']['address']}"
        == (json.loads(files["kubelet.json"])["containerRuntimeEndpoint"])
    )
    assert f"{plugin['cni']['conf_dir']}/10-bridge.conflist" == (
        f"{layout.HOME}/{layout.SETTINGS}/cni/10-bridge.conflist"
    )


def test_the_dns_server_has_every_configured_plugin() -> None:
    main = (ROOT / "e2e" / "dns" / "main.go").read_text(encoding="utf-8")
    directives = re.search(r"Directives = \[\]string\{(.+)\}", main)
    assert directives is not None
    used = re.findall(r"(?m)^    (\w+)", FILES["Corefile"])
    assert used == ["bind", "errors", "ready", "kubernetes"]
    assert set(used) <= set(re.findall(r'"(\w+)"', directives[1]))


def test_pods_and_the_command_use_the_same_dns_server() -> None:
    kubelet = json.loads(FILES["kubelet.json"])
    assert kubelet["clusterDNS"] == [layout.NODE_ADDRESS]
    assert f"nameserver {layout.NODE_ADDRESS}\n" in FILES["resolv.conf"]
    assert f"bind {layout.NODE_ADDRESS}\n" in FILES["Corefile"]


def test_address_ranges_do_not_overlap() -> None:
    services = ipaddress.ip_network(layout.SERVICE_RANGE)
    pods = ipaddress.ip_network(layout.POD_RANGE)
    cluster = ipaddress.ip_network(programs.PROXY_FLAGS["cluster-cidr"])
    node = ipaddress.ip_address(layout.NODE_ADDRESS)
    assert isinstance(pods, ipaddress.IPv4Network)
    assert isinstance(cluster, ipaddress.IPv4Network)
    assert pods.subnet_of(cluster)
    assert not services.overlaps(cluster)
    assert node not in services
    assert node not in cluster
    assert f"https://{next(services.hosts())}:443" == server.SERVICE


def test_programs_start_after_their_dependencies() -> None:
    names = [program.name for program in PROGRAMS]
    assert tuple(names[:3]) == programs.FIRST
    assert names[-1] == programs.LAST
    assert len(set(names)) == len(names) == 8


def test_only_controllers_for_several_machines_are_disabled() -> None:
    chosen = programs.CONTROLLER_FLAGS["controllers"].split(",")
    assert chosen[0] == "*"
    assert {name for name in chosen[1:] if not name.startswith("-")} == set()
    assert len(chosen) == 4


def test_the_dns_servers_permissions_belong_to_its_user() -> None:
    objects = {each["kind"]: each for each in list_first_objects()}
    users = {program: name for program, name, _ in settings.USERS}
    assert [each["name"] for each in objects["ClusterRoleBinding"]["subjects"]] == [users["dns"]]
    role = objects["ClusterRole"]["metadata"]["name"]
    assert objects["ClusterRoleBinding"]["roleRef"]["name"] == role


def test_a_volume_has_the_default_storage_class() -> None:
    classes = [each for each in list_first_objects() if each["kind"] == "StorageClass"]
    assert [each["metadata"]["name"] for each in classes] == [layout.STORAGE_CLASS]
    volume = describe_volume("shelf", "1Gi")
    assert volume["spec"]["storageClassName"] == layout.STORAGE_CLASS
    assert volume["spec"]["hostPath"]["path"] == f"{layout.HOME}/volumes/shelf"
    assert layout.VOLUMES == f"{layout.STATE}/volumes"


@pytest.mark.parametrize(
    ("conditions", "taints", "expected"),
    [
        ([("Ready", "True")], None, True),
        ([("MemoryPressure", "False"), ("Ready", "True")], [], True),
        ([("Ready", "True")], [{"key": "node.kubernetes.io/not-ready"}], False),
        ([("Ready", "Unknown")], None, False),
        ([("MemoryPressure", "True")], None, False),
        ([], None, False),
    ],
)
def test_a_node_is_ready_if_its_condition_is_true_and_no_taint_repels_pods(
    conditions: list[tuple[str, str]], taints: list[dict[str, str]] | None, expected: bool
) -> None:
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    node = {"status": {"conditions": listed}, "spec": {"taints": taints} if taints else {}}
    assert server.is_ready(node) is expected
