"""Parameters of the pack's stages that have required parameters."""

from __future__ import annotations

from tiny_models import make_bright_faces

REQUIRED = {
    "blur-images": lambda folder: {"model": make_bright_faces(folder / "faces.onnx")},
    "show-samples": lambda _folder: {"columns": ["text"]},
}
