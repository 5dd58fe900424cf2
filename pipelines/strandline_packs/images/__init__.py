"""Stages for pictures."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "blur-images": "strandline_packs.images.blur_images:BlurImages",
        "decode-images": "strandline_packs.images.decode_images:DecodeImages",
        "measure-images": "strandline_packs.images.measure_images:MeasureImages",
        "resize-images": "strandline_packs.images.resize_images:ResizeImages",
        "show-samples": "strandline_packs.images.sampling.show_samples:ShowSamples",
    },
    packages=(
        Dependency(module="PIL", name="pillow", install="strandline[images]"),
        Dependency(module="cv2", name="opencv-python-headless", install="strandline[ocr]"),
    ),
    page="docs/images.md",
)
