"""Reads pages of a PDF file with pypdfium2: words, share of pictures, rendering."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from strandline.plan.packages import load_module
from strandline_packs.pdf.page_lines import Box, Word, is_right_to_left, unite_boxes
from strandline_packs.pdf.page_text import repair_characters

_REOPEN = 256  # pages after which the document is opened again, to release caches
MOST_OBJECTS = 5_000  # objects of a page that are inspected; a map may have a million lines
_CHECKED = 200  # characters whose mapping to Unicode is checked
_HYPHEN = 2  # code of a hyphen at the end of a line
_SPACES = frozenset((0, 9, 10, 13, 32, 160))
_LINE_ENDS = frozenset((10, 13))
# Codes of ligatures in TeX's fonts OT1 and T1, which old documents store without Unicode values.
_LIGATURES = {begin + at: 0xFB00 + at for begin in (11, 27) for at in range(5)}
_MAX_SCALE = 300 / 72  # pixels per point
_QUALITY = 90
_PASSWORD, _SECURITY = 4, 5  # error codes of PDFium


class PdfError(Exception):
    """Raised if a file or page can't be read. The message is a reason for counters."""


class PageContent(NamedTuple):
    """The content of a page.

    Attributes:
        width, height: size as displayed, in points.
        words: text in the order of the content, rotated upright. An empty word ends a line.
        unmapped: share of characters without a Unicode value, from 0 to 1.
        image_share: share of the page that pictures cover, from 0 to 1.
        objects: number of objects, such as texts, lines, and pictures.
        is_drawn: whether the page has lines or shapes.
    """

    width: float
    height: float
    words: list[Word]
    unmapped: float
    image_share: float
    objects: int
    is_drawn: bool


