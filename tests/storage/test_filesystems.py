"""The file system of a path is found in mount tables as kernels print them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.storage.errors import VolumeError
from strandline.storage.filesystems import (
    JUDGEMENTS,
    UNKNOWN,
    explain_unsafe,
    find_filesystem,
    is_synced_whole,
    judge,
    read_mounts,
)
from strandline.storage.layout import make_folder

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
MOUNTS = r"""
21 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/l:/x,upperdir=/u
22 21 0:5 / /proc rw,nosuid,nodev,noexec shared:12 - proc proc rw
23 21 254:1 /data /data rw,relatime shared:1 master:3 - ext4 /dev/vda1 rw
24 23 0:46 / /data/nfs rw,relatime shared:90 - nfs4 10.0.0.7:/export rw,vers=4.2
25 23 0:47 / /data/bucket rw,nosuid,nodev - fuse.s3fs s3fs rw,user_id=0
26 21 0:48 / /mnt/host rw,relatime - 9p hostshare rw,trans=virtio
27 21 0:49 / /mnt/my\040share rw - cifs //server/my\040share rw
28 21 0:50 / /mnt/back\134slash rw - nfs server:/x rw
29 21 254:2 / /mnt/données rw - xfs /dev/vdb rw
30 21 0:51 / /twice rw - nfs server:/y rw
31 21 254:3 / /twice rw - ext4 /dev/vdc rw
a line that is no mount
32 21 0:52 /
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "overlay"),
        ("/home/me/ledger", "overlay"),
        ("/data", "ext4"),
        ("/data/team/clips/ledger", "ext4"),
        ("/database", "overlay"),  # not inside /data
        ("/data/nfs", "nfs4"),
        ("/data/nfs/deep/down", "nfs4"),
        ("/data/nfs2", "ext4"),
        ("/data/bucket/x", "fuse.s3fs"),
        ("/mnt/host/x", "9p"),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/back\\slash", "nfs"),
        ("/mnt/données/x", "xfs"),
        ("/twice/x", "ext4"),  # the later mount hides the earlier
        ("/mnt", "overlay"),
    ],
)
def test_a_path_is_on_the_innermost_mount(path: str, kind: str) -> None:
    assert kind == find_filesystem(path, MOUNTS)


def test_a_path_outside_of_every_mount_is_unknown() -> None:
    assert "unknown" == find_filesystem("/data", "")


def test_names_that_are_not_utf8_are_compared_unchanged() -> None:
    """`read_mounts` and the paths of a process decode such names in the same way."""
    name = b"/mnt/\xff\xfe".decode("utf-8", "surrogateescape")
    assert "nfs" == find_filesystem(f"{name}/x", f"1 0 0:1 / {name} rw - nfs s:/ rw")


@given(st.text(st.characters(exclude_characters="/\0"), min_size=1))
def test_every_name_of_a_mount_point_is_found_under_its_escapes(name: str) -> None:
    escaped = name.replace("\\", "\\134")
    for blank in " \t\n":
        escaped = escaped.replace(blank, f"\\{ord(blank):03o}")
    # The kernel escapes these four characters. Other Unicode line ends do not end a line of its
    # table.
    mounts = f"1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /m/{escaped} rw - nfs s:/ rw\n"
    assert "nfs" == find_filesystem(f"/m/{name}/ledger", mounts)


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "fuse.s3fs", "fuse.gcsfuse", "fuseblk"),
        *("ceph", "fuse.ceph-fuse", "beegfs", "gpfs", "lustre", "virtiofs", "ocfs2", "wekafs"),
    ],
)
def test_a_ledger_is_refused_on_file_systems_with_unreliable_maps(
    tmp_path: Path, kind: str
) -> None:
    reason = explain_unsafe(tmp_path / "ledger", f"1 0 0:1 / / rw - {kind} what rw")
    assert reason is not None
    assert reason.startswith(f"{tmp_path}/ledger: the ledger can't be stored on {kind}: ")
    assert "\n" not in reason


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs"])
def test_a_ledger_may_live_on_a_local_disk(tmp_path: Path, kind: str) -> None:
    assert explain_unsafe(tmp_path, f"1 0 0:1 / / rw - {kind} what rw") is None


def test_each_type_is_judged_once() -> None:
    kinds = [kind for judgement in JUDGEMENTS for kind in judgement.kinds]
    assert sorted(set(kinds)) == sorted(kinds)
    assert all(judge(kind).kinds.count(kind) == 1 for kind in kinds)
    assert judge("fuse.anything") == judge("fuse")
    assert UNKNOWN == judge("fusefs2") == judge("ext") == judge("")


def format_judgements() -> str:
    """Return all judgements as a Markdown table."""
    lines = ["| file system | types | ledger | reason |", "|---|---|---|---|"]
    for name, kinds, is_safe, reason in (*JUDGEMENTS, UNKNOWN):
        types = ", ".join(f"`{kind}*`" if kind.endswith(".") else f"`{kind}`" for kind in kinds)
        verdict = "accepted" if is_safe else "rejected"
        lines.append(f"| {name} | {types or '–'} | {verdict} | {reason} |")
    return "\n".join(lines) + "\n"


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- table: filesystems -->\n", "<!-- end -->"
    assert format_judgements() == page.partition(begin)[2].partition(end)[0]


def test_links_are_followed_to_the_real_file_system(tmp_path: Path) -> None:
    real = tmp_path / "share"
    real.mkdir()
    link = tmp_path / "ledger"
    link.symlink_to(real)
    mounts = f"1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / {real.resolve()} rw - nfs4 s:/ rw"
    reason = explain_unsafe(link, mounts)
    assert reason is not None
    assert reason.startswith(f"{link}: ")


def test_the_table_of_this_host_can_be_read() -> None:
    assert "proc" == find_filesystem("/proc/self", read_mounts())


@pytest.mark.parametrize(
    ("kind", "kernel", "is_synced"),
    [
        ("ext4", "6.1.0-18-amd64", True),
        ("xfs", "5.8.0", True),
        ("btrfs", "5.15.167.4-microsoft-standard-WSL2", True),
        ("ext4", "5.4.0-150-generic", False),
        ("ext4", "4.19.0", False),
        ("nfs4", "6.1.0", False),
        ("overlay", "6.1.0", False),
        ("fuse.juicefs", "6.1.0", False),
    ],
)
def test_a_file_system_is_synced_as_a_whole_if_errors_are_reported(
    tmp_path: Path, kind: str, kernel: str, *, is_synced: bool
) -> None:
    assert is_synced == is_synced_whole(tmp_path, f"1 0 0:1 / / rw - {kind} what rw", kernel)


@pytest.mark.parametrize(
    ("flags", "told"),
    [(os.ST_RDONLY, "the volume is mounted read-only"), (0, "no permission to write")],
)
def test_a_read_only_volume_is_distinguished_from_missing_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, told: str
) -> None:
    """The superuser may write anywhere else, so only the mount's flags show the reason."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    with pytest.raises(VolumeError, match=told):
        make_folder(tmp_path)
