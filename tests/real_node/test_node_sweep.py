"""A sweep finds and removes everything that a node leaves, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_node import cgroups, layout
from real_node.errors import NodeError
from real_node.outside import leftovers, lifetime

NAME = "strandline-node-0123456789"
CAT = shutil.which("cat") or "/bin/cat"
SLEEP = shutil.which("sleep") or "/bin/sleep"
NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@pytest.fixture
def hierarchies(tmp_path: Path) -> Path:
    """Return a folder like version 1 of cgroups: two hierarchies, and a link to one of them."""
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    (tmp_path / "cpuacct").symlink_to("cpu")
    return tmp_path


@given(st.sets(NAMES, max_size=12))
def test_children_are_removed_before_parents(names: set[str]) -> None:
    order = cgroups.order_for_removal(Path(name) for name in names)
    assert {str(path) for path in order} == names
    for place, path in enumerate(order):
        assert not any(later != path and later.is_relative_to(path) for later in order[place:])


def test_cgroups_are_created_in_every_hierarchy_and_can_be_joined(hierarchies: Path) -> None:
    for setting in cgroups.INHERITED:
        (hierarchies / "cpu" / setting).write_text("0-1\n")
    (hierarchies / "cpu" / NAME).mkdir()
    (hierarchies / "cpu" / NAME / "cpuset.cpus").write_text("\n")
    (hierarchies / "cpu" / NAME / "cpuset.mems").write_text("0\n")

    cgroups.make_cgroups(NAME, hierarchies)

    assert cgroups.list_cgroups(NAME, hierarchies) == [
        hierarchies / "cpu" / NAME,
        hierarchies / "memory" / NAME,
    ]
    assert (hierarchies / "cpu" / NAME / "cpuset.cpus").read_text() == "0-1\n"
    assert (hierarchies / "cpu" / NAME / "cpuset.mems").read_text() == "0\n"


@pytest.mark.parametrize(("setting", "usual"), [("cpu.shares", 1024), ("cpu.weight", 100)])
def test_pods_weigh_more_than_one_process_beside_them(
    hierarchies: Path, setting: str, usual: int
) -> None:
    (hierarchies / "cpu" / NAME).mkdir()
    (hierarchies / "cpu" / NAME / setting).write_text(str(usual))

    cgroups.make_cgroups(NAME, hierarchies)

    assert int((hierarchies / "cpu" / NAME / setting).read_text()) == 10 * usual


def test_version_2_has_one_hierarchy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "system.slice").mkdir()
    (tmp_path / "system.slice" / "cgroup.procs").touch()
    assert cgroups.list_hierarchies(tmp_path) == [tmp_path]


def test_a_sweep_removes_the_cgroups_of_one_name(hierarchies: Path) -> None:
    for name in (f"{NAME}/kubepods/pod1", "another/kubepods"):
        (hierarchies / "memory" / name).mkdir(parents=True)

    assert cgroups.sweep_cgroups(NAME, hierarchies) == []

    assert not (hierarchies / "memory" / NAME).exists()
    assert (hierarchies / "memory" / "another" / "kubepods").is_dir()


def test_a_sweep_kills_and_thaws_and_reports_remaining_processes(
    hierarchies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup = hierarchies / "memory" / NAME
    cgroup.mkdir()
    (cgroup / "freezer.state").write_text("FROZEN")
    with subprocess.Popen([SLEEP, "100"]) as process:
        (cgroup / "cgroup.procs").write_text(f"{process.pid}\n0\n")
        monkeypatch.setattr(cgroups, "WAIT_SECONDS", 0)

        assert cgroups.sweep_cgroups(NAME, hierarchies) == [cgroup]

        assert process.wait() == -signal.SIGKILL
    assert (cgroup / "freezer.state").read_text() == "THAWED"


def test_the_cgroups_name_depends_only_on_the_folder() -> None:
    one, other = layout.name_cgroup(Path("/a/node")), layout.name_cgroup(Path("/b/node"))
    assert one == layout.name_cgroup(Path("/a/node"))
    assert one != other


def test_only_mounts_within_the_folder_belong_to_it() -> None:
    line = "{} 1 0:5 / {} rw - tmpfs tmpfs rw"
    folders = ("/srv/node/state/x", "/srv/node", "/srv/node2", "/")
    lines = [line.format(number, folder) for number, folder in enumerate(folders)]
    found = leftovers.pick_mounts(lines, Path("/srv/node"))
    assert found == ["/srv/node/state/x", "/srv/node"]


def test_only_links_with_a_nodes_names_belong_to_it() -> None:
    lines = [
        "1: lo: <LOOPBACK,UP> mtu 65536",
        f"2: {layout.NODE_LINK}: <BROADCAST> mtu 1500",
        f"3: {layout.POD_LINK}@if2: <BROADCAST> mtu 1500",
        "4: cni0: <BROADCAST> mtu 1500",
    ]
    assert leftovers.pick_links(lines) == [layout.NODE_LINK, layout.POD_LINK]


def answer_once(process: subprocess.Popen[bytes]) -> None:
    """Return once a `cat` runs, because right after its start the kernel shows no environment."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"?")
    process.stdin.flush()
    assert process.stdout.read(1) == b"?"


def test_a_process_of_the_node_is_found_by_its_environment(tmp_path: Path) -> None:
    environment = {**os.environ, layout.FOLDER_VARIABLE: str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen([CAT, "-u"], env=environment, stdin=pipe, stdout=pipe) as process:
        answer_once(process)
        found = [*leftovers.list_processes(tmp_path, NAME)]
        elsewhere = [*leftovers.list_processes(tmp_path / "other", NAME)]
        process.kill()
    assert found == [f"{process.pid} {CAT} -u "]
    assert elsewhere == []


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, like a running node."""
    with lifetime.lock(folder):
        yield


def test_a_folder_has_one_node_at_a_time(tmp_path: Path) -> None:
    with held(tmp_path):
        for claim in (lifetime.sweep, lambda folder: lifetime.keep(folder, [])):
            with pytest.raises(NodeError, match="a node is already up in"):
                claim(tmp_path)
    with held(tmp_path):  # the lock ended with its holder
        pass


def test_a_sweep_removes_state_and_keeps_logs(tmp_path: Path) -> None:
    (tmp_path / layout.VOLUMES).mkdir(parents=True)
    (tmp_path / layout.LOG_FOLDER).mkdir()
    (tmp_path / layout.KUBECONFIG).touch()

    lifetime.sweep(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == {layout.LOG_FOLDER, layout.LOCK}


def test_sweeping_a_missing_folder_does_not_create_it(tmp_path: Path) -> None:
    lifetime.sweep(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_stopped_node_can_not_be_entered(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no node is up in"):
        lifetime.enter(tmp_path, ["true"])


@pytest.mark.parametrize(
    ("user", "folder", "expected"),
    [
        (0, "/run/node", "name a folder outside of it"),
        (0, "/var/log/node", "name a folder outside of it"),
        (1000, "/srv/node", "a node needs root"),
    ],
)
def test_an_unusable_user_or_folder_is_rejected(
    user: int, folder: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(NodeError, match=expected):
        lifetime.check_folder(Path(folder))


def test_child_processes_find_this_package_from_any_folder(tmp_path: Path) -> None:
    call = [*lifetime.build_call("leftovers"), "--folder", str(tmp_path)]
    done = subprocess.run(
        call,
        cwd=tmp_path,
        env=lifetime.describe_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("nothing is left\n", 0), done.stderr
