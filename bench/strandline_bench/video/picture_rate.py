"""Compares `decode-images` and `blur-images` with a plain loop: pictures per second of a core."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, ImageFilter
from rapidocr import RapidOCR

from strandline.plan.task import Task
from strandline_bench.ground.folders import EXAMPLES
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_packs.images.blur_images import BlurImages
from strandline_packs.images.decode_images import DecodeImages

KEEPS = 0.7  # share of the plain loop's rate
Pixels = npt.NDArray[np.uint8]
Find = Callable[[Pixels], list[list[int]]]


def measure_pictures(scale: Scale) -> list[Row]:
    """Blur the example's pictures with a plain loop and with the stages, in turns."""
    sys.path.append(str(EXAMPLES))
    import make_pictures  # noqa: PLC0415 - lies elsewhere

    folder = scale.folder / "pictures"
    make_pictures.write_all(folder)
    paths = sorted(folder.iterdir())[: scale.pick(15, 2)]
    return _compare(_open_text(), paths, scale.pick(5, 1))


def _compare(find: Find, paths: Sequence[Path], turns: int) -> list[Row]:
    decode, blur = DecodeImages(), BlurImages(blur=["text"])
    decode.setup()
    blur.setup()

    def stages(path: Path) -> None:
        table = pa.table({"key": [path.name], "content": [path.read_bytes()]})
        for task in decode.process(Task(table)) or []:
            blur.process(task)

    works: dict[str, Callable[[Path], None]] = {
        "a plain loop": lambda path: _blur_plainly(path, find),
        "decode-images and blur-images": stages,
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            start = time.process_time()
            for path in paths:
                work(path)
            if turn:  # the first turn loads the models
                seconds[name].append(time.process_time() - start)
    rates = {name: len(paths) / median(each) for name, each in seconds.items()}
    what = f"{len(paths)} pictures of up to 400 × 300, blur text, per second of a core"
    plain, ours = rates.values()
    return [
        *(Row(f"{what}: {name}", format_number(rate, "/s")) for name, rate in rates.items()),
        reach("blur text: the stages, of the loop's rate", ours / plain, KEEPS, "×"),
    ]


def _open_text() -> Find:
    options = {"Global.use_cls": False, "Global.log_level": "critical"}
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    engine: Any = RapidOCR(params={**options, **threads})

    def find(pixels: Pixels) -> list[list[int]]:
        boxes = engine(pixels, use_rec=False).boxes
        return [] if boxes is None else np.hstack([boxes.min(1), boxes.max(1)]).astype(int).tolist()

    return find


def _blur_plainly(path: Path, find: Find) -> None:
    image = Image.open(path).convert("RGB")
    for left, top, right, bottom in find(np.ascontiguousarray(np.asarray(image)[:, :, ::-1])):
        area = (left, top, right, bottom)
        radius = min(right - left, bottom - top) / 2
        image.paste(image.crop(area).filter(ImageFilter.GaussianBlur(radius)), area[:2])
    image.tobytes()
