"""Options of stores apply where a store supports them, and secrets are never written."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.storage.access import stores
from strandline.storage.access.store_access import StoreAccess, build_arguments, find_faults
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sources.dataset_folder import DatasetFolder
from strandline_packs.sources.files import Files
from strandline_packs.tables.read_files import ReadFiles

LITERAL = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NAMED = {"A": "one", "B": "two"}


@pytest.mark.parametrize(
    ("protocol", "access", "arguments"),
    [
        ("s3", StoreAccess(anonymous=True), {"anon": True}),
        ("s3a", StoreAccess(requester_pays=True), {"requester_pays": True}),
        ("s3", StoreAccess(endpoint="http://h"), {"endpoint_url": "http://h"}),
        (
            "s3",
            StoreAccess(credentials={"accessKeyId": "A", "secretAccessKey": "B"}),
            {"key": "one", "secret": "two"},
        ),
        ("gs", StoreAccess(anonymous=True), {"token": "anon"}),
        ("gcs", StoreAccess(requester_pays=True), {"requester_pays": True}),
        ("gs", StoreAccess(endpoint="http://h"), {"endpoint_url": "http://h"}),
        ("gs", StoreAccess(credentials={"keyFile": "A"}), {"token": "one"}),
        ("abfs", StoreAccess(anonymous=True), {"anon": True}),
        (
            "az",
            StoreAccess(credentials={"connectionString": "A"}),
            {"connection_string": "one"},
        ),
    ],
)
def test_options_are_named_as_in_the_stores_library(
    protocol: str, access: StoreAccess, arguments: dict[str, Any]
) -> None:
    assert list(find_faults(protocol, access)) == []
    assert build_arguments(protocol, access, NAMED) == arguments


@pytest.mark.parametrize(
    ("url", "options", "sentence"),
    [
        ("abfs://c/*", {"requesterPays": True}, "abfs:// does not support requesterPays"),
        ("az://c/*", {"endpoint": "http://h"}, "az:// does not support an endpoint"),
        ("http://h/*", {"anonymous": True}, "http:// does not support storageOptions"),
        ("memory://h/*", {}, "memory:// does not support storageOptions"),
        (
            "s3://b/*",
            {"anonymous": True, "credentials": {"accessKeyId": "A"}},
            "anonymous and credentials are mutually exclusive",
        ),
        (
            "gs://b/*",
            {"credentials": {"accessKeyId": "A"}},
            "does not support credentials.accessKeyId",
        ),
        ("s3://b/*", {"credentials": {"secretAccessKey": LITERAL}}, "not the secret itself"),
        ("s3://b/*", {"credentials": {"accessKeyId": "AKIAIOSFODNN7EXAMPLE"}}, "not the secret"),
        ("s3://b/*", {"credentials": {"secretAccessKey": ""}}, "not the secret itself"),
        ("s3://b/*", {"key": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_unsupported_options_of_a_store_are_refused_by_name(
    url: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Files.Params.model_validate({"paths": [url], "storageOptions": options})
    (problem,) = caught.value.errors()
    assert sentence in problem["msg"]
    assert LITERAL not in problem["msg"]
    assert "AKIAIOSFODNN7EXAMPLE" not in problem["msg"]


@pytest.mark.parametrize("literal", [LITERAL, "AKIAIOSFODNN7EXAMPLE", "two words"])
def test_a_refused_secret_is_not_shown(literal: str) -> None:
    options = {"credentials": {"secretAccessKey": literal}}
    with pytest.raises(ValueError, match="not the secret itself") as caught:
        Files(paths=["s3://b/*"], storage_options=options)
    assert literal not in str(caught.value)


def test_an_unset_variable_is_named() -> None:
    access = StoreAccess(credentials={"accessKeyId": "READER_KEY"})
    with pytest.raises(PermissionError, match="the environment variable READER_KEY is not set"):
        build_arguments("s3", access, {"READER_KEY": ""})


def test_every_stage_accesses_the_sources_files_with_its_options() -> None:
    source = Files(paths=["s3://b/in/*", "local/*"], storage_options={"anonymous": True})
    names = ("files", source), ("read", ReadFiles()), ("jsonl", JsonlSink())
    first, *others = (StagePlan(name, name, stage) for name, stage in names)
    plan = check_plan("default", "asked", first, others)
    for each in (plan.source, *plan.stages):
        stage = pickle.loads(pickle.dumps(each))  # noqa: S301 - as it travels to a worker
        assert stage.stores == {"s3://b/in": StoreAccess(anonymous=True)}
    bare = StagePlan("files", "files", Files(paths=["s3://b/in/*"]))
    plain = check_plan("default", "asked", bare, others)
    assert plain.source.stores == {}
    changed = plan.fingerprint.parts.keys() ^ plain.fingerprint.parts.keys()
    assert not changed  # the credentials of a reader do not affect the output


def test_options_of_a_data_set_apply_to_its_store() -> None:
    stage = DatasetFolder(path="gs://b/set", storage_options={"requester_pays": True})
    assert stage.params.list_stores() == {"gs://b/set": StoreAccess(requester_pays=True)}
    with pytest.raises(ValueError, match="abfs:// does not support requesterPays"):
        DatasetFolder(path="abfs://b/set", storage_options={"requester_pays": True})


def test_options_apply_below_their_path_and_the_nearest_wins() -> None:
    pytest.importorskip("s3fs")
    stores.use_access(
        {
            "s3://b/in": StoreAccess(anonymous=True),
            "s3://b/in/own": StoreAccess(endpoint="http://h"),
        }
    )
    try:
        asked = {url: stores.open_store(url)[0] for url in (
            "s3://b/in", "s3://b/in/x", "s3://b/in/own/x", "s3://b/inner", "s3://b",
        )}  # fmt: skip
    finally:
        stores.use_access({})
    assert [files.anon for files in asked.values()] == [True, True, False, False, False]
    assert [files.endpoint_url for files in asked.values()] == [None, None, "http://h", None, None]
    assert not stores.open_store("s3://b/in")[0].anon
