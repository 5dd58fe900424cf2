"""A fault before or after the sync of a shared file neither loses nor duplicates rows.

The disturbed run replaces sources that share files with others. It writes new files, rewrites old
files, and removes files without any source.
"""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from matrix import Case, Ground, in_full_tier
from shard_files import read_shard

pytestmark = pytest.mark.first(reason="three kinds of shared files, each with its own ground")

# Number of files that one process writes or rewrites.
FILES = 3
CASES = [
    *(
        Case("inline", step, "kill", nth)
        for step in ("output.written", "output.synced", "output.renamed")
        for nth in range(1, FILES + 1)
    ),
    *(Case("inline", "commit.written", "kill", nth) for nth in (1, 5, 8, 10, 11, 12, 13)),
    *(Case("inline", "commit.cleaned", "kill", nth) for nth in (1, 2)),
    Case("inline", "commit.synced", "kill", 1),
    Case("inline", "source.settled", "kill", 3),
    Case("inline", "output.synced", "enospc", FILES),
    Case("processes", "output.renamed", "kill", 1),
    *in_full_tier(
        *(
            Case(engine, step, "kill", 1)
            for engine in ("processes", "ray")
            for step in ("output.synced", "commit.synced")
        ),
        Case("processes", "output.written", "kill", 1),
        Case("processes", "source.settled", "kill", 3),
        Case("processes", "output.synced", "enospc", 1),
        Case("ray", "output.renamed", "kill", 1),
    ),
]


# Each shard has a table in a second file, so there are twice as many files.
PAIRED = [
    *(
        Case("inline", step, "kill", nth)
        for step in ("output.written", "output.renamed")
        for nth in range(1, 5)
    ),
    *(Case("inline", "commit.cleaned", "kill", nth) for nth in (1, 2, 3)),
    Case("inline", "commit.synced", "kill", 1),
    Case("inline", "output.synced", "enospc", 2),
    *in_full_tier(
        *(Case("processes", "output.renamed", "kill", nth) for nth in (1, 2)),
        Case("processes", "commit.synced", "kill", 1),
        Case("ray", "output.renamed", "kill", 1),
    ),
]


# An index that belongs to another shard would be read without an error.
INDEXED = [
    *(Case("inline", "output.written", "kill", nth) for nth in (1, 2, 3)),
    *(Case("inline", "output.renamed", "kill", nth) for nth in (1, 2, 4)),
    Case("inline", "commit.cleaned", "kill", 2),
    *in_full_tier(
        *(Case("processes", "output.renamed", "kill", nth) for nth in (1, 2)),
        Case("ray", "output.renamed", "kill", 1),
    ),
]


def describe_shared(paths: str) -> dict[str, Any]:
    return {
        "source": {"use": "files", "with": {"paths": [paths], "onRemoved": "Delete"}},
        "stages": [{"use": "read-files"}, {"use": "gather_stages:KeyList"}],
        "sink": {"use": "parquet", "with": {"targetBytes": 400}},
        "checkpoint": {"interval": "1h", "keepLast": 1},
    }


class SharedGround(Ground):
    """Compares only rows, because sources may share other files after a crash."""

    suffix = ".parquet"

    def _find_problems(self, volume: Path) -> Iterator[str]:
        if self.read_rows(volume) != self.expect_rows():
            yield "the rows differ from one row for each source"
        if self.job.read_artifacts(volume) != self.artifacts:
            yield "the artifacts differ from those of an undisturbed run"
        yield from self.job.find_problems(volume)

    def read_rows(self, volume: Path) -> Counter[tuple[str, bytes]]:
        """Return the rows of all files."""
        rows: Counter[tuple[str, bytes]] = Counter()
        for path in self.list_files(volume):
            rows.update(self.read_file(path))
        return rows

    def list_files(self, volume: Path) -> list[Path]:
        """Return the files of the sink, without the indexes and tables beside them."""
        return list(self.job.find_folder(volume).output.rglob(f"*{self.suffix}"))

    def read_file(self, path: Path) -> list[tuple[str, bytes]]:
        """Return the path and the content of each row."""
        table = pq.read_table(path)
        columns = (table[name].to_pylist() for name in ("path", "content"))
        return list(zip(*columns, strict=True))

    def expect_rows(self) -> Counter[tuple[str, bytes]]:
        """Return one row per input text."""
        return Counter((str(path), path.read_bytes()) for path in self._texts.iterdir())


