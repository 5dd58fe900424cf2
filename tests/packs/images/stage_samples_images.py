"""Parameters of the pack's stages that have required parameters."""

from __future__ import annotations

REQUIRED = {"show-samples": lambda _folder: {"columns": ["text"]}}
