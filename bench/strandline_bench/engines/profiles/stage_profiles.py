"""Finds the stages of the examples with the most CPU time per byte, and profiles them.

Seconds are CPU time of runs without profiling; profiles come from separate runs. A stage's bytes
are the larger of input and output, because the first stages receive only names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import yaml

from strandline_bench.engines.profiles.engine_profile import describe_stats
from strandline_bench.engines.profiles.metered_command import PROFILES
from strandline_bench.ground.folders import EXAMPLES, ROOT, join_python_path
from strandline_bench.ground.scale import Scale

# Examples that need no model server.
_EXAMPLES = (
    "text-documents",
    "python-functions",
    "images",
    "web-pages",
    "fineweb",
    "pretraining",
    "near-duplicates-1",
    "video",
)
_SLOWEST, _LINES = 10, 5
_LEAST = 0.1  # minimum seconds; shorter times mainly consist of the first call
_EXAMPLES_FOLDER = EXAMPLES.relative_to(ROOT)


def profile_stages(scale: Scale) -> str:
    """Return the slowest stages with their profiles."""
    folder = scale.folder / "examples"
    shutil.copytree(EXAMPLES, folder / _EXAMPLES_FOLDER)
    _make_inputs(folder, scale)
    names = _EXAMPLES[:1] if scale.is_quick else _EXAMPLES
    meters, profiles = (_run_all(folder, names, setting) for setting in ("", "1"))
    took = {stage: _add_up(paths) for stage, paths in _gather(meters, "json").items()}
    seen = [stage for stage, (seconds, _) in took.items() if seconds >= _LEAST]
    slowest = sorted(seen, key=lambda stage: took[stage][0] / took[stage][1], reverse=True)
    stats = _gather(profiles, "prof")
    parts = (
        f"{stage}: {_describe(*took[stage])}\n{describe_stats(stats[stage], _LINES)}"
        for stage in slowest[:_SLOWEST]
    )
    return "\n\n".join(parts) + "\n"


def _describe(seconds: float, size: int) -> str:
    return f"{1e6 * seconds / size:.3f} s a megabyte, {seconds:.1f} s of {size / 1e6:.1f} MB"


def _make_inputs(folder: Path, scale: Scale) -> None:
    data = folder / "strandline-data"
    pages = str(scale.pick(3_000, 30))
    for script, name, *words in (
        ("make_crawl.py", "crawl", "--pages", pages),
        ("make_networks.py", "networks"),
        ("make_videos.py", "videos"),
    ):
        command = [sys.executable, str(_EXAMPLES_FOLDER / script), str(data / name), *words]
        subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - ours


def _run_all(folder: Path, names: tuple[str, ...], setting: str) -> Path:
    """Run the examples, and return the folders with the measurements of their stages."""
    meters = folder / f"meters{setting}"
    meters.mkdir()
    environment = {**os.environ, "PYTHONPATH": join_python_path(), PROFILES: setting}
    for name in names:
        path = _EXAMPLES_FOLDER / f"{name}.yaml"
        for each in yaml.safe_load_all((folder / path).read_text()):
            drive = ["drive", f"{path}#{each['metadata']['name']}", "--engine", "inline"]
            module = "strandline_bench.engines.profiles.metered_command"
            command = [sys.executable, "-m", module, str(meters), *drive]
            subprocess.run(  # noqa: S603 - ours
                command, cwd=folder, env=environment, check=True, capture_output=True
            )
    shutil.rmtree(folder / "strandline-data" / "default")
    return meters


def _gather(folder: Path, suffix: str) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = defaultdict(list)
    for path in folder.glob(f"*.{suffix}"):
        files[path.stem.rpartition("-")[0]].append(path)
    return files


def _add_up(paths: list[Path]) -> tuple[float, int]:
    """Sum a stage's seconds and bytes over all examples."""
    each = [json.loads(path.read_text()) for path in paths]
    return sum(seconds for seconds, _ in each), max(1, sum(size for _, size in each))
