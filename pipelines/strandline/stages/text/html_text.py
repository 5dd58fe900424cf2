"""The readable text of an HTML page: what is left without scripts, navigation and boilerplate.

Pure: HTML in, lines of text out.
"""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

_BOILERPLATE = (
    "script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form",
    "button", "select", "iframe", "svg", "[role=navigation]", "[aria-hidden=true]", "[hidden]",
)  # fmt: skip
_MAIN = ("article", "main", "[role=main]")
_BLOCKS = (
    "p", "div", "li", "ul", "ol", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "br",
    "hr", "tr", "pre", "blockquote", "section", "article", "main", "table", "figure", "td", "th",
)  # fmt: skip


def extract_html_text(html: str) -> str:
    """The main text of a page, one line per block; empty where there is none."""
    tree = LexborHTMLParser(html)
    body = tree.body
    if body is None:
        return ""
    for node in body.css(", ".join(_BOILERPLATE)):
        node.decompose()
    main = _find_main(body)
    for node in main.css(", ".join(_BLOCKS)):
        if node.mem_id != main.mem_id:
            node.insert_before("\n")
            node.insert_after("\n")
    lines = (" ".join(line.split()) for line in main.text(separator="").split("\n"))
    return "\n".join(line for line in lines if line)


def _find_main(body: LexborNode) -> LexborNode:
    """The only node that is marked as the main part, else the whole body."""
    for selector in _MAIN:
        found = body.css(selector)
        if len(found) == 1:
            return found[0]
    return body
