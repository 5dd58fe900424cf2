"""The pipelines of the guide on duplicates, with pages in a file each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

GUIDE = Path(__file__).parents[2] / "docs/duplicates.md"

Document = dict[str, Any]


def read_guide(*files: str, only_touched: bool = False) -> list[Document]:
    """The pipelines as files of the guide have them; pages that are gone take all along.

    Equal rows are found in the place of near ones: that takes no time.

    Args:
        only_touched: partitions that a day has rows of are linked anew, and no others.
    """
    documents: list[Document] = []
    for name in files:
        found = re.search(rf"```yaml\n# {name}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        assert found
        documents += yaml.safe_load_all(found[1].replace("pages.jsonl", "pages*.jsonl"))
    specs = {each["metadata"]["name"]: each["spec"] for each in documents}
    specs["signatures"]["stages"][1] = {"use": "digest-rows", "with": {"columns": ["text"]}}
    specs["pages"]["source"]["with"]["onRemoved"] = "Delete"
    specs["links"]["source"]["with"]["onlyTouched"] = only_touched
    return documents


def write_pages(folder: Path, **texts: str) -> None:
    """Write a file for each page."""
    for key, text in texts.items():
        path = folder / f"pages-{key}.jsonl"
        path.write_text(json.dumps({"key": key, "text": text}))