class ShardGround(SharedGround):
    """Shards of samples with their tables."""

    suffix = ".tar"

    def read_file(self, path: Path) -> list[tuple[str, bytes]]:
        with tarfile.open(path) as shard:
            parts = [shard.extractfile(member) for member in shard]
            contents = [part.read() for part in parts if part is not None]
        facts = [json.loads(raw) for raw in contents[1::2]]
        beside = pq.read_table(path.with_suffix(".parquet"))["path"].to_pylist()
        assert beside == [row["path"] for row in facts]
        return list(zip(beside, contents[::2], strict=True))


class TokenGround(SharedGround):
    """Shards of tokens with their indexes. A row is identified by its tokens."""

    suffix = ".bin"

    def read_file(self, path: Path) -> list[tuple[str, bytes]]:
        rows = read_shard(path.read_bytes(), path.with_suffix(".idx").read_bytes())
        return [("", bytes(tokens)) for tokens in rows]

    def expect_rows(self) -> Counter[tuple[str, bytes]]:
        return Counter(("", path.read_bytes()) for path in self._texts.iterdir())


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGround]:
    def describe(paths: str) -> dict[str, Any]:
        spec = describe_shared(paths)
        sink = {"use": "token-shards", "with": {"targetBytes": 120, "tokenBytes": 2}}
        stages = [*spec["stages"], {"use": "gather_stages:ByteTokens"}]
        return spec | {"stages": stages, "sink": sink}

    ground = TokenGround(tmp_path_factory.mktemp("tokens") / "ground", describe)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", INDEXED, ids=str)
def test_a_fault_separates_no_tokens_from_their_index(case: Case, tokens: SharedGround) -> None:
    finding = tokens.carry_out(case)
    assert finding.faults == [], finding.log


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGround]:
    def describe(paths: str) -> dict[str, Any]:
        sink = {"use": "webdataset", "with": {"targetBytes": 4000, "key": "path"}}
        return describe_shared(paths) | {"sink": sink}

    ground = ShardGround(tmp_path_factory.mktemp("shards") / "ground", describe)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", PAIRED, ids=str)
def test_a_fault_separates_no_shard_from_its_table(case: Case, shards: SharedGround) -> None:
    finding = shards.carry_out(case)
    assert finding.faults == [], finding.log


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedGround]:
    ground = SharedGround(tmp_path_factory.mktemp("shared") / "ground", describe_shared)
    yield ground
    ground.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_loses_and_doubles_no_row(case: Case, ground: SharedGround) -> None:
    finding = ground.carry_out(case)
    assert finding.faults == [], finding.log


def test_in_an_undisturbed_run_sources_share_files_without_other_rows(
    ground: SharedGround, tmp_path: Path
) -> None:
    ground.job.run_whole(tmp_path)
    assert ground.read_rows(tmp_path) == ground.expect_rows()
    files = ground.list_files(tmp_path)
    assert len(files) < len(ground.expect_rows())
    assert any(path.parts[-3] == "shared" for path in files)
    assert ground.job.verify(tmp_path)


@pytest.mark.parametrize("kind", ["shards", "tokens"])
def test_in_an_undisturbed_run_sources_share_shards(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ground: SharedGround = request.getfixturevalue(kind)
    ground.job.run_whole(tmp_path)
    assert ground.read_rows(tmp_path) == ground.expect_rows()
    # The number of files varies: the folder's name decides the order of sources and so the shards.
    assert 0 < len(ground.list_files(tmp_path)) < ground.expect_rows().total()
    assert ground.job.verify(tmp_path)
