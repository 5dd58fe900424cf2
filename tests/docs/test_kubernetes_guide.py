"""A driver accepts the pipelines of the Kubernetes guide, and every command of the guide is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from command_server import execute_command
from guide import Command, Cue, File, is_shown, mask, read_guide
from strandline_api.documents.documents import parse_pipeline
from strandline_api.spec.namespace_defaults import RayDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.spec.storage import OutputStorage
from strandline_operator.reconcile.caches.namespaces.defaults import parse_part

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "cluster-settings.md").read_text(encoding="utf-8")
STEPS = list(read_guide(GUIDE))
FILES = {step.name: step.text for step in STEPS if isinstance(step, File)}
WRONG = "misspelt.yaml"
REFUSED = "nameless.yaml"  # the API server rejects it, and so does `validate`
# Pipelines that read another pipeline's output, and that pipeline, which the guide applies first.
READ = {"tokens.yaml": "pipeline.yaml"}
MODULES = {name for name in FILES if name.endswith(".py")}


def validate(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    beside = [READ[name]] if name in READ else []
    for file in (name, *beside, *MODULES):
        (folder / file).write_text(FILES[file], encoding="utf-8")
    script = Path(sys.executable).parent / "strandline"
    return execute_command([script, "validate", name, *beside], cwd=folder)


@pytest.mark.parametrize("name", sorted(FILES.keys() - MODULES - {WRONG, REFUSED}))
def test_a_driver_takes_the_pipeline(name: str, tmp_path: Path) -> None:
    done = validate(tmp_path, name)
    assert done.returncode == 0, done.stderr


def test_a_misspelled_field_gives_the_message_of_the_guide(tmp_path: Path) -> None:
    done = validate(tmp_path, WRONG)
    shown = re.findall(r"^```text\n(strandline: error.*?)```$", GUIDE, re.MULTILINE | re.DOTALL)
    assert (done.returncode, [done.stderr]) == (64, shown)


def test_a_rejected_pipeline_gives_the_message_of_the_guide(tmp_path: Path) -> None:
    done = validate(tmp_path, REFUSED)
    (problem,) = re.findall(r"^(spec\.ray\.podTemplate.*)$", GUIDE, re.MULTILINE)
    assert done.returncode == 64
    assert problem in done.stderr


def test_every_command_shows_what_it_prints_and_every_file_is_applied() -> None:
    commands = [step for step in STEPS if isinstance(step, Command)]
    silent = [command.line for command in commands if not command.output]
    assert all(line.startswith("sed ") or " > " in line for line in silent)
    lines = [command.line for command in commands]
    for name in FILES.keys() - MODULES:
        assert f"kubectl apply -f {name}" in lines
    for name in MODULES:
        assert any(f"--from-file={name}" in line for line in lines)
    assert any(isinstance(step, Cue) for step in STEPS)


def test_every_kubectl_line_of_the_guide_is_run() -> None:
    """Every `kubectl` line is in a block that the tests read, whatever the block's language."""
    run = {step.line for step in STEPS if isinstance(step, Command)}
    blocks = re.findall(r"^```\w+\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    typed = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert {line for line in typed if line.startswith("kubectl ")} <= run


@pytest.mark.parametrize(
    ("shown", "seen", "fits"),
    [
        ("a  1m2s\n", "a    5m\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("at 10:31:05\n", "at 09:00:00\n", True),
        ("a Running\n", "a Failed\n", False),
        ("", "something\n", False),
        ("16Gi\n", "12Gi\n", False),
    ],
)
def test_only_varying_text_is_masked(shown: str, seen: str, *, fits: bool) -> None:
    assert is_shown(mask(shown), mask(seen)) is fits


def test_a_guide_is_read_in_order() -> None:
    text = "# g\n```yaml\n# a.yaml\nx: 1\n```\n<!-- cue: b -->\n```console\n$ c\nd\n$ e > f\n```\n"
    assert list(read_guide(text)) == [
        File("a.yaml", "# a.yaml\nx: 1\n"),
        Cue("b"),
        Command("c", "d\n"),
        Command("e > f", ""),
    ]


@pytest.mark.parametrize(
    ("line", "is_question"),
    [
        ("kubectl get cpipe", True),
        ("kubectl get cpipe -o yaml > a", False),
        ("kubectl apply", False),
    ],
)
def test_only_queries_are_repeated(line: str, *, is_question: bool) -> None:
    assert Command(line, "").is_question is is_question


def test_every_pipeline_that_the_guide_does_not_apply_is_valid() -> None:
    blocks = re.findall(r"^```yaml\n(apiVersion: .*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    documents = [yaml.safe_load(block) for block in blocks]
    pipelines = [each for each in documents if each["kind"] == "CurationPipeline"]
    assert {each["metadata"]["name"] for each in pipelines} >= {"nightly"}
    for document in pipelines:
        parse_pipeline(document)


def test_the_shown_namespace_defaults_are_valid() -> None:
    shown = re.findall(r"^```yaml\n(apiVersion: v1\n.*?)^```$", SETTINGS, re.MULTILINE | re.DOTALL)
    (block,) = shown
    body = yaml.safe_load(block)
    for key, model in (("retry", RetryPolicy), ("ray", RayDefaults), ("output", OutputStorage)):
        part, message = parse_part(body, key, model)
        assert message == ""
        assert part != model()
