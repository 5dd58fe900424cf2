"""The benchmarks run and print their tables; speed is not tested."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline_bench.engines.cases import list_names
from strandline_bench.ground import table
from strandline_bench.ground.document import BEGIN, END, write_table
from strandline_bench.ground.folders import join_python_path
from strandline_bench.ground.steady_rate import SteadyRate
from strandline_bench.products.functions import FRAME_RATE
from strandline_bench.products.jobs import JOBS
from strandline_bench.products.manifests import write_manifest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def load_run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script that runs benchmarks, which is not part of a package."""
    spec = importlib.util.spec_from_file_location("bench_run_under_test", BENCH / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_quick_run_prints_a_row_for_each_measurement() -> None:
    done = run_bench("--quick", "--sources", "20000", "tally", "open", "size", "skip")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    named = "\n".join(row.split("|")[1] for row in rows)
    assert len(rows) == 17
    assert "a quick run" in done.stdout
    assert "open a ledger of 20,000 finished sources" in named
    assert "scaled up from 20,000" in named
    assert all(row.split("|")[4].strip() in {"yes", "no", "–", "reached"} for row in rows)


def test_the_driver_is_measured_with_short_and_long_queues() -> None:
    done = run_bench("--quick", "driver")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| driver")]
    assert len(rows) == 8
    assert all("×" in row[3] for row in rows[1::2])


def test_outputs_are_measured_separately_and_in_groups() -> None:
    done = run_bench("--quick", "outputs")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if " ms" in line or " × " in line]
    assert ["ms", "ms", "ms", "×", "ms", "ms", "×"] == [row[2].split()[1] for row in rows]


def test_memory_is_measured_for_yielded_pieces_and_for_a_list() -> None:
    done = run_bench("--quick", "fanout")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if "pieces of" in line]
    assert [row[2].split()[1] for row in rows] == ["MB"] * 4


def test_one_source_is_spread_with_chained_and_isolated_stages() -> None:
    done = run_bench("--quick", "spread")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if "naps of" in line]
    assert [row[2].split()[1] for row in rows] == ["s", "×", "×"]


@pytest.mark.parametrize(
    ("name", "what", "units"),
    [
        ("cost", "ledger's cost", ["%", "ms"] * 2),
        ("engine", "actors", ["µs", "×", "×"]),
        ("overlap", "10 MB inputs", ["ms", "×"] * 2),
        ("driver-limit", "the driver", ["%"] * 3),
        ("json-lines", "read-jsonl, of", ["×"]),
        ("interrupted", "1,000, ", ["s,"] * 3),
        ("stages", "parquet: times as slow", ["×"] * 2),
        ("redo", "of the whole", ["%", "%"]),
        ("crawl", "of the whole", ["%", "%"]),
        ("requests", "of httpx alone", ["%", "%"]),
        ("filters", "four in a row, words by rules ", ["documents/s"]),  # without rivals here
        ("recipe", "pages, whole ", ["pages/s"]),  # without other products here
        ("shuffle", "exact: ", ["s", "GB"]),
        ("shuffle", "rows in one worker: ", ["GB", "GB", "s"]),
        ("duplicates", "half of them in pairs", ["GB"] * 2),
        ("video", "PyAV", ["/s", "×", "×"]),
    ],
)
def test_rows_are_measured_in_their_units(name: str, what: str, units: list[str]) -> None:
    done = run_bench("--quick", name)
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if what in line]
    assert [row[2].split()[1] for row in rows] == units


def test_installed_products_are_compared() -> None:
    done = run_bench("--quick", "--cases", "filter,exact", "products")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if " MB: " in line]
    commands = [row[1].partition(" MB: ")[2].split(" ")[0].strip(",") for row in rows]
    assert commands.count("ours") == 5
    assert {"Polars", "DuckDB", "datasets"} <= set(commands)  # the others are not installed here
    assert "s" in {row[2].split()[1].strip(",") for row in rows}


def test_each_kept_video_frame_is_measured(tmp_path: Path) -> None:
    (job,) = (job for job in JOBS if job.name == "videos")
    videos = 2
    job.write(tmp_path / "in", videos)
    manifest = write_manifest(job.name, tmp_path, tmp_path)
    command = [sys.executable, "-m", "strandline", "run", str(manifest), "--engine", "inline"]
    environment = os.environ | {"PYTHONPATH": join_python_path()}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    rows = pa.concat_tables(map(pq.read_table, (tmp_path / "kept").rglob("*.parquet"))).to_pylist()
    assert len(rows) == videos * 60 * FRAME_RATE
    assert len({row["clip"] for row in rows}) == videos * 6  # clips of ten seconds
    assert all(0 < row["light"] < 255 for row in rows)


