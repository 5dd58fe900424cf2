"""The source `dataset-folder`: lists a Hugging Face dataset in a folder by its card and splits.

The folder is on disk or in a store. `hf://` is such a store; branches, tags, and commits are
revisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import yaml
from pydantic import Field, ValidationInfo, field_validator

from strandline.data.files.access import StorageOptions, check_access, list_access
from strandline.data.files.listed import ListedFile
from strandline.data.files.listing import FileListParams, FileSource
from strandline.data.files.opening import open_binary
from strandline.data.tables.file_references import build_reference
from strandline.plan.stages.ends import Source, SourceStage
from strandline_packs.sources.parquet_source import GROUP_SUFFIX, list_groups

# Matches the YAML header of a README: `---`, lines with fields, `---`.
_CARD = re.compile(r"\A---\r?\n(.*?)^---\s*$", re.DOTALL | re.MULTILINE)
_DATA = (".parquet", ".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst", ".json.gz", ".json.zst")
_SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}


class DatasetError(OSError):
    """Raised if the configuration or split does not exist. The message lists the existing names."""


class SplitFiles(NamedTuple):
    """A file pattern below the folder, and the split of its files, or None if file names decide."""

    pattern: str
    split: str | None


class DatasetFolder(FileSource):
    """Lists the files of a Hugging Face dataset, for `read-parquet` or `read-jsonl`."""

    class Params(SourceStage.Params):
        """Configures the data set, and the part of it to list."""

        path: str = Field(
            min_length=1,
            description="Folder or fsspec URL of the dataset, which contains its card.",
        )
        config: str | None = Field(
            default=None,
            description="Configuration that the card names; by default the only configuration, or "
            "the card's default.",
        )
        splits: tuple[str, ...] = Field(
            default=(), description="Splits to list, such as `train`; empty lists all."
        )

        storage_options: StorageOptions | None = Field(
            default=None,
            description="Credentials and endpoint of the store in `path`; by default from the "
            "environment. Readers use them for the listed files too.",
        )

        @field_validator("storage_options")
        @classmethod
        def _check_options(
            cls, options: StorageOptions | None, info: ValidationInfo
        ) -> StorageOptions | None:
            return check_access([f"{info.data.get('path', '')}/"], options)

        def list_stores(self) -> Mapping[str, Any]:
            """Return the options of the store."""
            return list_access([f"{self.path}/"], self.storage_options)

        def list_places(self) -> Iterable[tuple[str, str]]:
            """Return the folder."""
            return [("path", self.path)]

    params: Params
    keeps_columns = False
    adds_columns = ("key", "path", "split", "row_group")
    part_suffix = GROUP_SUFFIX

    def list_sources(self) -> Iterator[Source]:
        """Yield every row group of Parquet files and every file of JSON Lines.

        Raises:
            DatasetError: the folder has no such configuration or split, or an invalid card.
            OSError: the folder is missing or can't be read.
        """
        root = self.params.path.rstrip("/")
        found: set[str] = set()
        for files in find_files(_read_card(root), self.params.config):
            listing = FileListParams(paths=(f"{root}/{files.pattern}",))
            for entry in self.list_files(listing):
                below = entry.key.removeprefix(f"{root}/")
                split = files.split or guess_split(below)
                if not below.lower().endswith(_DATA):
                    continue
                found.add(split)
                if not self.params.splits or split in self.params.splits:
                    yield from self._list_parts(entry, split)
        missing = sorted(set(self.params.splits) - found)
        if missing or not found:
            there = ", ".join(sorted(found)) or "none (there are no Parquet or JSON Lines files)"
            msg = f"{root}: unknown split {', '.join(missing) or 'at all'}; the splits are: {there}"
            raise DatasetError(msg)

    def _list_parts(self, entry: ListedFile, split: str) -> Iterator[Source]:
        reference = build_reference(entry).append_column("split", pa.array([split]))
        if entry.key.lower().endswith(".parquet"):
            yield from list_groups(entry, reference, self)
            return
        # JSON Lines have no row groups, but readers of both formats get the same columns.
        data = reference.append_column("row_group", pa.array([0], pa.int32()))
        yield Source(entry.key, entry.version, data)


def find_files(card: dict[str, Any], config: str | None) -> list[SplitFiles]:
    """Return the file patterns of a configuration, in the order of the card.

    Args:
        card: fields of the YAML block in the README of the data set.
        config: name of the configuration; None selects the only one or the default.

    Raises:
        DatasetError: the configuration does not exist, or several exist without a default.
    """
    configs = {str(each.get("config_name", "default")): each for each in card.get("configs") or []}
    if not configs and config in {None, "default"}:
        return [SplitFiles("**", None)]
    chosen = config or _find_default(configs)
    if chosen not in configs:
        msg = f"the card has the configurations {', '.join(configs) or 'none'}; name one: config"
        raise DatasetError(msg)
    folder = str(configs[chosen].get("data_dir") or "").strip("/")
    prefix = f"{folder}/" if folder else ""
    files = configs[chosen].get("data_files") or "**"
    return [SplitFiles(prefix + pattern, split) for pattern, split in _list_patterns(files)]


def guess_split(path: str) -> str:
    """Return the split that a word of the path names, or `train`."""
    words = re.split(r"[^a-z0-9]+", str(PurePosixPath(path)).lower())
    for split, names in _SPLITS.items():
        if not set(names).isdisjoint(words):
            return split
    return "train"


def _find_default(configs: dict[str, Any]) -> str | None:
    if len(configs) == 1:
        return next(iter(configs))
    marked = [name for name, each in configs.items() if each.get("default")]
    # Hugging Face falls back to a configuration with the name `default`.
    return marked[0] if marked else "default"


def _list_patterns(files: Any) -> Iterator[tuple[str, str | None]]:  # noqa: ANN401 - YAML
    """Yield patterns with their splits, for all notations of a card."""
    if isinstance(files, str):
        yield files, None
    elif isinstance(files, list):
        for each in files:
            if isinstance(each, dict):
                yield from ((pattern, str(each["split"])) for pattern in _as_list(each["path"]))
            else:
                yield str(each), None
    else:
        for split, patterns in files.items():
            yield from ((pattern, str(split)) for pattern in _as_list(patterns))


def _as_list(value: Any) -> list[str]:  # noqa: ANN401 - YAML
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _read_card(root: str) -> dict[str, Any]:
    try:
        with open_binary(f"{root}/README.md") as file:
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    head = _CARD.search(text)
    try:
        card = yaml.safe_load(head[1]) if head else None
    except yaml.YAMLError as error:
        msg = f"{root}/README.md: its header is not YAML"
        raise DatasetError(msg) from error
    return card if isinstance(card, dict) else {}
