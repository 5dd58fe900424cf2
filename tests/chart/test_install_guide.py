"""The steps of docs/install.md, followed in a cluster without nodes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart_cluster import DEFINITIONS, ChartCluster
from helm_program import CHART, ROOT, Helm
from uninstall_player import play_uninstalls

Json = dict[str, Any]
GUIDE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)( nodes)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w-]+\.yaml)\n")
BLOCKS = [(found[1], bool(found[2]), found[3]) for found in BLOCK.finditer(GUIDE)]
VALUE = re.compile(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)*)`")


def test_every_block_of_the_guide_is_tested() -> None:
    assert GUIDE.count("```") == 2 * len(BLOCKS)
    assert {language for language, _, _ in BLOCKS} == {"sh", "yaml"}
    assert all(FILE.match(body) for language, _, body in BLOCKS if language == "yaml")
    assert [body for _, needs_nodes, body in BLOCKS if needs_nodes] == [
        "kubectl --namespace strandline rollout status deployment/strandline\n"
        "helm test strandline --namespace strandline\n"
    ]


def test_every_value_in_the_table_exists_in_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in VALUE.findall(row)]
    found = [name for name in named if name not in {"view", "edit", "admin"}]
    assert len(found) >= 5
    for name in found:
        place: Any = values
        for part in name.split("."):
            assert part in place, name
            place = place[part]


@pytest.fixture
def reader(
    cluster_helm: Helm, clean_cluster: ChartCluster, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """Return the environment of a reader who has helm, kubectl, and a copy of the repository."""
    for name in ("charts", "crds"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(cluster_helm.program)
    (tmp_path / "bin" / "kubectl").symlink_to(clean_cluster.kubectl)
    yield {
        **cluster_helm.environment,
        "PATH": f"{tmp_path / 'bin'}:{cluster_helm.environment['PATH']}",
        "HOME": str(tmp_path),
    }
    for name in ("speech", "video", "team"):
        clean_cluster.client.delete("Namespace", name)


def follow_block(body: str, reader: dict[str, str], folder: Path) -> None:
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", body],
        env=reader,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{body}\n{done.stdout}{done.stderr}"


def test_the_guide_works_from_start_to_end(
    reader: dict[str, str], clean_cluster: ChartCluster, tmp_path: Path
) -> None:
    with play_uninstalls(clean_cluster):
        for language, needs_nodes, body in BLOCKS:
            if language == "yaml":
                (tmp_path / body.split("\n", 1)[0].removeprefix("# ")).write_text(body, "utf-8")
            elif not needs_nodes:
                follow_block(body, reader, tmp_path)
    for plural in ("curationpipelines", "curationattempts"):
        found = clean_cluster.read(f"{DEFINITIONS}/{plural}.strandline.dev")
        assert found is None or "deletionTimestamp" in found["metadata"]
