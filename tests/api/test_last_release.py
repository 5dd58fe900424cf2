"""The last release and the current version read each other's objects on one cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from example_counts import scale_examples
from images.history import LAST_RELEASE
from last_release import ROOT, LastRelease, reading
from pipeline_documents import SMALLEST, pipelines
from status_documents import ATTEMPT_STATUS, PIPELINE_STATUS, like
from stored_documents import plant_unknown, prune, schema_of, store
from strandline.plan.fingerprint import add_code
from strandline.plan.stages.registry import find_stage
from strandline.run.manifest.manifest import read_manifest
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.stored import (
    OPERATORS_OWN,
    forward_document,
    parse_stored_pipeline,
    render_document,
)
from strandline_api.objects.attempt import AttemptSpec, parse_attempt_status
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.schema.crd import pipeline_definition
from strandline_api.status.pipeline_status import parse_status

# The only release whose operator rejects unknown fields.
STRICT = "ea59655b63faa5879f81bbb9c14439988d00fa4e"
TODAY = pipeline_definition()
# Examples that can be planned before any other pipeline has run.
EXAMPLES = sorted((ROOT / "pipelines" / "examples").glob("*[!2].yaml"))
# Stages with wrong results in the last release, with their versions in that release. For a ledger
# with such a stage, the current version reports the change and continues only with `onChange`. All
# other ledgers continue without it.
MENDED = {
    "c4-quality": "1",
    "count-tokens": "1",
    "decode-frames": "1",
    "decode-images": "3",
    "digest-rows": "1",
    "digest-sentences": "1",
    "drop-contaminated": "1",
    "drop-listed-sentences": "1",
    "drop-listed-words": "1",
    "extract-text": "1",
    "filter-text-quality": "1",
    "filter-urls": "1",
    "fineweb-quality": "1",
    "gopher-quality": "1",
    "gopher-repetition": "1",
    "identify-language": "1",
    "read-parquet": "1",
    "read-warc": "1",
    "redact-pii": "1",
    "redact-secrets": "1",
    "sign-texts": "1",
    "sketch-texts": "1",
    "split-video": "1",
    "tokenise-text": "1",
    "transcode-clip": "1",
}
# Examples with stages or fields that are new since the last release.
NEW_EXAMPLES = {
    *("audio", "fineweb", "pdf", "pictures", "pretraining", "question-pairs", "rated-documents"),
    *("semantic-duplicates", "video", "web-pages"),
    *("python-functions", "text-documents"),
}
NEW_IN_EXAMPLES = r"no stage is called|unknown field .(onError|within)."
Json = dict[str, Any]


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LastRelease]:
    with reading(tmp_path_factory.mktemp("release")) as release:
        yield release


def place(document: Json) -> Json:
    return {**document, "metadata": {"name": "corpus", "namespace": "team"}}


def as_users_of(release: LastRelease, document: Json) -> Json:
    """Return the document without fields and causes that the last release lacks."""
    schema = schema_of(release.definitions["curationpipelines"])["properties"]["spec"]
    spec = prune(document["spec"], schema)
    causes = schema["properties"]["retry"]["properties"]["eligibleCauses"]["items"]["enum"]
    if given := (spec.get("retry") or {}).get("eligibleCauses"):
        known = [cause for cause in given if cause in causes]
        spec = {**spec, "retry": {**spec["retry"], "eligibleCauses": known}}
    return {**document, "spec": spec}


def spell(spec: PipelineSpec) -> Json:
    return spec.model_dump(mode="json", by_alias=True)


def without_operators_own(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name not in OPERATORS_OWN}


def find_differences(older: Any, newer: Any, path: str = "") -> list[str]:
    """Return the places where the newer object differs from the older. New fields do not count."""
    if path.endswith(".eligibleCauses") and set(older) < set(newer):
        return []  # the default contains all causes, and the newer version has more
    if isinstance(older, dict) and isinstance(newer, dict):
        return [
            found
            for name, value in older.items()
            for found in find_differences(value, newer.get(name), f"{path}.{name}")
        ]
    if isinstance(older, list) and isinstance(newer, list) and len(older) == len(newer):
        pairs = enumerate(zip(older, newer, strict=True))
        return [found for at, pair in pairs for found in find_differences(*pair, f"{path}[{at}]")]
    return [] if older == newer else [f"{path}: {older!r}, and now {newer!r}"]


@given(document=pipelines)
@settings(max_examples=scale_examples(40))
def test_law_the_last_releases_driver_reads_todays_documents(
    last: LastRelease, document: Json
) -> None:
    full = store(place(as_users_of(last, document)), TODAY)
    spec = parse_pipeline(full).spec
    read = last.ask("drive", render_document(forward_document(full, spec)))
    assert find_differences(without_operators_own(read), spell(spec)) == []


def test_newer_defaults_never_reach_the_last_releases_driver(last: LastRelease) -> None:
    full, planted = plant_unknown(store(place(SMALLEST), TODAY), TODAY)
    with pytest.raises(AssertionError, match="unknown field"):
        last.ask("drive", render_document(full))
    read = parse_stored_pipeline(full)
    assert set(read.unknown) == planted
    handed = forward_document(full, read.pipeline.spec)
    assert (
        find_differences(
            without_operators_own(last.ask("drive", render_document(handed))),
            spell(read.pipeline.spec),
        )
        == []
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.stem))
def test_the_last_releases_ledgers_can_be_continued(
    last: LastRelease, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = next(yaml.safe_load_all(path.read_text(encoding="utf-8")))  # its first pipeline
    document["metadata"]["namespace"] = "team"
    monkeypatch.syspath_prepend(str(path.parent))
    for name, version in MENDED.items():
        stage = find_stage(name)
        assert stage.version != version
        monkeypatch.setattr(stage, "version", version)
    full = store(document, TODAY)
    handed = render_document(forward_document(full, parse_pipeline(full).spec))
    if path.stem in NEW_EXAMPLES:
        with pytest.raises(AssertionError, match=NEW_IN_EXAMPLES):
            last.ask("fingerprint", handed)
    else:
        today = read_manifest(path).plan.fingerprint
        # The last release recorded no code. A ledger without recorded code accepts the current
        # code.
        plain = {name: part for name, part in today.parts.items() if not name.endswith(".code")}
        without_code = add_code(today._replace(parts=plain), {}, ()).digest
        assert without_code == last.ask("fingerprint", handed)


@given(document=pipelines)
@settings(max_examples=scale_examples(40))
def test_law_today_reads_objects_stored_by_the_last_release(
    last: LastRelease, document: Json
) -> None:
    used = as_users_of(last, document)
    stored = store(used, last.definitions["curationpipelines"])
    read = parse_stored_pipeline(stored)
    assert read.unknown == ()
    assert read.pipeline.spec == parse_pipeline(used).spec
    assert find_differences(last.ask("pipeline", stored), spell(read.pipeline.spec)) == []


@given(document=pipelines)
@settings(max_examples=scale_examples(20))
def test_law_the_last_releases_operator_reads_objects_stored_today(
    last: LastRelease, document: Json
) -> None:
    grown, _ = plant_unknown(store(as_users_of(last, document), TODAY), TODAY)
    read = last.ask("operate", grown)
    if LAST_RELEASE == STRICT:
        assert read is None
    else:
        assert find_differences(read, spell(parse_stored_pipeline(grown).pipeline.spec)) == []


@given(written=like(PIPELINE_STATUS), attempt=like(ATTEMPT_STATUS))
@settings(max_examples=scale_examples(60))
def test_law_both_versions_read_each_others_statuses(
    last: LastRelease, written: object, attempt: object
) -> None:
    now = parse_status(written).to_json()
    before = last.ask("status", now)
    assert find_differences(before, now) == []
    assert parse_status(before).to_json() == before
    now = parse_attempt_status(attempt).to_json()
    before = last.ask("attempt-status", now)
    assert find_differences(before, now) == []
    assert parse_attempt_status(before).to_json() == before


def test_both_versions_read_each_others_attempts(last: LastRelease) -> None:
    spec = AttemptSpec(
        pipeline="corpus", pipeline_uid="uid", run="first", number=2, previous=1, memory={"head": 7}
    ).to_json()
    before = last.ask("attempt-spec", {**spec, "later": {"colour": "blue"}})
    assert find_differences(before, spec) == []
    assert AttemptSpec.parse(before).to_json() == before


def test_a_difference_is_detected() -> None:
    assert find_differences({"a": [{"b": 1}]}, {"a": [{"b": 2}], "c": 3}) == [
        ".a[0].b: 1, and now 2"
    ]
    assert find_differences({"a": [1]}, {"a": [1, 2]}) == [".a: [1], and now [1, 2]"]
    assert find_differences({"a": 1}, {"a": 1, "b": 2}) == []
