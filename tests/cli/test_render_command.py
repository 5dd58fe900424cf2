"""`strandline render` prints the operator's objects, which the operator's own program renders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "spot.yaml"


def render(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "strandline", "render", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_the_objects_of_an_attempt_are_printed_without_a_cluster() -> None:
    done = render(str(EXAMPLE))
    assert (done.returncode, done.stderr) == (0, "")
    (*_, rayjob) = yaml.safe_load_all(done.stdout)
    (group,) = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["template"]["spec"]["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}


def test_a_fallback_of_a_group_is_printed_from_standard_input() -> None:
    done = render("-", "--on-demand", "cpu", text=EXAMPLE.read_text("utf-8"))
    (*_, rayjob) = yaml.safe_load_all(done.stdout)
    (group,) = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert "nodeSelector" not in group["template"]["spec"]


def test_invalid_files_get_a_clear_error_and_exit_code(tmp_path: Path) -> None:
    text = EXAMPLE.read_text("utf-8").replace("preset: gke", "preset: gcp")
    path = tmp_path / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    done = render(str(path))
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == (
        "strandline render: spec.ray.workerGroups[0].spot.preset: must be 'gke', 'eks', "
        "'karpenter' or 'aks', not 'gcp'\n"
    )
