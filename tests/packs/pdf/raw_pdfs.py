"""PDF files written object by object, for what a maintained writer avoids."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

Objects = dict[int, bytes]
# A font that is not embedded: text extraction needs only its table of characters.
_FONT = (
    b"<< /Type /Font /Subtype /Type0 /BaseFont /Any /Encoding /Identity-H"
    b" /DescendantFonts [4 0 R]%s >>"
)
_DESCENDANT = (
    b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Any /DW 500 /FontDescriptor 6 0 R"
    b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
)
_DESCRIPTOR = (
    b"<< /Type /FontDescriptor /FontName /Any /Flags 4 /FontBBox [0 -200 500 800] /Ascent 800"
    b" /Descent -200 /CapHeight 700 /ItalicAngle 0 /StemV 80 >>"
)
_MAP = (
    b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <ffff>"
    b" endcodespacerange 1 beginbfrange <0000> <ffff> <0000> endbfrange endcmap end"
)


def write_stream(data: bytes, extra: bytes = b"", *, packed: bool = False) -> bytes:
    content = zlib.compress(data, 9) if packed else data
    head = extra + (b" /Filter /FlateDecode" if packed else b"")
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), head, content)


def draw_glyphs(text: str, left: float, top: float, size: int = 12) -> bytes:
    """Return operators that draw characters from left to right, whatever their script."""
    codes = text.encode("utf-16-be").hex().encode()
    return b"BT /F %d Tf %g %g Td <%s> Tj ET\n" % (size, left, top, codes)


def write_pdf(
    pages: Sequence[bytes],
    *,
    is_mapped: bool = True,
    extra: Objects | None = None,
    resources: bytes = b"",
    attributes: bytes = b"",
) -> bytes:
    """Return a file with a page for each stream of operators, which is an object of its own."""
    objects: Objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        3: _FONT % (b" /ToUnicode 5 0 R" if is_mapped else b""),
        4: _DESCENDANT,
        5: write_stream(_MAP),
        6: _DESCRIPTOR,
    } | (extra or {})
    kids = []
    for at, page in enumerate(pages):
        number = 1000 + 2 * at
        kids.append(b"%d 0 R" % number)
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R %s"
            b" /Resources << /Font << /F 3 0 R >> %s >> >>" % (number + 1, attributes, resources)
        )
        objects[number + 1] = page if page.startswith(b"<<") else write_stream(page)
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _join(objects)


def _join(objects: Objects) -> bytes:
    file, offsets = b"%PDF-1.7\n", {}
    for number, content in sorted(objects.items()):
        offsets[number] = len(file)
        file += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"xref\n0 1\n0000000000 65535 f \n" + b"".join(
        b"%d 1\n%010d 00000 n \n" % entry for entry in offsets.items()
    )
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return file + table + trailer % (max(objects) + 1, len(file))


def write_hanging_form(levels: int = 6, uses: int = 40) -> tuple[Objects, bytes]:
    """Return forms that draw each other `uses` times at each level, and their resources."""
    head = b"/Type /XObject /Subtype /Form /BBox [0 0 500 500] /Resources << %s >>"
    objects, used = {}, b"/Font << /F 3 0 R >>"
    drawn = draw_glyphs("deep", 10, 10)
    for level in range(levels):
        number = 100 + level
        objects[number] = write_stream(drawn, head % used)
        used, drawn = b"/XObject << /X %d 0 R >>" % number, b"/X Do " * uses
    return objects, used
