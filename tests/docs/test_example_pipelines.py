"""The examples run as a reader would run them, and a second run skips all sources."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from make_crawl import list_pages

from command_server import execute_command, execute_strandline
from strandline_packs.web.warc.record_chunks import read_members
from web_archive import SENTENCES, format_archive, write_pages

pytestmark = pytest.mark.first(reason="runs every example")

ROOT = Path(__file__).parents[2]
EXAMPLES = "pipelines/examples"
DATA = "strandline-data/default"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with the examples, as in a checkout."""
    shutil.copytree(ROOT / EXAMPLES, tmp_path / EXAMPLES)
    return tmp_path


def run(folder: Path, *words: str, code: int = 0) -> str:
    done = execute_strandline(*words, cwd=folder)
    assert done.returncode == code, (done.stdout, done.stderr)
    return f"{done.stdout}{done.stderr}"


def run_script(folder: Path, name: str, *words: str) -> None:
    done = execute_command([sys.executable, f"{EXAMPLES}/{name}", *words], cwd=folder)
    assert done.returncode == 0, done.stderr


def run_example(folder: Path, name: str, *words: str, code: int = 0) -> dict[str, Any]:
    words = ("--engine", "inline", "--json", *words)
    said = run(folder, "run", f"{EXAMPLES}/{name}.yaml", *words, code=code)
    lines = [json.loads(line) for line in said.splitlines() if '"outcome"' in line]
    sources: dict[str, Any] = lines[-1]["sources"]
    return sources


def make_list(folder: Path) -> list[dict[str, str]]:
    run(
        folder,
        "near-duplicates",
        f"{DATA}/near-duplicates-1/latest",
        "--out",
        "strandline-data/near-duplicates.parquet",
    )
    rows: list[dict[str, str]] = pq.read_table(
        folder / "strandline-data/near-duplicates.parquet"
    ).to_pylist()
    return rows


def read_names(folder: Path) -> list[str]:
    files = (folder / DATA / "near-duplicates-2/output").rglob("*.jsonl")
    lines = [line for path in files for line in path.read_text().splitlines()]
    keys = [json.loads(line)["key"] for line in lines]
    return sorted(Path(key).name for key in keys)


def test_near_duplicates_are_dropped_in_two_passes_that_resume(folder: Path) -> None:
    texts = folder / EXAMPLES / "near-duplicates"
    assert 6 == run_example(folder, "near-duplicates-1")["finished"]
    listed = {Path(row["key"]).name: Path(row["stays"]).name for row in make_list(folder)}
    assert {
        "lighthouse.txt": "lighthouse-reprint.txt",
        "tide-wrapped.txt": "tide-edited.txt",
        "tide.txt": "tide-edited.txt",
    } == listed
    kept = ["lighthouse-reprint.txt", "ropes.txt", "tide-edited.txt"]

    assert 6 == run_example(folder, "near-duplicates-2")["finished"]
    assert kept == read_names(folder)
    assert 6 == run_example(folder, "near-duplicates-2")["skipped"]

    (texts / "unlike.txt").write_text("Nets were dried on the green behind the church in June.")
    assert 6 == run_example(folder, "near-duplicates-1")["skipped"]
    make_list(folder)
    again = run_example(folder, "near-duplicates-2")
    assert (6, 1) == (again["skipped"], again["finished"])

    shutil.copy(texts / "ropes.txt", texts / "alike.txt")
    run_example(folder, "near-duplicates-1")
    make_list(folder)
    said = run(folder, "run", f"{EXAMPLES}/near-duplicates-2.yaml", "--engine", "inline", code=65)
    assert "drop-listed.inputs.path: " in said
    run_example(folder, "near-duplicates-2", "--set", "onChange=Restart")
    assert ["alike.txt", *(name for name in kept if name != "ropes.txt"), "unlike.txt"] == (
        read_names(folder)
    )


def test_artifacts_of_the_first_pass_are_beside_its_output(folder: Path) -> None:
    run_example(folder, "near-duplicates-1")
    artifacts = folder / DATA / "near-duplicates-1/latest/artifacts"
    (row,) = json.loads((artifacts / "count-tokens.token-counts.json").read_text())["rows"]
    assert 6 == row["documents"]
    languages = json.loads((artifacts / "count-languages.language-counts.json").read_text())
    assert [("en", 6)] == [(row["language"], row["documents"]) for row in languages["rows"]]


