"""`make kills`: kill each kind of process twenty times in the main job, and keep the table.

FineWeb's recipe is also killed twenty times across its passes: either all processes or only the
driver.

python tests/runtime/run_kills.py [--seeds N] [--limit FILES] [--recipe] [--write]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import yaml

from jobs import TARGETS, Job
from killing import Result, choose_kill, kill_and_finish
from recipe_kills import Recipe, RecipeKills
from recipe_kills import kill_and_finish as kill_recipe

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "pipelines" / "examples" / "python-functions.yaml"
REPORT = ROOT / "docs" / "reliability.md"
RECIPE_PAGES, RUNS = 340, 4  # the last run is on Ray


def main() -> int:
    """Run all kills. Return exit code 1 if any work was lost or duplicated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="kills a target")
    parser.add_argument("--limit", type=int, help="only so many files of the real input")
    parser.add_argument("--recipe", action="store_true", help="kill the recipe, not the main job")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {REPORT.name}")
    arguments = parser.parse_args()
    is_good = True
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        if not arguments.recipe:
            table, is_good = _kill_main(Path(folder), arguments.seeds, arguments.limit)
            _keep(table, "kills", is_written=arguments.write)
        results = _kill_recipe(Path(folder), -(-arguments.seeds // RUNS))
        _keep(_tabulate_recipes(results), "recipe kills", is_written=arguments.write)
    return 0 if is_good and all(result.is_good for result in results) else 1


def _kill_main(folder: Path, seeds: int, limit: int | None) -> tuple[str, bool]:
    """Kill every target in the main job. Return the table, and whether all results are good."""
    manifest, sources = _write_manifest(folder, limit)
    job = Job(manifest)
    whole = job.run_whole(folder / "whole")
    print(f"undisturbed: {sources} sources, {len(whole)} outputs", flush=True)
    results = [
        _run(job, folder / f"{target}-{seed}", target, seed, whole)
        for target in TARGETS
        for seed in range(seeds)
    ]
    return _tabulate(results, sources, limit), all(result.is_good for result in results)


def _keep(table: str, name: str, *, is_written: bool) -> None:
    print(table)
    if is_written:
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        text = REPORT.read_text()
        head, tail = text.split(begin)[0], text.split(end)[1]
        REPORT.write_text(f"{head}{begin}\n{table}\n{end}{tail}")


def _write_manifest(folder: Path, limit: int | None) -> tuple[Path, int]:
    """Write the main job with an additional first stage that logs opened sources."""
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


def _kill_recipe(folder: Path, kills: int) -> list[RecipeKills]:
    recipe = Recipe(folder, RECIPE_PAGES)
    recipe.run(folder / "whole-recipe")
    whole = recipe.read_kept(folder / "whole-recipe")
    total = sum(recipe.count_outputs(folder / "whole-recipe").values())
    results = []
    for seed in range(RUNS):
        engine = "ray" if seed == RUNS - 1 else "inline"
        volume = folder / f"recipe-{seed}"
        results.append(kill_recipe(recipe, volume, seed, kills, (whole, total), engine))
        mark = "ok" if results[-1].is_good else "BAD"
        print(f"{mark} recipe {seed} on {engine}: {results[-1]}", flush=True)
    return results


def _tabulate_recipes(results: list[RecipeKills]) -> str:
    fired, asked = sum(each.fired for each in results), sum(each.asked for each in results)
    passes = len({name for each in results for name in each.passes})
    kept = sum(each.kept for each in results)
    again = sum(len(each.rewritten) for each in results)
    same = sum(each.is_same for each in results)
    verified = sum(each.is_verified for each in results)
    return (
        f"FineWeb's recipe over {RECIPE_PAGES} pages, in {RUNS} runs that were killed on their "
        "way through the passes.\n\n"
        "| kills that fired | passes in which | finished outputs kept | of these written again "
        "| same kept set | verified |\n"
        "|---|---|---|---|---|---|\n"
        f"| {fired} of {asked} | {passes} | {kept} | {again} | {same} of {len(results)} "
        f"| {verified} of {len(results)} |"
    )


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
