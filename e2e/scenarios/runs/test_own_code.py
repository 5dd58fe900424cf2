"""A user's own stages run on a real node, with the unmodified image."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.pipelines import OUTPUT, STAGES
from proving_ground.results.figures import Figures
from proving_ground.story import Story

COUNT = 12
MAP = "mystages"
FOLDER = "brought"  # folder on the claim that all pods mount
PHASES = """
import moonlike
from strandline import Stage, Task


class Phase(Stage):
    def process(self, task: Task) -> Task:
        return task.replace(f"{task.data} {moonlike.PHASE}")
"""
ABOUT = {
    "moonlike.py": "PHASE = 'waxing'\n",
    "moonlike-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: moonlike\nVersion: 2.0\n",
    "moonlike-2.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "moonlike-2.0.dist-info/RECORD": "",
}


def render(ground: Ground, name: str, code: Json) -> Json:
    """Render a pipeline that installs its stages through `code` instead of a mount."""
    pipeline = ground.render(name)
    spec = pipeline["spec"]
    spec["code"] = code
    spec["source"]["with"]["count"] = COUNT
    for node in (spec["ray"]["head"], *spec["ray"]["workerGroups"]):
        pod = node["podTemplate"]["spec"]
        del pod["volumes"]
        for container in pod["containers"]:
            del container["volumeMounts"], container["env"]
    return pipeline


def render_map(text: str) -> Json:
    """Render the ConfigMap as `kubectl create configmap mystages --from-file=tide.py` does."""
    metadata = {"name": MAP}
    data = {STAGES.name: text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_own_code_in_a_configmap(ground: Ground, figures: Figures) -> None:
    story, text = Story(ground.kube, "own"), STAGES.read_text(encoding="utf-8")
    story.begin(render(ground, "own", {"configMap": MAP}))
    story.wait_until(
        "the condition says that the ConfigMap is not there",
        lambda: story.condition("Succeeded").get("reason") == "CodeMissing",
        60,
    )
    assert story.attempts == []
    figures.note_end("the ConfigMap with the code is not there", "CodeMissing")
    ground.kube.apply(render_map(text))
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.status["progress"]["finished"] == COUNT
    copy = ground.kube.find("configmap", "own-1-code") or {}
    assert (copy["data"], copy["immutable"]) == ({STAGES.name: text}, True)
    assert f"verified: {COUNT} finished sources" in ground.verify(story)
    # Changed code is a changed recipe, which the ledger rejects by default.
    ground.kube.apply(render_map(f"{text}\n# edited\n"))
    ground.kube.call("patch", "cpipe", "own", "--type=merge", "-p", '{"spec": {"runId": "second"}}')
    assert story.wait_for_cause(2, 400) == "LedgerMismatch", story.describe()
    assert "code.files" in json.dumps(story.attempt(2)["status"]), story.describe()
    assert ground.kube.find("configmap", "own-1-code") == copy


@pytest.mark.extended
def test_own_code_in_an_archive_with_packages(ground: Ground, figures: Figures) -> None:
    if ground.output.folder is None:
        pytest.skip("the archive is put into a folder of the node")
    code = put_code(ground.output.folder / FOLDER)
    pipeline = render(ground, "moons", code)
    pipeline["spec"]["stages"].append({"use": "moons:Phase"})
    story = Story(ground.kube, "moons")
    story.begin(pipeline)
    assert story.wait_for_end()["status"] == "True", story.describe()
    written = {path.read_text() for path in ground.output.folder.rglob("*.txt")}
    assert written == {f"{number} waxing\n" for number in range(COUNT)}
    refuse(ground, pipeline, "digest", {"archive": code["archive"] | {"sha256": "0" * 64}})
    refuse(ground, pipeline, "version", {"packages": ["moonlike==3.0"]})
    figures.note_end("the code can't be had", "InvalidSpec")


def put_code(folder: Path) -> Json:
    """Write an archive and a wheel to a folder that pods mount, and return the `code` field."""
    (folder / "wheels").mkdir(parents=True)
    with zipfile.ZipFile(folder / "code.zip", "w") as packed:
        packed.write(STAGES, f"moons-1/src/{STAGES.name}")
        packed.writestr("moons-1/src/moons.py", PHASES)
    with zipfile.ZipFile(folder / "wheels/moonlike-2.0-py3-none-any.whl", "w") as packed:
        for name, text in ABOUT.items():
            packed.writestr(name, text)
    digest = sha256((folder / "code.zip").read_bytes()).hexdigest()
    path = f"{OUTPUT}/{FOLDER}"
    return {
        "archive": {"url": f"{path}/code.zip", "sha256": digest, "path": "moons-1/src"},
        "packages": ["moonlike==2.0"],
        "wheels": f"{path}/wheels",
    }


def refuse(ground: Ground, pipeline: Json, words: str, changed: dict[str, Any]) -> None:
    """Check that the pipeline ends at its first attempt, with a message that names the problem."""
    spec = pipeline["spec"] | {"code": pipeline["spec"]["code"] | changed}
    story = Story(ground.kube, words)
    story.begin(pipeline | {"metadata": {"name": words}, "spec": spec})
    assert story.wait_for_end(300)["reason"] == "InvalidSpec", story.describe()
    message = story.attempt(1)["status"]["message"]
    assert message.startswith("spec.code."), message
    assert words in message
    assert len(story.attempts) == 1
