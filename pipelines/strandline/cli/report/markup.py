"""HTML and SVG from functions: whatever is not markup already is text, and is escaped.

It must not know what a page says. Nothing but `element` and `escape` makes markup, so no text from
outside can become a tag by being forgotten.
"""

from __future__ import annotations

import re
from html import escape as escape_html

from strandline.cli.views.format import escape_text

CHARACTERS = 1000  # most of one text; keys and messages may be of any length
# HTML's elements without an end tag.
_VOID = frozenset({"meta", "br"})
_ANCHOR = re.compile(r'( (?:id|aria-labelledby)="| href="#)')


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Attribute = str | float | None
Child = str | None


def escape(text: str) -> Markup:
    """Return text from outside as it is read, whatever it holds.

    What can't be seen is spelled out.
    """
    if len(text) > CHARACTERS:
        text = f"{text[:CHARACTERS]}…"
    return Markup(escape_html(escape_text(text)))


def prefix_anchors(markup: Markup, prefix: str) -> Markup:
    """Return markup with a word before each anchor, so that several of a kind fit on one page.

    What people wrote can't look like an attribute: its quotation marks are escaped.
    """
    return Markup(_ANCHOR.sub(lambda found: f"{found[1]}{prefix}", markup))


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element; children that are no markup are escaped.

    Args:
        tag: its name.
        children: in order; None is left out.
        attributes: `class_` is `class`, `aria_label` is `aria-label`; None is left out, and so is
            the value of an empty one.
    """
    words = [tag]
    for name, value in attributes.items():
        if value is not None:
            written = name.rstrip("_").replace("_", "-")
            words.append(f'{written}="{escape_html(str(value))}"' if value != "" else written)
    start = Markup(f"<{' '.join(words)}>")
    return start if tag in _VOID else Markup(f"{start}{join(*children)}</{tag}>")


def join(*children: Child) -> Markup:
    """Return several pieces one after the other."""
    return Markup(
        "".join(each if isinstance(each, Markup) else escape(each or "") for each in children)
    )
