"""Runs the benchmarks and prints their tables: `python bench/run.py [--quick] [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from collections.abc import Mapping

from strandline_bench.ground.document import write_table
from strandline_bench.ground.folders import CONTROL_PLANE, EXAMPLES, NODE, ROOT
from strandline_bench.ground.scale import Scale, read_installed_memory
from strandline_bench.ground.table import Row, format_markdown
from strandline_bench.history.comparison import compare
from strandline_bench.history.figures import read_commands, read_figures
from strandline_bench.history.floors import list_unmet, read_floors
from strandline_bench.history.picture import BARS, draw_bars, draw_history
from strandline_bench.history.record import (
    add_entry,
    describe_commit,
    list_written,
    make_entry,
    read_history,
    write_history,
)

DOCUMENT = ROOT / "docs" / "design" / "measurements.md"
HISTORY = ROOT / "bench" / "history.jsonl"
# Current and former documents with the tables. A lost history is rebuilt from their commits.
WRITTEN = ("docs/benchmarks.md", "docs/design/measurements.md")
FLOORS = ROOT / "bench" / "floors.toml"
QUICK_FLOORS = ROOT / "bench" / "quick-floors.toml"
PICTURES = ROOT / "docs" / "pictures"
# Maintainers alone need profiles, so their tables go into a design note.
NOTE = ROOT / "docs" / "design" / "2026-11-27-where-the-time-goes.md"
# Benchmarks by name: the module, which is imported when needed, and its function.
BENCHES = {
    "tally": ("ledger.tally", "measure_tally"),
    "driver": ("runtime.driver", "measure_driver"),
    "open": ("ledger.opening", "measure_open"),
    "size": ("ledger.size", "measure_size"),
    "skip": ("ledger.skip", "measure_skip"),
    "outputs": ("runtime.outputs", "measure_outputs"),
    "filters": ("text.filters", "measure_filters"),
    "adapters": ("text.brought.adapters", "measure_adapters"),
    "json-lines": ("text.json_lines", "measure_json_lines"),
    "stages": ("products.stage_comparison", "measure_stages"),
    "redo": ("runtime.redo", "measure_redo"),
    "crawl": ("runtime.crawl", "measure_crawl"),
    "requests": ("asking.requests", "measure_requests"),
    "recipe": ("text.recipes.recipe", "measure_recipe"),
    "frames": ("text.brought.frames", "measure_frames"),
    "duplicates": ("text.duplicates", "measure_duplicates"),
    "shuffle": ("text.shuffle", "measure_shuffle"),
    "semantic": ("asking.semantic", "measure_semantic"),
    "fanout": ("engines.fanout.yielding", "measure_fanout"),
    "spread": ("engines.fanout.spread", "measure_spread"),
    "nodes": ("runtime.nodes", "measure_nodes"),
    "driver-limit": ("runtime.driver_limit", "measure_limit"),
    "lost": ("losses.work", "measure_lost_work"),
    "lost-nodes": ("losses.nodes", "measure_lost_nodes"),
    "products": ("products.comparison", "measure_products"),
    "interrupted": ("products.interruption", "measure_interruptions"),
    "command": ("runtime.command", "measure_command"),
    "cost": ("ledger.cost", "measure_cost"),
    "pdf": ("products.pdf_pages", "measure_pdf"),
    "pictures": ("video.picture_rate", "measure_pictures"),
    "video": ("video.rate", "measure_video"),
    "video-runs": ("video.runs", "measure_video_runs"),
    "audio": ("video.sound_rate", "measure_audio"),
    "engine": ("runtime.overhead", "measure_engine"),
    "overlap": ("runtime.overlap", "measure_overlap"),
    "engines": ("engines.comparison", "measure_engines"),
    "operator": ("operator.bench", "measure_operator"),
    "operator-many": ("operator.many", "measure_many"),
    "rest": ("operator.rest", "measure_rest"),
    "operator-kuberay": ("operator.kuberay", "measure_kuberay"),
}
# Benchmarks that take half an hour or more. A run without names skips them.
LONG = {"engines", "products", "interrupted"}
# Benchmarks with a table per case.
PARTED = {"engines", "products"}
# Benchmarks that print text instead of a table. They run only if named.
TEXTS = {
    "profile": ("engines.profiles.engine_profile", "profile_engine"),
    "stage-profiles": ("engines.profiles.stage_profiles", "profile_stages"),
}
NAMES = ", ".join((*BENCHES, *TEXTS))
# Tables of the document by benchmark; a run rewrites the tables of its benchmarks. Benchmarks that
# are not listed share the table `table`. Each case of `engines` and `products` takes long and has
# its own table, such as `engines-tiny`.
TABLES = {
    name: name
    for name in (
        "outputs",
        "filters",
        "json-lines",
        "stages",
        "redo",
        "crawl",
        "shuffle",
        "requests",
        "recipe",
        "fanout",
        "spread",
        "nodes",
        "lost",
        "lost-nodes",
        "driver-limit",
        "interrupted",
        "command",
        "pdf",
        "video",
        "video-runs",
        "audio",
        "operator",
        "operator-many",
        "rest",
        "operator-kuberay",
    )
}


def main() -> None:
    """Measure and print the tables. Options also write, compare, or check them."""
    options = _parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run the cleanup on SIGTERM
    begun = time.monotonic()
    complaints: list[str] = []
    if options.draw:
        _write({})
    elif options.compare:
        complaints = list(map(str, compare(ROOT, options.compare, _pass_on(options))))
    else:
        texts = _measure(options)
        sys.stdout.write("".join(f"{text}\n" for text in texts.values()))
        if options.write:
            _write(texts)
        if options.floors:
            complaints = _check_floors(options, texts)
    _report(f"took {time.monotonic() - begun:.0f} s")
    if complaints:
        sys.exit("\n".join(complaints))


def _measure(options: argparse.Namespace) -> dict[str, str]:
    """Run the benchmarks and return the Markdown of each table, by table name."""
    sys.path += [str(CONTROL_PLANE), str(EXAMPLES), str(NODE)]
    sizes = {name: getattr(options, name) for name in ("sources", "pipelines", "turns", "requests")}
    scale = Scale(is_quick=options.quick, cases=options.cases, **sizes)
    tables: dict[str, list[Row]] = {}
    texts: dict[str, str] = {}
    try:
        for name in options.names:
            module, function = (BENCHES | TEXTS)[name]
            _report(f"{name} ...")
            made = getattr(importlib.import_module(f"strandline_bench.{module}"), function)(scale)
            if name in TEXTS:
                texts[name] = f"```text\n{made}```\n"
            elif isinstance(made, dict):  # one table per case
                tables |= {f"{name}-{case}": rows for case, rows in made.items()}
            else:
                tables.setdefault(TABLES.get(name, "table"), []).extend(made)
    finally:
        scale.remove()
    machine = _describe_machine(is_quick=options.quick)
    return texts | {
        marker: f"{machine}\n\n{format_markdown(rows)}" for marker, rows in tables.items()
    }


def _write(texts: Mapping[str, str]) -> None:
    """Write the tables and the history of their ratios, and redraw the pictures."""
    for marker, text in texts.items():
        write_table(NOTE if marker in TEXTS else DOCUMENT, text, marker)
    entry = make_entry(*describe_commit(ROOT), DOCUMENT.read_text())
    history = read_history(HISTORY) or list_written(ROOT, WRITTEN)
    write_history(HISTORY, add_entry(history, entry))
    draw()


def draw() -> None:
    """Draw the pictures of the document and the history."""
    seconds = read_commands(DOCUMENT.read_text(), BARS)
    (PICTURES / "benchmarks.svg").write_text(draw_bars(BARS, seconds))
    history = draw_history(read_history(HISTORY))
    (PICTURES / "benchmarks-history.svg").write_text(history)


def _check_floors(options: argparse.Namespace, texts: Mapping[str, str]) -> list[str]:
    figures = read_figures("\n".join(texts.values()))
    floors = read_floors(QUICK_FLOORS if options.quick else FLOORS)
    return [
        sentence for name in options.names for sentence in list_unmet(floors.get(name, {}), figures)
    ]


def _pass_on(options: argparse.Namespace) -> list[str]:
    """Return the command-line arguments for measuring another commit.

    The arguments name every benchmark, because the other commit may have different defaults.
    """
    sizes = ["--quick"] if options.quick else []
    return [*sizes, *options.names]


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {NAMES}")
    parser.add_argument("--quick", action="store_true", help="small numbers, under two minutes")
    parser.add_argument("--sources", type=int, metavar="N", help="of the filled ledger")
    parser.add_argument("--pipelines", type=int, metavar="N", help="of the operator")
    parser.add_argument("--write", action="store_true", help="put the tables into the document")
    parser.add_argument(
        "--cases", type=_split, metavar="A,B", help="of the engines or products, only these"
    )
    parser.add_argument("--turns", type=int, metavar="N", help="of the engines or products")
    parser.add_argument("--requests", type=int, metavar="N", help="to models")
    parser.add_argument("--draw", action="store_true", help="measure nothing; draw what is written")
    parser.add_argument("--compare", metavar="COMMIT", help="name what became worse since")
    parser.add_argument(
        "--floors",
        action="store_true",
        help=f"hold what {FLOORS.name} says, or {QUICK_FLOORS.name} with --quick",
    )
    options = parser.parse_args()
    floors = QUICK_FLOORS if options.quick else FLOORS
    every = list(read_floors(floors)) if options.floors else [n for n in BENCHES if n not in LONG]
    options.names = options.names or every
    unknown = [name for name in options.names if name not in BENCHES | TEXTS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {NAMES}")
    sharing = [name for name in BENCHES if name not in {*TABLES, *PARTED}]
    if options.write and set(options.names) & set(sharing) not in (set(), set(sharing)):
        parser.error(f"these share a table, so name all or none: {', '.join(sharing)}")
    return options


def _split(text: str) -> list[str]:
    cases = importlib.import_module("strandline_bench.engines.cases").list_names()
    jobs = importlib.import_module("strandline_bench.products.jobs").JOBS
    names, known = text.split(","), [*cases, *(job.name for job in jobs)]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(known)}")
    return names


def _describe_machine(*, is_quick: bool) -> str:
    cores = len(os.sched_getaffinity(0))
    memory = round(read_installed_memory() / (1 << 30))
    size = "; a quick run with small numbers, not for comparison" if is_quick else ""
    return f"{cores} cores, {memory} GB of memory{size}."


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
