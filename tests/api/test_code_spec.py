"""A pipeline's own code has only forms that cannot change during a run."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipeline_documents import SMALLEST, with_change
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.schema.crd import pipeline_definition
from strandline_api.schema.openapi import nodes
from strandline_api.spec.code import Code, split_package

ARCHIVE = {"url": "https://example.com/code.zip", "sha256": "0" * 64}


def parse(**code: Any) -> Code:
    return parse_pipeline(with_change("spec.code", code)).spec.code


def test_a_pipeline_has_no_code_by_default() -> None:
    nothing = parse_pipeline(SMALLEST).spec.code
    assert nothing == parse() == Code()
    assert not nothing.is_given


def test_only_archives_and_packages_are_fetched() -> None:
    files = parse(configMap="mystages")
    assert (files.config_map, files.is_fetched) == ("mystages", False)
    for fetched in (parse(archive=ARCHIVE), parse(packages=["langdetect==1.0.9"])):
        assert fetched.is_fetched


TAKEN = {
    "archive.url": ["s3://bucket/x.zip", "file:///mnt/code.tgz", "/mnt/code.whl"],
    "archive.path": ["src", "corpus-1.2/src", "_x/a.b"],
    "packages[]": ["langdetect==1.0.9", "A_b.c[x,y]==2!1.0.post1+cpu", "p==1"],
    "wheels": ["/mnt/wheels", "https://example.com/wheels/"],
    "index": ["https://example.com/simple"],
}
REFUSED = {
    "archive.url": ["code.zip", "../code.zip", "s3:bucket", "", "https://example.com/a b"],
    "archive.sha256": ["0" * 63, "F" * 64, "sha256:" + "0" * 57],
    "archive.path": ["/etc", "..", "src/../..", "src//x", "a\\b", ".hidden"],
    "packages[]": [
        "langdetect", "langdetect>=1.0.9", "langdetect==1.*", "langdetect===1", "--pre==1", "-e",
        "langdetect==1.0.9; python_version > '3'", "a @ https://example.com/a.whl", "a==1 b==2",
    ],
    "wheels": ["wheels", "--no-index"],
}  # fmt: skip


def put(path: str, value: str) -> dict[str, Any]:
    """Return a `code` field that is valid except for this value."""
    code: dict[str, Any] = {"archive": dict(ARCHIVE), "packages": ["a==1"]}
    if path == "packages[]":
        code["packages"] = [value]
    elif path.startswith("archive."):
        code["archive"][path.partition(".")[2]] = value
    else:
        code[path] = value
    return code


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(path, value) for path, values in table.items() for value in values]


def fits_schema(path: str, value: str) -> bool:
    found = dict(nodes(pipeline_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
    return re.search(found[f"spec.code.{path}"]["pattern"], value) is not None


@pytest.mark.parametrize(("path", "value"), pairs(TAKEN))
def test_accepted_code_is_accepted_by_the_server(path: str, value: str) -> None:
    assert parse(**put(path, value)).is_given
    assert fits_schema(path, value)


@pytest.mark.parametrize(("path", "value"), pairs(REFUSED))
def test_rejected_code_is_rejected_by_the_server(path: str, value: str) -> None:
    with pytest.raises(SpecError) as told:
        parse(**put(path, value))
    (problem,) = told.value.problems
    assert problem.path == f"spec.code.{path.replace('[]', '[0]')}"
    assert problem.message.startswith("must be ")
    assert not fits_schema(path, value)


@pytest.mark.parametrize("given", [{"index": "https://example.com/simple"}, {"wheels": "/mnt"}])
def test_package_sources_require_packages(given: dict[str, str]) -> None:
    with pytest.raises(
        SpecError, match="configure where 'packages' come from; list 'packages' too"
    ):
        parse(**given)


def test_a_package_named_twice_is_rejected() -> None:
    with pytest.raises(SpecError, match="must not contain 'a==1' twice"):
        parse(packages=["a==1", "a==1"])


@pytest.mark.parametrize(
    ("package", "parts"),
    [("a==1.0", ("a", "1.0")), ("A.b[x,y-z]==1!2+cpu", ("A.b", "1!2+cpu"))],
)
def test_a_package_is_a_name_and_a_version(package: str, parts: tuple[str, str]) -> None:
    assert split_package(package) == parts
