"""Main content of pages: engines, encodings, and pages that crash a parser."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from stage_runs import StageRun
from strandline_packs.web import extractor_process
from strandline_packs.web.extractor_process import ExtractorDiedError
from web_archive import SENTENCES, write_pages

# Each test starts a process.
pytestmark = [pytest.mark.slow, pytest.mark.first(reason="pages that exhaust time or memory")]

ENGINES = ["trafilatura", "resiliparse"]
PAGES = [page for page in write_pages(36) if page.kind in {"prose", "unclosed"}]
# One engine walks the tree and gets lost in deep nesting; the other examines every block.
PATHOLOGICAL = {
    "resiliparse": b"<div><b><i>" * 800_000 + b"text",
    "trafilatura": b"<html><body>" + b"<p>word <a href=x>y</a><td>" * 200_000,
}


def make_rows(*pages: bytes) -> list[dict[str, Any]]:
    return [{"key": str(number), "content": page} for number, page in enumerate(pages)]


def make_page(language: str, body: str = "") -> bytes:
    text = "".join(f"<p>{sentence} {sentence}</p>" for sentence in SENTENCES[language])
    return f"<html><body><nav>MENU</nav><article>{text}{body}</article></body></html>".encode()


@pytest.mark.parametrize("engine", ENGINES)
def test_prose_is_kept_without_its_surroundings(engine: str) -> None:
    rows = [{"key": page.url, "content": page.body, "charset": ""} for page in PAGES]
    stage = StageRun("extract-text", engine=engine)
    found = stage.rows(rows)
    assert [page.url for page in PAGES] == [row["key"] for row in found]
    assert {} == stage.counters
    for page, row in zip(PAGES, found, strict=True):
        assert any(sentence in row["text"] for sentence in SENTENCES[page.language]), page
        assert "Cookie settings" not in row["text"]
        assert "login" not in row["text"]
        assert "\ufffd" not in row["text"]
    assert {"key", "charset", "text"} == set(found[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_pages_without_text_are_dropped_and_counted(engine: str) -> None:
    stage = StageRun("extract-text", engine=engine)
    assert stage.table(make_rows(b"", b"<html></html>")) is None
    assert {"dropped: no text": 2} == stage.counters


def test_favour_decides_about_doubtful_blocks() -> None:
    lists = "".join(f"<li><a href='/{n}'>Offer {n}</a></li>" for n in range(3))
    page = make_page("en", f"<div class='related'><ul>{lists}</ul></div>")
    texts = {
        favour: StageRun("extract-text", favour=favour).rows(make_rows(page))[0]["text"]
        for favour in ("precision", "recall")
    }
    assert "Offer" not in texts["precision"]
    assert len(texts["precision"]) <= len(texts["recall"])
    full = StageRun("extract-text", engine="resiliparse", favour="recall")
    assert "MENU" in full.rows(make_rows(page))[0]["text"]


def test_a_text_depends_only_on_its_page_even_with_deduplication() -> None:
    stage = StageRun("extract-text", deduplicate=True)
    page = make_page("en")
    texts = [row["text"] for row in stage.rows(make_rows(*[page] * 6))]
    assert 6 == len(texts)
    assert 1 == len(set(texts))


def test_replaced_characters_are_counted_and_bounded() -> None:
    damaged = make_page("ja").replace("灯".encode(), b"\xe7\x81")
    noise = b"<html><body><p>" + b"\x81\x8d\x8f\x90\xff\xfe " * 60 + make_page("ja")
    rows = make_rows(damaged, noise, make_page("ja"))
    stage = StageRun("extract-text")
    kept = stage.rows(rows)
    assert ["0", "2"] == [row["key"] for row in kept]
    assert stage.counters == {
        "dropped: too many replaced characters": 1,
        "replaced characters": kept[0]["text"].count("\ufffd"),
    }
    strict = StageRun("extract-text", maxReplaced=0)
    assert ["2"] == [row["key"] for row in strict.rows(rows)]


GREEDY = {
    "colspan": b"<table>" + b"<tr><td colspan=99999999>a<td>b" * 9 + b"</table>",
    "rowspan": b"<table>" + b"<tr><td rowspan=65534 colspan=1000>a<td>b" * 99 + b"</table>",
    "paragraphs": b"<p>word word word word" * 400_000,
    "nested": b"<div>" * 30_000 + b"text",
    "nested tables": b"<table><tr><td>" * 3_000 + b"text",
    "attributes": b"<p " + b" ".join(b"a%d=b" % n for n in range(200_000)) + b">text</p>",
    "memory": b"<b>a</b><i>b</i>" * 1_000_000,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", GREEDY)
def test_a_greedy_page_drops_only_itself(engine: str, kind: str) -> None:
    stage = StageRun(
        "extract-text",
        engine=engine,
        timeoutSeconds=1,
        maxMemoryBytes=256 << 20,
        maxPageBytes=64 << 20,
    )
    pages = make_rows(make_page("en"), GREEDY[kind], make_page("de"))
    keys = [row["key"] for row in stage.rows(pages)]
    assert ["0", "2"] == [key for key in keys if key != "1"]
    assert 3 == len(keys) + sum(stage.counters.values())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_page_beyond_the_time_limit_is_dropped_and_the_next_extracted(engine: str) -> None:
    stage = StageRun("extract-text", engine=engine, timeoutSeconds=0.4, maxPageBytes=100 << 20)
    pages = [make_page("en"), PATHOLOGICAL[engine], make_page("de")]
    found = stage.rows(make_rows(*pages))
    assert ["0", "2"] == [row["key"] for row in found]
    ((reason, number),) = stage.counters.items()
    assert 1 == number
    assert reason in {"dropped: extraction too slow", "dropped: extraction crashed"}


def test_endless_c_code_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A backtracking regular expression holds the interpreter, so no alarm is handled."""
    program = tmp_path / "hanging.py"
    program.write_text(
        "import re\n"
        "from strandline_packs.web import extractor_process as child\n"
        "def create(settings):\n"
        "    def extract(content, charset):\n"
        "        re.match(rb'(a+)+$', content)\n"
        "        return 'done'\n"
        "    return extract\n"
        "child.create_extractor = create\n"
        "child.serve()\n"
    )
    monkeypatch.setattr(extractor_process, "_PROGRAM", program.read_text())
    stage = StageRun("extract-text", timeoutSeconds=0.5)
    found = stage.rows(make_rows(b"a", b"a" * 60 + b"b", b"a"))
    assert ["0", "2"] == [row["key"] for row in found]
    assert {"dropped: extraction too slow": 1} == stage.counters


