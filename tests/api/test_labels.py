"""Label values are valid in Kubernetes for any pipeline, and differ between pipelines."""

import re

from hypothesis import given
from hypothesis import strategies as st

from strandline_api import names as labels
from strandline_api.names import (
    format_label_value,
    select_all,
    select_namesakes,
    select_pipeline,
)

VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
KEY = re.compile(r"[a-z0-9.]{1,253}/[a-z][-a-z]{0,61}[a-z]")

names = st.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}", fullmatch=True
)
near = st.integers(55, 70).map("l".__mul__)
pipelines = names | near | st.text() | near.map(format_label_value)


@given(pipelines)
def test_any_pipeline_has_a_valid_label(pipeline: str) -> None:
    assert VALUE.fullmatch(format_label_value(pipeline))


@given(pipelines, pipelines)
def test_two_pipelines_never_share_a_label(one: str, other: str) -> None:
    assert (format_label_value(one) == format_label_value(other)) == (one == other)


def test_short_names_are_kept_and_long_ones_end_in_a_digest() -> None:
    assert format_label_value("corpus.v2") == "corpus.v2"
    assert format_label_value("l" * 63) == "l" * 63
    # These values are fixed, because a recomputed label must match objects of older versions.
    assert format_label_value("l" * 64) == "l" * 45 + "-x3d4b6c80687fe0c2"
    assert len(format_label_value("l" * 253)) == 63


def test_keys_are_valid_and_in_strandlines_group() -> None:
    keys = {
        value
        for name, value in vars(labels).items()
        if name.endswith(("_LABEL", "_ANNOTATION", "FINALIZER")) and isinstance(value, str)
    }
    assert len(keys) == 15
    assert all(KEY.fullmatch(key) for key in keys)
    assert {key for key in keys if not key.startswith("strandline.dev/")} == {
        "app.kubernetes.io/managed-by"
    }


def test_selectors_narrow_from_all_objects_to_a_pipeline() -> None:
    assert select_all() == "strandline.dev/pipeline-uid"
    assert select_pipeline("u1") == "strandline.dev/pipeline-uid=u1"
    assert select_namesakes("corpus", "u1") == (
        "strandline.dev/pipeline=corpus,strandline.dev/pipeline-uid!=u1"
    )
