"""Files generated from the models, CRDs and pages, are up to date and can be regenerated."""

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from chart import render_template
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.disruptions import Disruption
from strandline_api.schema.crd import attempt_definition, pipeline_definition
from strandline_api.schema.openapi import nodes
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType, Reason

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "crds" / "generate.py"
CRDS = {
    "crds/strandline.dev_curationpipelines.yaml": pipeline_definition(),
    "crds/strandline.dev_curationattempts.yaml": attempt_definition(),
}
PAGES = ("docs/api.md", "docs/failures.md")
CHARTS = "charts/strandline"
SCHEMA = f"{CHARTS}/values.schema.json"
CHART = (
    *(f"{CHARTS}/templates/{name}" for name in CRDS),
    f"{CHARTS}/README.md",
    f"{CHARTS}/values.yaml",
    SCHEMA,
)

Main = Callable[[list[str], Path], int]


@pytest.fixture
def main() -> Main:
    found: Main = runpy.run_path(str(GENERATOR))["main"]
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the repository's generated files."""
    for name in (*CRDS, *PAGES, *CHART):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_file_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", CRDS)
def test_a_definition_is_written_unchanged(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text.startswith("# Made by `python crds/generate.py`")
    assert "&id" not in text
    assert yaml.safe_load(text) == CRDS[name]


# A text in the generated part of each file. People write the rest of these files.
WORDS = {"docs/failures.md": "| cause |", SCHEMA: "Number of retries since"}


@pytest.mark.parametrize("name", [*CRDS, *PAGES, *CHART])
def test_a_stale_file_is_reported_and_regenerated(
    main: Main, copy: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], copy) == 0
    stale, word = copy / name, WORDS.get(name, "pipeline")
    text = stale.read_text(encoding="utf-8")
    assert word in text
    stale.write_text(text.replace(word, "pipe"), encoding="utf-8")

    assert main(["--check"], copy) == 1
    told = f"{stale.name} is out of date; run: python crds/generate.py\n"
    assert capsys.readouterr().err == told

    assert main([], copy) == 0
    assert stale.read_text(encoding="utf-8") == (ROOT / name).read_text(encoding="utf-8")


def test_the_values_and_their_page_follow_from_the_schema(main: Main, copy: Path) -> None:
    schema = json.loads((copy / SCHEMA).read_text(encoding="utf-8"))
    added = {"description": "How loud.", "type": "integer", "default": 7}
    schema["properties"]["loudness"] = added
    (copy / SCHEMA).write_text(json.dumps(schema), encoding="utf-8")
    assert main([], copy) == 0
    values = (copy / CHARTS / "values.yaml").read_text(encoding="utf-8")
    assert "# How loud.\nloudness: 7\n" in values
    page = (copy / CHARTS / "README.md").read_text(encoding="utf-8")
    assert "| `loudness` | integer | `7` | How loud. |" in page


@pytest.mark.parametrize("text", ["kind: A\n", "\nmetadata:\n  name: a\n# {{ .Values }}\n"])
def test_a_definition_with_helm_syntax_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="one name, and no braces"):
        render_template(text)


def test_a_missing_file_is_generated(main: Main, copy: Path) -> None:
    (copy / "docs" / "api.md").unlink()
    assert main(["--check"], copy) == 1
    assert main([], copy) == 0
    assert main(["--check"], copy) == 0


def test_the_text_around_the_tables_is_kept(main: Main, copy: Path) -> None:
    page = copy / "docs" / "failures.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\nMore.\n", encoding="utf-8")
    assert main(["--check"], copy) == 0


def rows_of(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_every_cause_reason_condition_and_event_is_explained() -> None:
    explained = [row[0].strip("`") for row in rows_of("failures.md")]
    for words in (Cause, Disruption, Reason, ConditionType, EventReason):
        for word in words:
            assert word.value in explained, word


def test_every_row_has_as_many_cells_as_its_title() -> None:
    titles = {"cause", "condition", "disruption", "event", "exit code", "field", "reason"}
    titles |= {"message", "source", "symptom", "you have"}  # hand-written tables
    for page in ("api.md", "failures.md"):
        width = 0
        for row in rows_of(page):
            width = len(row) if set(row) == {"---"} else width
            assert len(row) == width or row[0] in titles, row


def count_fields(definition: dict[str, Any]) -> int:
    """Count the fields of spec and status. Entries of lists and maps are not fields."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    paths = [path for path, _ in nodes(schema) if path.startswith(("spec.", "status."))]
    return sum(not path.endswith(("[]", "{}")) for path in paths)


def test_the_reference_has_every_field_once() -> None:
    rows = [row for row in rows_of("api.md") if row[0].startswith("`")]
    assert len(rows) == count_fields(pipeline_definition()) + count_fields(attempt_definition())
    assert all(row[3].endswith((".", "'")) for row in rows)
    assert ["`runId`", "text", "`first`"] in [row[:3] for row in rows]
    assert ["`use`", "text", "required"] in [row[:3] for row in rows]
    assert ["`ledger.accessMode`", "`ReadWriteOnce`, `ReadWriteOncePod`", "`ReadWriteOnce`"] in [
        row[:3] for row in rows
    ]