def test_nodes_are_measured_against_the_ideal() -> None:
    done = run_bench("--quick", "nodes")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if "naps of" in line]
    assert [row[2].split()[1] for row in rows] == ["tasks", "%"]
    assert all(0 < float(row[2].split()[0]) for row in rows)


def test_a_whole_command_is_measured_by_its_visible_parts() -> None:
    done = run_bench("--quick", "command")
    assert done.returncode == 0, done.stderr
    rows = [line.split("|") for line in done.stdout.splitlines() if "text-documents, cold" in line]
    own = [float(row[2].split()[0]) for row in rows if "--engine ray`" in row[1]]
    assert len(own) == 4  # a node, a worker, an output, and the prompt
    assert own == sorted(own)


def test_unknown_name_is_rejected_with_the_available_names() -> None:
    done = run_bench("tallly")
    assert done.returncode == 2
    assert "there is no benchmark 'tallly'; there are tally, driver, open, size" in done.stderr
    assert done.stdout == ""


def test_bounds_report_whether_they_are_reached() -> None:
    rows = [table.bound("a", 2.0, 2, "%"), table.bound("b", 2.01, 2, "%")]
    rows += [table.reach("c", 1_000_000, 1_000_000, "events/s"), table.reach("d", 9, 10, "x")]
    rows += [table.Row("e", "1 ms")]
    assert [row.verdict for row in rows] == ["yes", "no", "yes", "no", "–"]
    assert rows[2].measured == "1,000,000 events/s"
    assert rows[1].measured == "2.01 %"


def test_steady_rate_excludes_the_start() -> None:
    times = iter([100.0, 101.0, 103.0])
    rate = SteadyRate(10, lambda: next(times))
    for done in (0, 1, 1, 5, 10):
        rate.note(done)
    assert rate.seconds_per_task == pytest.approx(2 / 5)


def test_steady_rate_rejects_a_run_without_records() -> None:
    rate = SteadyRate(10, lambda: 1.0)
    rate.note(3)
    with pytest.raises(RuntimeError, match="only 3 of 10 tasks were seen"):
        _ = rate.seconds_per_task


def test_table_is_put_between_the_markers(tmp_path: Path) -> None:
    document = tmp_path / "benchmarks.md"
    indexes = {"table": "old", "operator": "other"}

    def format_number() -> str:
        return "".join(
            f"{BEGIN.format(index)}{text}\n{END.format(index)}after\n"
            for index, text in indexes.items()
        )

    for index in indexes:
        document.write_text(f"before\n{format_number()}")
        indexes[index] = "new"
        write_table(document, "new\n", index)
        assert document.read_text() == f"before\n{format_number()}"
    document.write_text("no place\n")
    with pytest.raises(ValueError, match=r"benchmarks\.md has no place for the table"):
        write_table(document, "new\n")


def test_document_has_a_place_for_each_table(monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run(monkeypatch)
    text = run.DOCUMENT.read_text()
    cases = list_names()
    parted = [f"engines-{case}" for case in cases] + [f"products-{job.name}" for job in JOBS]
    tables = ("table", *run.TABLES.values(), *parted)
    note = run.NOTE.read_text()
    places = dict.fromkeys(tables, text) | dict.fromkeys(run.TEXTS, note)
    for index, page in places.items():
        assert page.count(BEGIN.format(index)) == page.count(END.format(index)) == 1
    assert set(run.TABLES) <= set(run.BENCHES)


def test_benchmarks_of_one_table_are_written_together() -> None:
    done = run_bench("--quick", "--write", "tally", "video")
    assert done.returncode == 2
    assert "these share a table, so name all or none: tally, driver, open, size" in done.stderr


def test_slow_stages_of_examples_are_profiled() -> None:
    done = run_bench("--quick", "stage-profiles")
    assert done.returncode == 0, done.stderr
    assert "identify-language: " in done.stdout
    assert "py3langid" in done.stdout


def test_text_benchmarks_are_written_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = load_run(monkeypatch)
    teller = ModuleType("strandline_bench.teller")
    vars(teller)["tell"] = lambda _: "calls  time\n"
    monkeypatch.setitem(sys.modules, teller.__name__, teller)
    monkeypatch.setattr(run, "TEXTS", {"told": ("teller", "tell")})
    document = tmp_path / "benchmarks.md"
    document.write_text("<!-- told: begin -->\nold\n<!-- told: end -->\n")
    monkeypatch.setattr(run, "NOTE", document)
    monkeypatch.setattr(sys, "argv", ["run.py", "told", "--write"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(run.signal, "signal", lambda *_: None)
    run.main()
    text = "```text\ncalls  time\n```\n"
    assert document.read_text() == f"<!-- told: begin -->\n{text}<!-- told: end -->\n"
    assert capsys.readouterr().out == f"{text}\n"
