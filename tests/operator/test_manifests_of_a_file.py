"""Manifests rendered from a pipeline file without a cluster, mainly from the spot node example."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from strandline_operator.__main__ import main
from strandline_operator.commands.manifests import RenderError, render_attempt
from strandline_operator.model.limits import Limits
from strandline_operator.render.pods.spot import PRESETS
from test_render import pods_of
from test_spot_placement import NODES, fits

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "spot.yaml"
Json = dict[str, Any]


def read_example() -> Json:
    document: Json = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    return document


def render(document: Json, *on_demand: str) -> Json:
    return render_attempt(document, on_demand, Limits())[-1]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_example_is_rendered_with_each_preset(preset: str) -> None:
    document = read_example()
    (group,) = document["spec"]["ray"]["workerGroups"]
    group["spot"]["preset"] = preset
    spot, taint, regular = NODES[preset]
    pods = pods_of(render(document))
    assert fits(pods["cpu"]["spec"], spot, taint)
    assert not fits(pods["cpu"]["spec"], regular)
    assert fits(pods["head"]["spec"], regular)
    assert not fits(pods["head"]["spec"], spot, taint)
    fallen = pods_of(render(document, "cpu"))
    assert fits(fallen["cpu"]["spec"], regular)
    assert not fits(fallen["cpu"]["spec"], spot, taint)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["render", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_program_prints_all_objects(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, str(EXAMPLE))
    assert (code, err) == (0, "")
    kinds = [body["kind"] for body in yaml.safe_load_all(out)]
    assert kinds == ["ConfigMap", "RayJob"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "while parsing"),
        ("", "must contain one pipeline, not 0"),
        ("a: 1", "apiVersion"),
        (None, "No such file"),
    ],
)
def test_an_invalid_file_gets_a_sentence(
    text: str | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipeline.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    code, out, err = run(capsys, str(path))
    assert (code, out) == (64, "")
    assert complaint in err
    assert "Traceback" not in err


def test_settings_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STRANDLINE_RUNTIME_IMAGE", "registry.example/runtime:1")
    assert "registry.example/runtime:1" in run(capsys, str(EXAMPLE))[1]
    monkeypatch.setenv("STRANDLINE_PRE_RUNNING", "soon")
    code, _, err = run(capsys, str(EXAMPLE))
    assert code == 64
    assert "STRANDLINE_PRE_RUNNING" in err


def test_an_unknown_group_can_not_fall_back() -> None:
    with pytest.raises(RenderError, match="must be one of head, cpu, not 'gpu'"):
        render(read_example(), "gpu")


def test_references_that_need_a_cluster_are_rejected() -> None:
    document = copy.deepcopy(read_example())
    document["spec"]["source"]["with"]["paths"] = [{"pipeline": "crawl"}]
    with pytest.raises(
        RenderError, match=r"the output location of 'crawl' is known only on a cluster"
    ):
        render(document)


def test_the_drivers_document_omits_spot_settings() -> None:
    config = render_attempt(read_example(), (), Limits())[0]
    assert "ray" not in json.loads(config["data"]["pipeline.yaml"])["spec"]