def test_images_are_measured_and_regrouped(folder: Path) -> None:
    source = "spec.source.with.paths=[pictures/*]"
    (folder / "pictures").mkdir()
    for number, path in enumerate(sorted(Path(ray.__file__).parent.rglob("*.png")) * 5):
        shutil.copy(path, folder / f"pictures/{number}.png")
    number = len(list((folder / "pictures").iterdir()))
    told = run_example(folder, "images", "--set", source, "--set", "spec.source.with.buckets=1")
    assert 1 == told["finished"]
    files = sorted((folder / DATA / "images/output").rglob("*.parquet"))
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert -(-number // 8) == len(files)
    assert number == len(rows)
    assert all(0 <= row["brightness"] <= 1 and len(row["hash"]) == 16 for row in rows)


def test_videos_become_shards_of_clips_and_copies_are_found(folder: Path) -> None:
    run_script(folder, "make_videos.py", "strandline-data/videos")
    assert 6 == run_example(folder, "video")["finished"]
    output = folder / DATA / "video/output"
    tables = [pq.read_table(path) for path in sorted(output.rglob("*.parquet"))]
    rows = [row for table in tables for row in table.to_pylist()]
    kept: dict[str, list[int]] = {}
    for row in rows:
        kept.setdefault(Path(row["key"]).name, []).append(int(row["clip"][-5:]))
    # Still, black, and noisy clips are dropped. The readable part of the truncated video is kept.
    assert {
        "silent.mp4": [0, 4],
        "audible.mp4": [0, 1],
        "again.mkv": [0, 1],
        "uneven.mkv": [0],
        "truncated.mp4": [0],
    } == {name: sorted(clips) for name, clips in kept.items()}
    for path in output.rglob("*.parquet"):
        with tarfile.open(path.with_suffix(".tar")) as shard:
            sizes = {member.name: member.size for member in shard.getmembers()}
        for row in pq.read_table(path).to_pylist():
            assert row["bytes"] == sizes[f"{row['sample']}.mp4"]
    run(folder, "verify", f"{EXAMPLES}/video.yaml")
    listed = folder / "strandline-data/copies.parquet"
    words = ("--out", str(listed), "--threshold", "0.6")
    run(folder, "near-duplicates", f"{DATA}/video/latest", *words)
    found = {Path(each["key"]).name: each["stays"] for each in pq.read_table(listed).to_pylist()}
    # Three videos contain the same first scene. The first video in order keeps the scene.
    assert {"silent.mp4#00000", "truncated.mp4#00000"} == found.keys()
    assert {"again.mkv#00000"} == {Path(stays).name for stays in found.values()}
    assert 6 == run_example(folder, "video")["skipped"]


def read_compressed(path: Path) -> list[dict[str, Any]]:
    lines = pa.CompressedInputStream(str(path), "zstd").read().splitlines()
    return [json.loads(line) for line in lines]


def test_pages_of_a_crawl_become_clean_text(folder: Path) -> None:
    crawl = folder / EXAMPLES / "crawl"
    told = run_example(folder, "web-pages")
    assert -(-(crawl / "pages.warc.gz").stat().st_size // 20_000) == told["finished"]
    files = sorted((folder / DATA / "web-pages/output").rglob("*.jsonl.zst"))
    rows = [row for path in files for row in read_compressed(path)]
    pages = {page.url: page for page in write_pages(72)}
    assert {row["url"] for row in rows} == {
        url for url, page in pages.items() if page.kind in {"prose", "contact", "unclosed", "bare"}
    }
    for row in rows:
        page = pages[row["url"]]
        assert row["language"] == page.language
        assert any(sentence in row["text"] for sentence in SENTENCES[page.language])
        assert "Cookie settings" not in row["text"]
        assert "lighthouse.example" not in row["text"]
        assert "8.8.4.4" not in row["text"]
    assert told["finished"] == run_example(folder, "web-pages")["skipped"]


def test_the_example_crawl_is_generated_except_for_one_truncated_record(folder: Path) -> None:
    records = list(format_archive(write_pages(72)))
    content = (folder / EXAMPLES / "crawl/pages.warc.gz").read_bytes()
    chunks = list(read_members(io.BytesIO(content), 0, None, 1 << 20))
    # Cut the two empty lines between records, which belong to no record.
    whole = [record.removesuffix(b"\r\n\r\n") for record in records]
    assert whole == [chunk.data for chunk in chunks if not chunk.problem]
    assert ["damaged compression"] == [chunk.problem for chunk in chunks if chunk.problem]


FINEWEB = ("pages", "signatures", "links", "duplicates")


def make_crawl(folder: Path, *words: str) -> None:
    run_script(folder, "make_crawl.py", "strandline-data/crawl", *words)


def read_kept(folder: Path, pipeline: str = "fineweb") -> list[dict[str, Any]]:
    files = sorted((folder / DATA / pipeline / "output").rglob("*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_the_recipe_of_fineweb_keeps_clean_pages_once(folder: Path) -> None:
    make_crawl(folder, "--pages", "102")
    ended = run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline", "--json")
    outcomes = [json.loads(line) for line in ended.splitlines() if '"outcome"' in line]
    assert len(FINEWEB) + 1 == len(outcomes)
    pages = {page.url: (number, page) for number, page in enumerate(list_pages(102))}
    clean = {"prose", "copy", "reprint", "contact", "unclosed"}
    good = {url for url, (_, page) in pages.items() if page.kind in clean and page.language == "en"}
    rows = read_kept(folder, "fineweb-pages")
    assert {row["url"] for row in rows} == good - {list(pages)[-1]}  # the last record is truncated
    clusters: dict[int, list[str]] = {}
    for row in rows:
        number, page = pages[row["url"]]
        clusters.setdefault(number if page.of is None else page.of, []).append(row["key"])
    assert {len(keys) for keys in clusters.values()} >= {1, 2}
    listed = {row["key"]: row["stays"] for row in read_kept(folder, "fineweb-duplicates")}
    assert {
        key: min(keys) for keys in clusters.values() for key in keys if key != min(keys)
    } == listed
    kept = read_kept(folder)
    assert {min(keys) for keys in clusters.values()} == {row["key"] for row in kept}
    assert not [row for row in kept if "lighthouse.example" in row["text"]]
    again = run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline", "--json")
    ended_again = [json.loads(line) for line in again.splitlines() if '"outcome"' in line]
    assert [0] * 5 == [each["sources"]["finished"] for each in ended_again]
    for name in (*(f"fineweb-{each}" for each in FINEWEB), "fineweb"):
        run(folder, "verify", f"{EXAMPLES}/fineweb.yaml#{name}")
    run(folder, "card", f"{EXAMPLES}/fineweb.yaml#fineweb", "--license", "odc-by")
    card = (folder / DATA / "fineweb/output/README.md").read_text()
    assert "Clean English pages" in card


def test_the_recipe_of_fineweb_takes_a_second_crawl(folder: Path, tmp_path: Path) -> None:
    """Two runs, the second with another day's crawl, keep the same pages as one run over both."""
    crawl = folder / "strandline-data/crawl"
    make_crawl(folder, "--pages", "60")
    run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline")
    first = {row["key"] for row in read_kept(folder)}
    add_day(folder, tmp_path / "days")

    run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline")

    second = {row["key"] for row in read_kept(folder)}
    assert first - second, "a page of the new day takes the place of an older one"
    assert second - first
    run(folder, "verify", f"{EXAMPLES}/fineweb.yaml#fineweb")
    shutil.rmtree(folder / DATA)
    run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline")
    assert second == {row["key"] for row in read_kept(folder)}
    assert crawl.is_dir()


def add_day(folder: Path, other: Path) -> None:
    """Add another day's crawl: new pages, and all pages of the first day again."""
    crawl = folder / "strandline-data/crawl"
    for file in list(crawl.iterdir()):
        shutil.copy(file, crawl / f"again-{file.name}")
    shutil.copytree(folder / EXAMPLES, other / EXAMPLES)
    make_crawl(other, "--pages", "40", "--seed", "2")
    for file in (other / "strandline-data/crawl").iterdir():
        shutil.copy(file, crawl / f"later-{file.name}")


def test_a_crawl_without_duplicates_completes_all_passes(folder: Path) -> None:
    make_crawl(folder, "--pages", "2")
    run(folder, "run", f"{EXAMPLES}/fineweb.yaml", "--engine", "inline")
    assert 1 == len(read_kept(folder))  # the second of two pages is truncated
    assert [] == read_kept(folder, "fineweb-duplicates")
    assert {"key", "stays"} == set(
        pq.read_table(
            next((folder / DATA / "fineweb-duplicates/output").rglob("*.parquet"))
        ).schema.names
    )
