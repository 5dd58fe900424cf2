"""`make kills`: kill each kind of process twenty times in the main job, and keep the table.

python tests/runtime/run_kills.py [--seeds N] [--limit FILES] [--write]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import yaml

from jobs import TARGETS, Job
from killing import Result, choose_kill, kill_and_finish

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "pipelines" / "examples" / "python-functions.yaml"
REPORT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- kills: begin -->", "<!-- kills: end -->"


def main() -> int:
    """Run all kills; exit code 1 where one of them lost or doubled anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="kills a target")
    parser.add_argument("--limit", type=int, help="only so many files of the real input")
    parser.add_argument("--write", action="store_true", help=f"keep the table in {REPORT.name}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        manifest, sources = _write_manifest(Path(folder), arguments.limit)
        job = Job(manifest)
        whole = job.run_whole(Path(folder, "whole"))
        print(f"undisturbed: {sources} sources, {len(whole)} outputs", flush=True)
        results = [
            _run(job, Path(folder, f"{target}-{seed}"), target, seed, whole)
            for target in TARGETS
            for seed in range(arguments.seeds)
        ]
    table = _tabulate(results, sources, arguments.limit)
    print(table)
    if arguments.write:
        text = REPORT.read_text()
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        REPORT.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")
    return 0 if all(result.is_good for result in results) else 1


def _write_manifest(folder: Path, limit: int | None) -> tuple[Path, int]:
    """The main job with a first stage that keeps a log of its own."""
    document = yaml.safe_load(EXAMPLE.read_text())
    spec = document["spec"]
    spec["stages"].insert(0, {"use": "kill_stages:LogOpened"})
    if limit:
        spec["source"]["with"]["limit"] = limit
    manifest = folder / "main.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest, spec["source"]["with"]["buckets"]


def _run(job: Job, volume: Path, target: str, seed: int, whole: dict[str, str]) -> Result:
    result = kill_and_finish(job, volume, choose_kill(target, seed, len(whole)), whole)
    mark = "ok" if result.is_good else "BAD"
    print(
        f"{mark} {target} {seed}: {result.kill}, {result.kept} kept, {result.runs} runs more",
        flush=True,
    )
    return result


def _tabulate(results: list[Result], sources: int, limit: int | None) -> str:
    size = f"{limit} files" if limit else "all files"
    lines = [
        f"The main job over {size} in {sources} sources.",
        "",
        "| killed | kills that fired | finished sources kept | of these opened again | same output "
        "| verified |",
        "|---|---|---|---|---|---|",
    ]
    for target in TARGETS:
        own = [result for result in results if result.kill.target == target]
        fired = sum(result.has_fired for result in own)
        kept = sum(result.kept for result in own)
        reopened = sum(len(result.reopened) for result in own)
        same = sum(result.is_same for result in own)
        verified = sum(result.is_verified for result in own)
        lines.append(
            f"| {target} | {fired} of {len(own)} | {kept} | {reopened} | {same} of {len(own)} "
            f"| {verified} of {len(own)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
