"""Every stage that a document shows works in a complete pipeline."""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from document_blocks import DOCUMENTS, read_blocks, run_in, write_files

SERVICE = "http://127.0.0.1"  # the test adds a port
PAGES = [*DOCUMENTS, "docs/kubernetes.md"]
READ_TEXTS = [{"use": "read-files"}, {"use": "parse-documents"}]
TEXTS = {"use": "files", "with": {"paths": ["in/*.txt"]}}
# Pipelines for stages whose document shows none: page, source, stages, sink, and number of rows.
PIPELINES: list[tuple[str, dict[str, Any], list[dict[str, Any]], str, int]] = [
    (
        "docs/stages.md",
        {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}},
        [
            {"use": "read-jsonl"},
            {"use": "shapes:SplitByHundred", "with": {"rows": 2}},
            {"use": "shapes:Score"},
        ],
        "jsonl",
        4,  # of 5 rows: the last part has one row, which is too few to be kept
    ),
    (
        "docs/stages.md",
        TEXTS,
        [
            *READ_TEXTS,
            {"use": "captions:Caption"},
            {"use": "thumbnails:Shrink"},
            {"use": "lengths:MeasureLength"},
        ],
        "sinks:JsonArray",
        3,
    ),
    (
        "docs/stages.md",
        {"use": "files", "with": {"paths": ["in/*.tar"]}},
        [{"use": "read-files"}, {"use": "pieces:SplitArchive"}, {"use": "parse-documents"}],
        "jsonl",
        3,
    ),
    ("docs/stages.md", {"use": "sources:Days"}, [{"use": "days:ReadDay"}], "jsonl", 3),
    (
        "docs/stages.md",
        {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}},
        [
            {"use": "read-jsonl"},
            {"use": "places:FindPlaces", "with": {"url": SERVICE, "answers": "answers.sqlite"}},
        ],
        "jsonl",
        5,
    ),
    (
        "docs/video.md",
        {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}},
        [{"use": "read-jsonl"}, {"use": "tall:KeepTall"}],
        "jsonl",
        2,
    ),
    (
        "README.md",
        {"use": "files", "with": {"paths": ["in/*.py"]}},
        [
            {"use": "read-files"},
            {"use": "decode-python"},
            {"use": "extract-functions"},
            {"use": "mystages:KeepAsync"},
        ],
        "jsonl",
        1,
    ),
    (
        "docs/kubernetes.md",
        {"use": "jsonl-files", "with": {"paths": ["in/rows.jsonl"]}},
        [{"use": "read-jsonl"}, {"use": "mystages:MinWords", "with": {"words": 2}}],
        "jsonl",
        3,
    ),
]


def write_input(folder: Path) -> None:
    """Write the inputs of the pipelines: texts, rows, an archive of the texts, and Python."""
    (folder / "in").mkdir()
    with tarfile.open(folder / "in/texts.tar", "w") as archive:
        for name in ("a", "b", "c"):
            data = f"high water at {name}".encode()
            (folder / f"in/{name}.txt").write_bytes(data)
            header = tarfile.TarInfo(f"{name}.txt")
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
    rows = [
        {
            "text": "high water" if number < 3 else "low",
            "name": f"place {number % 3}",
            "width": 2,
            "height": 1 + 2 * (number < 2),
        }
        for number in range(5)
    ]
    (folder / "in/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "in/waves.py").write_text("async def a():\n    return 1\n\ndef b():\n    return 2\n")
    (folder / "words").write_text("ebb\nflow\n")


class Places(BaseHTTPRequestHandler):
    """The service that a document's stage queries for locations."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"place": "here"}')

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002 - its base class's
        pass


@pytest.fixture
def service() -> Iterator[list[str]]:
    """Serve at `SERVICE`, and provide its port and its requests."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Places) as server:
        asked = [f"{SERVICE}:{server.server_address[1]}/"]
        server.asked = asked  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield asked
        server.shutdown()
        thread.join()


def count_rows(folder: Path, suffix: str) -> int:
    files = list(folder.rglob(f"*{suffix}"))
    if suffix == ".json":
        return sum(len(json.loads(file.read_text())) for file in files)
    return sum(len(file.read_text().splitlines()) for file in files)


@pytest.mark.parametrize(
    ("page", "source", "stages", "sink", "rows"),
    PIPELINES,
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_documented_stage_works_in_a_whole_pipeline(
    page: str,
    source: dict[str, Any],
    stages: list[dict[str, Any]],
    sink: str,
    rows: int,
    tmp_path: Path,
    service: list[str],
) -> None:
    write_files(page, tmp_path)
    write_input(tmp_path)
    if (captions := tmp_path / "captions.py").exists():  # some machines have no word list
        text = captions.read_text().replace("/usr/share/dict/words", str(tmp_path / "words"))
        captions.write_text(text.replace("tempfile.gettempdir()", repr(str(tmp_path))))
    named = [{**stage, "name": f"stage{number}"} for number, stage in enumerate(stages)]
    manifest = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "shown"},
        "spec": {
            "source": source,
            "stages": named,
            "sink": {"use": sink}
            if ":" in sink
            else {"use": sink, "with": {"compression": "none"}},
        },
    }
    text = yaml.safe_dump(manifest).replace(f"url: {SERVICE}", f"url: {service[0]}")
    (tmp_path / "shown.yaml").write_text(text)

    for command in ("run --engine inline shown.yaml", "verify shown.yaml"):
        words = command.split()
        done = run_in(tmp_path, sys.executable, "-m", "strandline", *words)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    suffix = ".json" if ":" in sink else ".jsonl"
    assert count_rows(tmp_path / "strandline-data/default/shown/output", suffix) == rows
    if SERVICE in str(stages):
        assert len(service[1:]) == len(set(service[1:])) == 3, "each name is asked for once"


def list_shown_stages(page: str) -> set[str]:
    """Return the stages that a page's files define, in the form that `use` takes."""
    shown = set()
    for block in read_blocks(page):
        if block.language != "python" or not block.file:
            continue
        for node in ast.parse(block.code).body:
            bases = getattr(node, "bases", [])
            kinds = {base.id for base in bases if isinstance(base, ast.Name)}
            if isinstance(node, ast.ClassDef) and any(
                kind.endswith(("Stage", "Filter", "Sink")) for kind in kinds
            ):
                shown.add(f"{block.file.removesuffix('.py')}:{node.name}")
    return shown


@pytest.mark.parametrize("page", PAGES)
def test_every_shown_stage_is_in_a_pipeline(page: str) -> None:
    played = {
        use["use"]
        for name, source, stages, sink, _ in PIPELINES
        if name == page
        for use in (source, *stages, {"use": sink})
    }
    if page in DOCUMENTS:  # other tests run these documents' files unchanged
        text = "".join(block.code for block in read_blocks(page) if block.language == "yaml")
        played |= set(re.findall(r"use: (\w+:\w+)", text))

    assert list_shown_stages(page) <= played
