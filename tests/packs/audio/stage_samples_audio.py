"""Parameters of the pack's stages for the tests over all stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sound_models import write_listener


def _name_listener(folder: Path) -> dict[str, Any]:
    model, labels = write_listener(folder)
    return {"model": model, "labels": labels}


REQUIRED = {"identify-spoken-language": _name_listener}
FILTERS = {
    "filter-audio": lambda _folder: {"bounds": {"brightness": [0.05, None], "sharpness": [None, 9]}}
}
