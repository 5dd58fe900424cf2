"""Generates the documents of `pdf.yaml`: columns, tables, scans, several scripts, and broken files.

python pipelines/examples/make_pdfs.py FOLDER [--pages 1000]

The program needs reportlab and Pillow. The same arguments give the same texts. `list_documents`
returns the text of each document, for error rates.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4
MARGIN, SIZE, LEADING = 60, 10, 13
SENTENCES = (
    "The keeper climbed the stairs of the lighthouse with a can of oil.",
    "An electromagnetic lamp would have been more comfortable, but nobody had asked him.",
    "At the northernmost point of the archipelago the wind rarely stopped.",
    "He trimmed the wick, cleaned the lenses, and wrote the barometer readings into the log.",
    "Fishermen from the neighbouring villages considered him extraordinarily reliable.",
    "Twice a month a supply ship brought flour, letters, and unpredictable visitors.",
)
JAPANESE = (
    "灯台守は毎晩、油の缶を持って階段を上った。風はほとんど止まなかった。船は月に二度だけ来た。"
)
ROWS = (("Month", "Ships", "Storms"), ("January", "12", "7"), ("April", "31", "2"),
        ("July", "58", "0"), ("October", "24", "5"))  # fmt: skip


class Document(NamedTuple):
    """A document to generate.

    Attributes:
        kind: what is special about the document; also the name of its file.
        draw: draws all pages on a canvas.
        pages: the text of each page, without headers and footers.
        password: the password for opening the document, if any.
    """

    kind: str
    draw: Callable[[Canvas, Sequence[str]], None]
    pages: tuple[str, ...]
    password: str = ""


def write_prose(seed: int, sentences: int) -> str:
    """Return paragraphs of different sentences for each seed."""
    texts = [
        f"{SENTENCES[(seed + at * (1 + seed % 5)) % len(SENTENCES)]} Entry {seed}-{at} ends here."
        for at in range(sentences)
    ]
    return "\n\n".join(" ".join(texts[at : at + 4]) for at in range(0, sentences, 4))


def wrap_text(text: str, font: str, width: float, *, is_hyphenated: bool = False) -> list[str]:
    """Return the lines of a paragraph. Long words are divided if `is_hyphenated`."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if pdfmetrics.stringWidth(longer, font, SIZE) <= width:
            line = longer
            continue
        head = word[: len(word) // 2]
        fits = pdfmetrics.stringWidth(f"{line} {head}-", font, SIZE) <= width
        if is_hyphenated and fits and len(word) > 7 and word.isalpha():  # noqa: PLR2004
            lines.append(f"{line} {head}-".strip())
            line = word[len(head) :]
        else:
            lines.append(line)
            line = word
    return [*lines, line]


def _draw_block(canvas: Canvas, text: str, box: tuple[float, float, float]) -> None:
    """Draw paragraphs into a column: left, top, width."""
    left, top, width = box
    canvas.setFont("Times-Roman", SIZE)
    for paragraph in text.split("\n\n"):
        for line in wrap_text(paragraph, "Times-Roman", width, is_hyphenated=True):
            canvas.drawString(left, top, line)
            top -= LEADING
        top -= LEADING


def draw_report(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw a column of prose per page, between a header and a footer."""
    for number, text in enumerate(pages, 1):
        canvas.setFont("Helvetica", 8)
        canvas.drawString(MARGIN, HEIGHT - 40, "Annual report of the lighthouse")
        canvas.drawCentredString(WIDTH / 2, 30, f"Page {number} of {len(pages)}")
        _draw_block(canvas, text, (MARGIN, HEIGHT - 80, WIDTH - 2 * MARGIN))
        canvas.showPage()


def draw_paper(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw two columns per page. The first page has a title across both."""
    width = (WIDTH - 2 * MARGIN - 20) / 2
    for number, text in enumerate(pages):
        title, _, body = text.partition("\n\n") if not number else ("", "", text)
        canvas.setFont("Times-Bold", 16)
        canvas.drawCentredString(WIDTH / 2, HEIGHT - 70, title)
        paragraphs = body.split("\n\n")
        half = (len(paragraphs) + 1) // 2
        for at, part in enumerate((paragraphs[:half], paragraphs[half:])):
            left = MARGIN + at * (width + 20)
            _draw_block(canvas, "\n\n".join(part), (left, HEIGHT - 110, width))
        canvas.showPage()


def draw_table(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw a table row by row."""
    for text in pages:
        canvas.setFont("Helvetica", SIZE)
        for at, row in enumerate(text.split("\n")):
            for column, cell in enumerate(row.split(" ")):
                canvas.drawString(MARGIN + 150 * column, HEIGHT - 100 - 20 * at, cell)
        canvas.showPage()


def draw_japanese(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw lines of 20 characters in a font that the document does not contain."""
    pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3"))
    for text in pages:
        canvas.setFont("HeiseiMin-W3", 14)
        for at in range(0, len(text), 20):
            canvas.drawString(MARGIN, HEIGHT - 100 - at, text[at : at + 20])
        canvas.showPage()


def draw_scan(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw a picture of a page of text."""
    for text in pages:
        canvas.drawImage(ImageReader(_picture_text(text)), 0, 0, WIDTH, HEIGHT)
        canvas.showPage()


def draw_worn(canvas: Canvas, pages: Sequence[str]) -> None:
    """Draw a blurred, crooked picture of a page of text on paper with dark edges."""
    for text in pages:
        image = _picture_text(text)
        shade = Image.radial_gradient("L").resize(image.size).point(lambda dark: 255 - dark // 3)
        shaded = ImageChops.multiply(image, shade)
        crooked = shaded.rotate(0.8, Image.Resampling.BICUBIC, fillcolor=245)
        worn = crooked.filter(ImageFilter.GaussianBlur(1.2))
        canvas.drawImage(ImageReader(worn), 0, 0, WIDTH, HEIGHT)
        canvas.showPage()


def _picture_text(text: str) -> Image.Image:
    font: Any = ImageFont.load_default(size=30)
    image = Image.new("L", (1240, 1754), 245)
    pen, top = ImageDraw.Draw(image), 150
    for paragraph in text.split("\n\n"):
        for line in wrap_text(paragraph, "Helvetica", 330):
            pen.text((120, top), line, fill=20, font=font)
            top += 48
        top += 48
    return image


def list_documents() -> list[Document]:
    """Return the documents of the example."""
    prose = tuple(write_prose(seed, 12) for seed in range(5))
    titled = f"On the Maintenance of Lamps\n\n{prose[0]}"
    table = "\n".join(" ".join(row) for row in ROWS)
    return [
        Document("report", draw_report, prose),
        Document("paper", draw_paper, (titled, prose[1])),
        Document("table", draw_table, (table,)),
        Document("japanese", draw_japanese, (JAPANESE,)),
        Document("scan", draw_scan, (write_prose(7, 8),)),
        Document("locked", draw_report, prose[:1], "tide"),
    ]


def format_document(document: Document) -> bytes:
    """Return the bytes of a document; the same document gives the same bytes."""
    file = io.BytesIO()
    lock = StandardEncryption(document.password) if document.password else None
    canvas = Canvas(file, A4, invariant=1, encrypt=lock)
    document.draw(canvas, document.pages)
    canvas.save()
    return file.getvalue()


def write_all(folder: Path, pages: int = 0) -> list[Path]:
    """Write the documents of the example, a damaged file, and a long report."""
    folder.mkdir(parents=True, exist_ok=True)
    documents = list_documents()
    if pages:
        texts = tuple(write_prose(seed, 12) for seed in range(pages))
        documents.append(Document("long", draw_report, texts))
    contents = {each.kind: format_document(each) for each in documents}
    contents["damaged"] = b"%PDF-1.7\n" + contents["report"][2000:3000]
    for kind, content in contents.items():
        (folder / f"{kind}.pdf").write_bytes(content)
    return sorted(folder.glob("*.pdf"))


def main(words: Sequence[str] | None = None) -> None:
    """Parse the command line and write the files."""
    parser = argparse.ArgumentParser(description="Writes the documents of pdf.yaml.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pages", type=int, default=0, help="of a further, long report")
    options = parser.parse_args(words)
    write_all(options.folder, options.pages)


if __name__ == "__main__":
    main()
