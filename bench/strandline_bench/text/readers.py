"""Compares Strandline's reader and decoder with datatrove's on pages with known text.

    python -m strandline_bench.text.readers [--write]

Both read the same WARC file with their own code for bodies and charsets. A page is correct if its
known sentence is decoded as written, so the result shows correctness, not agreement.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from strandline.plan.task import Task
from strandline_bench.engines.rivals.index import HOW_TO_INSTALL, find_rival
from strandline_bench.ground.document import write_table
from strandline_bench.ground.folders import ROOT
from strandline_bench.text.odd_crawl import OddPage, write_odd_crawl
from strandline_packs.web.page_charsets import decode_page
from strandline_packs.web.warc.read_warc import ReadWarc

DOCUMENT = ROOT / "docs" / "text.md"
# Decoded text with markup, by page address.
Texts = dict[str, str]


def read_ours(path: Path) -> Texts:
    """Read a WARC file with `read-warc`, and decode as `extract-text` does."""
    stage = ReadWarc()
    stage.setup()
    listed = pa.table({"key": ["odd"], "path": [str(path)], "start": [0], "stop": [None]})
    texts = {}
    for task in stage.process(Task(listed)):
        for row in task.table.to_pylist():
            texts[row["url"]] = decode_page(row["content"], row["charset"])
    return texts


def read_theirs(path: Path) -> Texts:
    """Read a WARC file with datatrove's reader, which also decodes."""
    from datatrove.pipeline.readers import WarcReader  # noqa: PLC0415 - may not be there

    reader = WarcReader(str(path.parent), glob_pattern=path.name)
    return {document.metadata["url"]: document.text for document in reader.run()}


def count_right(pages: Iterable[OddPage], texts: Texts) -> Counter[str]:
    """Return the number of correctly decoded pages by kind of oddity."""
    right: Counter[str] = Counter()
    for page in pages:
        right[name_oddity(page)] += page.sentence in texts.get(page.url, "")
    return right


def name_oddity(page: OddPage) -> str:
    """Return the name of the table row that counts a page."""
    if page.body != "plain":
        return f"body: {page.body}"
    return f"charset: told {page.charset}"


def format_rows(pages: list[OddPage], readers: dict[str, Counter[str]]) -> str:
    """Format the table in Markdown."""
    totals = Counter(map(name_oddity, pages))
    lines = [f"| pages | of | {' | '.join(f'right by {name}' for name in readers)} |"]
    lines.append("|---|---|" + "---|" * len(readers))
    for name, total in totals.items():
        counts = " | ".join(str(right[name]) for right in readers.values())
        lines.append(f"| {name} | {total} | {counts} |")
    sums = " | ".join(str(right.total()) for right in readers.values())
    return "\n".join([*lines, f"| all | {len(pages)} | {sums} |", ""])


def main() -> int:
    """Read, count, and print. Return 1 if Strandline is worse on any kind of page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the document")
    options = parser.parse_args()
    readers: dict[str, Callable[[Path], Texts]] = {"ours": read_ours}
    if find_rival("datatrove").is_installed():
        readers["datatrove"] = read_theirs
    else:
        sys.stderr.write(f"strandline: datatrove: {HOW_TO_INSTALL}\n")
    with tempfile.TemporaryDirectory() as folder:
        pages = write_odd_crawl(Path(folder))
        path = Path(folder) / "odd.warc.gz"
        right = {name: count_right(pages, read(path)) for name, read in readers.items()}
    table = format_rows(pages, right)
    sys.stdout.write(table)
    if options.write and len(right) > 1:
        write_table(DOCUMENT, table, "reader agreement")
    ours = right["ours"]
    return int(any(ours[name] < each[name] for each in right.values() for name in each))


if __name__ == "__main__":
    sys.exit(main())
