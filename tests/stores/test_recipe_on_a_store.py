"""FineWeb's recipe, with the crawl and all results of its five passes in an object store."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from make_crawl import list_pages, write_crawl

from store_runs import execute_on_stores
from store_server import Store

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "fineweb.yaml"
BUCKET, PAGES, RANGE_BYTES = "recipe", 51, 12_000
Row = tuple[str, str]


def run(folder: Path, store: Store, crawl: str, outputs: str | None) -> None:
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    listing = {"paths": [f"{crawl}/*.warc.gz"], "rangeBytes": RANGE_BYTES}
    documents[0]["spec"]["source"]["with"] = listing
    for document in documents if outputs else ():
        url = f"{outputs}/{document['metadata']['name']}"
        document["spec"]["storage"] = {"output": {"url": url}}
    folder.mkdir()
    path = folder / EXAMPLE.name
    path.write_text(yaml.safe_dump_all(documents))
    words = ["run", str(path), "--engine", "inline", "--volume", str(folder / "volume")]
    done = execute_on_stores(*words, env=os.environ | store.variables)
    assert done.returncode == 0, done.stderr


def read_kept(folder: Path) -> list[Row]:
    """Return the URL and text of each row, but no keys, which depend on the crawl's location."""
    rows = [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return sorted((row["url"], row["text"]) for row in rows)


@pytest.mark.timeout(1200)  # ten drivers in sequence, possibly on a busy machine
def test_a_recipe_keeps_the_same_pages_in_a_store_and_in_folders(
    store: Store, tmp_path: Path
) -> None:
    crawl, files = tmp_path / "crawl", store.open()
    write_crawl(crawl, list_pages(PAGES))
    files.mkdir(BUCKET)
    files.put(f"{crawl}/", f"{BUCKET}/crawl/", recursive=True)
    run(tmp_path / "here", store, str(crawl), None)
    run(tmp_path / "there", store, f"s3://{BUCKET}/crawl", f"s3://{BUCKET}/out")
    files.get(f"{BUCKET}/out/fineweb/", f"{tmp_path}/fetched/", recursive=True)
    whole = read_kept(tmp_path / "here/volume/default/fineweb/output")
    assert whole
    assert read_kept(tmp_path / "fetched") == whole
