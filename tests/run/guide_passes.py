"""The pipelines of the guide on duplicates, with one page per file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

GUIDE = Path(__file__).parents[2] / "docs/duplicates.md"

Document = dict[str, Any]


def read_guide(*files: str, only_touched: bool = False) -> list[Document]:
    """Return pipelines of the guide by file name. Rows of removed pages are set to be deleted.

    The test finds exact duplicates instead of near duplicates, which saves time.

    Args:
        files: names of files in the guide.
        only_touched: True to link again only partitions with rows of the current day.
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
    """Write one file per page."""
    for key, text in texts.items():
        path = folder / f"pages-{key}.jsonl"
        path.write_text(json.dumps({"key": key, "text": text}))