def test_a_page_that_crashes_the_parser_is_dropped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extractor_process,
        "_PROGRAM",
        "import os\n"
        "from strandline_packs.web import extractor_process as child\n"
        "child.create_extractor = lambda settings: (\n"
        "    lambda content, charset: os.kill(os.getpid(), int(content)) or 'done')\n"
        "child.serve()\n",
    )
    stage = StageRun("extract-text")
    crash = b"%d" % signal.SIGSEGV
    assert ["0", "2"] == [row["key"] for row in stage.rows(make_rows(b"0", crash, b"0"))]
    assert {"dropped: extraction crashed": 1} == stage.counters
    with pytest.raises(ExtractorDiedError, match="ended with -9, possibly because memory"):
        stage.rows(make_rows(b"%d" % signal.SIGKILL))
    assert ["0"] == [row["key"] for row in stage.rows(make_rows(b"0"))]


def test_a_page_that_takes_too_much_memory_is_dropped_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        extractor_process,
        "_PROGRAM",
        "from strandline_packs.web import extractor_process as child\n"
        "child.create_extractor = lambda settings: (\n"
        "    lambda content, charset: str(len(bytearray(int(content)))))\n"
        "child.serve()\n",
    )
    stage = StageRun("extract-text", maxMemoryBytes=100 << 20)
    rows = make_rows(b"1", b"%d" % (200 << 20), b"1")
    assert ["0", "2"] == [row["key"] for row in stage.rows(rows)]
    assert {"dropped: extraction took too much memory": 1} == stage.counters


def test_the_child_ends_with_its_stage() -> None:
    stage = StageRun("extract-text")
    child = stage.stage._process._child.pid
    os.kill(child, 0)
    stage.stage._process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_large_pages_are_dropped_before_they_are_parsed() -> None:
    stage = StageRun("extract-text", maxPageBytes=100)
    assert stage.table(make_rows(b"<p>" * 100)) is None
    assert {"dropped: page too large": 1} == stage.counters


def test_decoded_text_can_be_extracted_instead_of_bytes() -> None:
    stage = StageRun("extract-text", column="text")
    (row,) = stage.rows([{"text": make_page("pl").decode()}])
    assert SENTENCES["pl"][0] in row["text"]
    assert "<p>" not in row["text"]
    keeping = StageRun("extract-text", keepContent=True)
    assert {"key", "content", "text"} == set(keeping.rows(make_rows(make_page("pl")))[0])


def test_a_child_that_can_not_start_reports_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transitive dependency may be missing; then neither a page nor memory is at fault."""
    monkeypatch.setattr(
        extractor_process,
        "_PROGRAM",
        "from strandline_packs.web import extractor_process as child\n"
        "def create(settings):\n"
        "    raise ImportError('no cleaner')\n"
        "child.create_extractor = create\n"
        "child.serve()\n",
    )
    with pytest.raises(ExtractorDiedError, match="could not start: ImportError: no cleaner"):
        StageRun("extract-text").rows(make_rows(b"a"))
