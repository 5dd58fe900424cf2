"""Code that a pipeline brings in a ConfigMap, as far as decisions need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strandline_operator.model.objects import read_mapping

PYTHON = ".py"


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """What a ConfigMap holds, by key.

    Attributes:
        texts: its `data`.
        binaries: its `binaryData`, in base64.
    """

    texts: Mapping[str, str]
    binaries: Mapping[str, str]

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> CodeFiles:
        """Return the files of a ConfigMap, whatever its object has."""
        return cls(read_mapping(body.get("data")), read_mapping(body.get("binaryData")))

    @property
    def has_modules(self) -> bool:
        """Return whether there is anything that Python could import."""
        return any(name.endswith(PYTHON) for name in (*self.texts, *self.binaries))
