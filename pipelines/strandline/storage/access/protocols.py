"""Checks whether a URL can be opened: fsspec supports its protocol, and the package is installed.

The module opens nothing and sends no request.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

import fsspec
from fsspec.registry import known_implementations

from strandline.plan.packages import advise, name_package

# Matches the protocol of `s3://bucket`, and a lone protocol such as `simplecache` in a chained URL.
_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(?:://|\Z)")


class Lack(NamedTuple):
    """The reason why a URL can't be opened, and the remedy."""

    message: str
    hint: str


def find_lack(url: str) -> Lack | None:
    """Return the problem that prevents opening a URL.

    Return None for plain paths, and for URLs that can be opened.
    """
    if "://" not in url:
        return None
    for part in url.split("::"):
        found = _PROTOCOL.match(part)
        lack = _look_at(found[1]) if found else None
        if lack is not None:
            return lack
    return None


def _look_at(protocol: str) -> Lack | None:
    try:
        fsspec.get_filesystem_class(protocol)
    except ValueError:
        close = difflib.get_close_matches(protocol, known_implementations, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}://?" if close else "see fsspec's list of file systems"
        return Lack(f"unknown protocol {protocol}://", hint)
    except ImportError as error:
        module = _find_module(protocol, error)
        needs = f"{protocol}:// needs the package {name_package(module)}, which is not installed"
        return Lack(needs, advise(module))
    return None


def _find_module(protocol: str, error: ImportError) -> str:
    """Return the name of the missing module, which only the cause of fsspec's error contains."""
    cause = error.__cause__
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return cause.name
    return str(known_implementations[protocol]["class"]).partition(".")[0]
