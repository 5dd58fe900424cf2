"""The passes of the guide on duplicates, day by day: pages change, and the kept set follows."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

GUIDE = Path(__file__).parents[2] / "docs/duplicates.md"
LAST = "unique-pages"
ONE, TWO, THREE = ("one " * 9 + "end", "two " * 9 + "end", "three " * 9 + "end")


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passes:
    monkeypatch.chdir(tmp_path)
    return Passes(tmp_path)


def read_guide() -> list[dict[str, Any]]:
    """The pipelines as the guide has them, with equal rows for near ones: that takes no time."""
    found = re.search(r"```yaml\n# near.yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found
    text = found[1].replace("pages.jsonl", "pages*.jsonl")
    documents = list(yaml.safe_load_all(text))
    (signing,) = [each for each in documents if each["metadata"]["name"] == "signatures"]
    signing["spec"]["stages"][1] = {"use": "digest-rows", "with": {"columns": ["text"]}}
    return documents


def write(folder: Path, **texts: str) -> None:
    """Write a file for each page."""
    for key, text in texts.items():
        path = folder / f"pages-{key}.jsonl"
        path.write_text(json.dumps({"key": key, "text": text}))


def run_all(passes: Passes) -> AttemptResult:
    for document in read_guide():
        spec = document["spec"]
        on_change = spec.get("onChange", "Fail")
        result = passes.run(document["metadata"]["name"], on_change, **spec)
        assert result.code is ExitCode.COMPLETE
        assert passes.find_problems(document["metadata"]["name"]) == []
    return result


def read(passes: Passes) -> str:
    return "".join(sorted(passes.read_rows(LAST, "key").elements()))


def test_a_page_that_was_a_copy_and_is_none_any_more_stays(passes: Passes) -> None:
    write(passes.folder, a=ONE, b=ONE, c=TWO)
    run_all(passes)
    assert read(passes) == "ac"
    write(passes.folder, b=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    assert passes.read_rows(LAST, "text") == Counter([ONE, TWO, THREE])
    assert run_all(passes).standing.finished == 0


def test_a_page_that_becomes_a_copy_goes(passes: Passes) -> None:
    write(passes.folder, a=ONE, b=TWO, c=THREE)
    run_all(passes)
    assert read(passes) == "abc"
    write(passes.folder, c=TWO)
    run_all(passes)
    assert read(passes) == "ab"


def test_a_page_whose_copy_went_elsewhere_comes_back(passes: Passes) -> None:
    """The one that stayed changes: its copy is alone now."""
    write(passes.folder, a=ONE, b=ONE)
    run_all(passes)
    write(passes.folder, a=TWO)
    run_all(passes)
    assert read(passes) == "ab"
    write(passes.folder, a=TWO, b=TWO, c=TWO)
    run_all(passes)
    assert read(passes) == "a"
