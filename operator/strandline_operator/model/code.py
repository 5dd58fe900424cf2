"""The parts of a ConfigMap with a user's code that decisions need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strandline_operator.model.objects import read_mapping

PYTHON = ".py"


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Contents of a ConfigMap, by key.

    Attributes:
        texts: the ConfigMap's `data`.
        binaries: the ConfigMap's `binaryData`, in base64.
    """

    texts: Mapping[str, str]
    binaries: Mapping[str, str]

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> CodeFiles:
        """Return the files of a ConfigMap. Invalid fields count as empty."""
        return cls(read_mapping(body.get("data")), read_mapping(body.get("binaryData")))

    @property
    def has_modules(self) -> bool:
        """Return True if the ConfigMap contains a Python module."""
        return any(name.endswith(PYTHON) for name in (*self.texts, *self.binaries))
