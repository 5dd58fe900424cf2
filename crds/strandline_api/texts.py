"""Text that came from elsewhere, made fit to be kept and shown.

Logs, file names and other programs put anything into a text; what stands in a status must be valid
Unicode and of bounded length. This room must not know what a text is about.
"""

from collections.abc import Callable

CUT = "..."


def repair(text: str) -> str:
    """Render odd bytes of file names, which Python holds as lone surrogates, in plain letters."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, longest: int) -> str:
    """Repair a text and keep its beginning, `longest` characters with the dots at the end."""
    whole = repair(text)
    return whole if len(whole) <= longest else whole[: longest - len(CUT)] + CUT


def cutting(longest: int) -> Callable[[object], object]:
    """Make a function that cuts texts and lets anything else pass."""
    return lambda value: cut(value, longest) if isinstance(value, str) else value
