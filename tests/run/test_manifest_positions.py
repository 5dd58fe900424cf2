"""Error messages about a manifest name the file and the line."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from strandline.run.manifest.manifest import read_manifest
from strandline_api.documents.problems import SpecError

MANIFEST = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: first}
spec:
  source: {use: files, with: {paths: [in/*]}}
  stages:
    - use: read-files
  sink: {use: jsonl}
---
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata:
  name: second
spec:
  source:
    use: files
    with:
      paths: [in/*]
  stages:
    - use: read-files
    - use: keep-rows
      with:
        where: "n > 1"
  sink: {use: jsonl}
""".lstrip()


def find_problem(path: Path, *settings: str) -> str:
    with pytest.raises(SpecError) as caught:
        read_manifest(path, settings)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("before", "after", "line", "path"),
    [
        ("use: keep-rows", "use: keep-row", 21, "spec.stages[1].use"),
        ("        where:", "        were: 1\n        where:", 23, "spec.stages[1].with.were"),
        ('where: "n > 1"', "where: 5", 23, "spec.stages[1].with.where"),
        ("      paths: [in/*]\n  stages", "      limit: 1\n  stages", 17, "spec.source.with.paths"),
    ],
)
def test_a_problem_has_the_line_of_its_document(
    tmp_path: Path, before: str, after: str, line: int, path: str
) -> None:
    file = tmp_path / "both.yaml"
    assert before in MANIFEST
    file.write_text(MANIFEST.replace(before, after))
    assert find_problem(Path(f"{file}#second")).startswith(f"{file}:{line}: {path}: ")


def test_a_problem_of_a_setting_has_no_line(tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text(MANIFEST)
    for setting in ("stages.1.use=keep-row", 'spec.stages[1]["use"]=keep-row'):
        assert find_problem(Path(f"{file}#second"), setting).startswith("spec.stages[1].use: ")


def test_a_setting_of_one_item_leaves_the_lines_of_others(tmp_path: Path) -> None:
    """`stages.1` in a setting must not match `stages.10`."""
    item = "    - {{use: keep-rows, name: n{0}, with: {{where: size > {0}}}}}\n"
    more = "".join(item.format(number) for number in range(9))
    text = MANIFEST.partition("---\n")[2].replace("  sink:", f"{more}  sink:")
    file = tmp_path / "pipeline.yaml"
    file.write_text(text.replace("where: size > 8", "where: 5"))
    problem = find_problem(file, "stages.1.with.where=size > 1")
    assert problem.startswith(f"{file}:23: spec.stages[10].with.where: ")


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    """A second read would wait for another writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = MANIFEST.partition("---\n")[2].replace("use: keep-rows", "use: keep-row")
    writer = Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    assert find_problem(pipe).startswith("spec.stages[1].use: ")
    writer.join()


def test_a_manifest_of_an_operator_has_no_lines(tmp_path: Path) -> None:
    """Users never see the file that an operator writes for a driver."""
    file = tmp_path / "pipeline.yaml"
    stored = "metadata:\n  annotations: {strandline.dev/stored: 'true'}\n"
    text = MANIFEST.partition("---\n")[2].replace("metadata:\n", stored)
    file.write_text(text.replace("use: keep-rows", "use: keep-row"))
    assert find_problem(file).startswith("spec.stages[1].use: ")