class PdfFile:
    """An open PDF file.

    Args:
        path: local path.
        password: password for encrypted files, if any.

    Raises:
        PdfError: the file is not a PDF, is damaged, or needs another password.
    """

    def __init__(self, path: str, password: str | None) -> None:
        self._path, self._password = path, password
        self._library = load_module("pypdfium2")
        self._raw = load_module("pypdfium2.raw")
        # Forms may contain lines and shapes.
        self._drawings = {self._raw.FPDF_PAGEOBJ_PATH, self._raw.FPDF_PAGEOBJ_FORM}
        self._opened = 0
        self._open()

    @property
    def page_count(self) -> int:
        """The number of pages that the file declares."""
        return len(self._document)

    def read_page(self, index: int) -> PageContent:
        """Read a page, counted from 0.

        Raises:
            PdfError: the page can't be parsed.
        """
        page = self._load(index)
        try:
            width, height = page.get_size()
            seen = self._inspect_objects(page)
            words, unmapped = self._read_text(page)
        except self._library.PdfiumError as error:
            raise PdfError("damaged page") from error
        finally:
            page.close()
        return PageContent(width, height, words, unmapped, *seen)

    def copy_drawings(self, index: int) -> bytes:
        """Return a PDF file with a page without its texts and pictures, for another library.

        Another library takes long for texts, reads the list of all pages, and repairs less.
        """
        copy, file, raw = self._library.PdfDocument.new(), io.BytesIO(), self._raw
        copy.import_pages(self._document, [index])
        page = copy[0]
        page.set_mediabox(*page.get_bbox())
        for at in reversed(range(raw.FPDFPage_CountObjects(page))):
            found = raw.FPDFPage_GetObject(page, at)
            if raw.FPDFPageObj_GetType(found) not in self._drawings:
                raw.FPDFPage_RemoveObject(page, found)
                raw.FPDFPageObj_Destroy(found)
        page.gen_content()
        copy.save(file)
        copy.close()
        return file.getvalue()

    def render_page(self, index: int, longest: int) -> bytes:
        """Render a page as a JPEG file whose longer side has at most `longest` pixels.

        Raises:
            PdfError: the page can't be rendered.
        """
        page = self._load(index)
        try:
            scale = min(longest / max(*page.get_size(), 1.0), _MAX_SCALE)
            image = page.render(scale=scale).to_pil().convert("RGB")
        except (self._library.PdfiumError, ValueError) as error:
            raise PdfError("page that can't be rendered") from error
        finally:
            page.close()
        file = io.BytesIO()
        image.save(file, "JPEG", quality=_QUALITY)
        return file.getvalue()

    def close(self) -> None:
        """Close the file."""
        self._document.close()

    def _open(self) -> None:
        try:
            self._document = self._library.PdfDocument(self._path, password=self._password)
        except (self._library.PdfiumError, FileNotFoundError, ValueError) as error:
            raise PdfError(_explain(error)) from error
        self._left = _REOPEN

    def _load(self, index: int) -> Any:
        self._left -= 1
        if self._left < 0:
            self._document.close()
            self._open()
        try:
            return self._document[index]
        except (self._library.PdfiumError, IndexError) as error:
            raise PdfError("damaged page") from error

    def _inspect_objects(self, page: Any) -> tuple[float, int, bool]:
        """Return the share that pictures cover, the number of objects, and whether some draw."""
        raw, number = self._raw, self._raw.FPDFPage_CountObjects(page)
        bounds = page.get_bbox()
        area, covered = max(_measure_area(bounds), 1e-6), 0.0
        sides = [ctypes.c_float() for _ in range(4)]
        is_drawn = False
        for at in range(min(number, MOST_OBJECTS)):
            found = raw.FPDFPage_GetObject(page, at)
            kind = raw.FPDFPageObj_GetType(found)
            is_drawn = is_drawn or kind in self._drawings
            if kind != raw.FPDF_PAGEOBJ_IMAGE:
                continue
            if raw.FPDFPageObj_GetBounds(found, *sides):
                left, bottom, right, top = (side.value for side in sides)
                covered += _measure_area(_intersect(bounds, (left, bottom, right, top)))
        return min(1.0, round(covered / area, 4)), number, is_drawn

    def _read_text(self, page: Any) -> tuple[list[Word], float]:
        text = page.get_textpage()
        try:
            number, raw = text.count_chars(), text.raw
            get_code = self._raw.FPDFText_GetUnicode
            codes = _restore_ligatures([get_code(raw, at) for at in range(number)])
            words = [self._locate(raw, *each) for each in _cut(codes)]
            upright = _turn_boxes(words, page.get_rotation(), page.get_bbox())
            return upright, self._measure_unmapped(raw, codes)
        finally:
            text.close()

    def _locate(self, text: Any, word: str, begin: int, end: int) -> Word:
        """Return a word with its bounds, from its first and last character."""
        first = self._bound_character(text, begin)
        last = self._bound_character(text, end - 1) if end - 1 > begin else first
        if end - 1 > begin and is_right_to_left(word):
            second = self._bound_character(text, begin + 1)
            # PDFium leaves the letters of some words in the order from left to right.
            if first and second and first[0] < second[0]:
                length = max(at for at, sign in enumerate(word, 1) if sign.isalpha())
                word = word[:length][::-1] + word[length:]
        return word, unite_boxes(first, last)

    def _bound_character(self, text: Any, at: int) -> Box | None:
        box = self._raw.FS_RECTF()
        if not self._raw.FPDFText_GetLooseCharBox(text, at, box):
            return None
        return box.left, box.bottom, box.right, box.top

    def _measure_unmapped(self, text: Any, codes: list[int]) -> float:
        checked = range(0, len(codes), max(1, len(codes) // _CHECKED))
        visible = [at for at in checked if codes[at] not in _SPACES]
        has_error = self._raw.FPDFText_HasUnicodeMapError
        bad = sum(has_error(text, at) == 1 for at in visible)
        return bad / len(visible) if visible else 0.0


def _explain(error: Exception) -> str:
    code = getattr(error, "err_code", None)
    if code in {_PASSWORD, _SECURITY} or "assword" in str(error):
        return "password needed"
    return "not a readable PDF"


def _restore_ligatures(codes: list[int]) -> list[int]:
    if _LIGATURES.keys().isdisjoint(set(codes) - {13}):
        return codes  # by far the most pages
    # A carriage return is the end of a line if a line feed follows, and `fl` otherwise.
    return [
        code if (code, following) == (13, 10) else _LIGATURES.get(code, code)
        for code, following in zip(codes, [*codes[1:], 10], strict=True)
    ]


def _cut(codes: list[int]) -> Iterator[tuple[str, int, int]]:
    """Yield words with the range of their characters. An empty word ends a line."""
    begin = 0
    for at, code in enumerate((*codes, 10)):
        is_hyphen = code == _HYPHEN
        if not (is_hyphen or code in _SPACES):
            continue
        end = at + is_hyphen
        if end > begin and (word := _decode(codes[begin:at]) + "-" * is_hyphen):
            yield word, begin, end
        if is_hyphen or code in _LINE_ENDS:
            yield "", at, at
        begin = at + 1


def _decode(codes: Iterable[int]) -> str:
    word = "".join(map(chr, codes))
    if word.isascii() and word.isprintable():
        return word
    # PDFium gives characters above U+FFFF as two surrogates.
    units = word.encode("utf-16-le", "surrogatepass")
    return repair_characters(units.decode("utf-16-le", "replace"))


def _turn_boxes(words: list[Word], rotation: int, bounds: Box) -> list[Word]:
    """Return words with boxes as displayed, with the origin at the lower left of the page."""
    if rotation % 360 == 0 and bounds[:2] == (0, 0):
        return words  # most pages
    return [(word, box and _turn(box, rotation % 360, bounds)) for word, box in words]


def _turn(box: Box, rotation: int, bounds: Box) -> Box:
    width, height = bounds[2] - bounds[0], bounds[3] - bounds[1]
    x0, y0, x1, y1 = (edge - bounds[at % 2] for at, edge in enumerate(box))
    turned = {
        0: (x0, y0, x1, y1),
        90: (y0, width - x1, y1, width - x0),
        180: (width - x1, height - y1, width - x0, height - y0),
        270: (height - y1, x0, height - y0, x1),
    }
    return turned[rotation]


def _intersect(bounds: Box, box: Box) -> Box:
    return (
        max(bounds[0], box[0]),
        max(bounds[1], box[1]),
        min(bounds[2], box[2]),
        min(bounds[3], box[3]),
    )


def _measure_area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
