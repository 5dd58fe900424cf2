"""Compares `read-pdf` with a plain loop over pypdfium2: pages per second, and errors."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from statistics import median

import pyarrow as pa
import pypdfium2

from strandline.plan.task import Task
from strandline_bench.ground.folders import EXAMPLES
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_packs.pdf.ocr_pages import OcrPages
from strandline_packs.pdf.read_pdf import ReadPdf

KEEPS = 0.1  # share of pypdfium2's rate


def measure_pdf(scale: Scale) -> list[Row]:
    """Read a long report with pypdfium2 alone and with the stage, in turns."""
    sys.path.append(str(EXAMPLES))
    from make_pdfs import (  # noqa: PLC0415 - lies elsewhere
        Document,
        draw_paper,
        draw_worn,
        format_document,
        list_documents,
        write_prose,
    )

    documents = [each for each in list_documents() if not each.password]
    documents.append(Document("worn", draw_worn, (write_prose(8, 8),)))
    pages, turns = scale.pick(600, 20), scale.pick(5, 1)
    texts = tuple(write_prose(seed, 24) for seed in range(pages))
    path = scale.folder / "bench.pdf"
    path.write_bytes(format_document(Document("bench", draw_paper, texts)))
    works: dict[str, Callable[[Path], int]] = {"plain": _read_plainly, "stage": _read}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            seconds[name].append(_time(work, path))
    rates = {name: pages / median(each) for name, each in seconds.items()}
    what = f"{pages:,} pages in two columns, per second of a core"
    return [
        Row(
            f"{what}: pypdfium2 alone, in file order",
            format_number(rates["plain"], "/s"),
        ),
        Row(f"{what}: read-pdf, in reading order", format_number(rates["stage"], "/s")),
        reach("read-pdf, of pypdfium2's rate", rates["stage"] / rates["plain"], KEEPS, "×"),
        *(
            row
            for each in documents
            for row in _compare_errors(each.kind, format_document(each), each.pages)
        ),
    ]


def _compare_errors(kind: str, content: bytes, pages: Sequence[str]) -> Iterator[Row]:
    """Yield the error rates of a document: with pypdfium2 alone, and with the stages."""
    original = "\n".join(pages)
    plain = "\n".join(_list_plain_texts(content))
    yield Row(f"edits per 100 characters, {kind}: pypdfium2", _format_errors(plain, original))
    stage = ReadPdf(column="content")
    stage.setup()
    tasks = list(stage.process(Task(pa.table({"key": [kind], "content": [content]}))))
    stage.close()
    name = "read-pdf"
    if any("needs-ocr" in task.table["method"].to_pylist() for task in tasks):
        name = "read-pdf and ocr-pages"
        recognizer = OcrPages()
        recognizer.setup()
        start = _count_seconds()
        tasks = [answer for task in tasks if (answer := recognizer.process(task)) is not None]
        rate = len(pages) / (_count_seconds() - start)
        yield Row(f"pages per second of a core, {kind}: ocr-pages", format_number(rate, "/s"))
    texts = [text for task in tasks for text in task.table["text"].to_pylist()]
    yield Row(
        f"edits per 100 characters, {kind}: {name}", _format_errors("\n".join(texts), original)
    )


def _format_errors(extracted: str, original: str) -> str:
    return f"{100 * measure_errors(extracted, original):.2f}"


def measure_errors(extracted: str, original: str) -> float:
    """Return edits per character of the original. Runs of white space count as one space."""
    left, right = (" ".join(text.split()) for text in (extracted, original))
    return count_edits(left, right) / max(1, len(right))


def count_edits(left: str, right: str) -> int:
    """Return the Levenshtein distance of two texts."""
    # Equal beginnings and ends need no edits, and few edits are the usual case.
    begin = _count_equal(left, right)
    left, right = left[begin:], right[begin:]
    end = _count_equal(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    row = list(range(len(right) + 1))
    for at, sign in enumerate(left, 1):
        corner, row[0] = row[0], at
        for column, other in enumerate(right, 1):
            corner, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, corner + (sign != other)),
            )
    return row[-1]


def _count_equal(left: str, right: str) -> int:
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _read_plainly(path: Path) -> int:
    return sum(map(len, _list_plain_texts(path)))


def _list_plain_texts(source: Path | bytes) -> Iterator[str]:
    document = pypdfium2.PdfDocument(source)
    for at in range(len(document)):
        page = document[at]
        text = page.get_textpage()
        yield text.get_text_range()
        text.close()
        page.close()
    document.close()


def _read(path: Path) -> int:
    stage = ReadPdf()
    stage.setup()
    table = pa.table({"key": [path.name], "path": [str(path)]})
    rows = sum(task.num_rows for task in stage.process(Task(table)))
    stage.close()
    return rows


def _time(work: Callable[[Path], int], path: Path) -> float:
    """Return the CPU seconds of a call and its child processes."""
    start = _count_seconds()
    work(path)
    return _count_seconds() - start


def _count_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
