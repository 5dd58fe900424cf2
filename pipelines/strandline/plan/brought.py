"""Code that a pipeline brings, as far as a plan needs it: what of it decides the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class BroughtCode:
    """What was brought beside the image, or beside what is installed.

    Attributes:
        parts: of the fingerprint, by path: digests, and packages with their versions.
        hint: where a module is looked for, in words for whoever names one that is not there.
    """

    parts: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
