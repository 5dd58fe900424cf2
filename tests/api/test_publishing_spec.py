"""`publish.require` accepts a closed, typed list of requirements and reports errors plainly."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from strandline_api.documents.validation import problems_of
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.publishing import ColumnKind, MeasureName

SHARE = {"stage": "measure-fields", "measure": "nullShare", "column": "text", "max": 0.01}


def read_spec(require: dict[str, Any]) -> PipelineSpec:
    stages = [{"use": "measure-fields"}, {"use": "count-languages"}]
    ends = {"source": {"use": "files"}, "sink": {"use": "parquet"}}
    return PipelineSpec.model_validate({**ends, "stages": stages, "publish": {"require": require}})


def test_all_requirements_are_read_as_written() -> None:
    spec = read_spec(
        {
            "verified": True,
            "deadLetters": "0.1%",
            "quarantined": 0,
            "rows": {"min": 1000},
            "columns": {"text": "string", "score": "number"},
            "expectations": [SHARE],
        }
    )
    assert spec.publish is not None
    require = spec.publish.require
    assert (require.verified, require.dead_letters, require.quarantined) == (True, "0.1%", 0)
    assert require.rows is not None
    assert (require.rows.min, require.rows.max) == (1000, None)
    assert require.columns == {"text": ColumnKind.STRING, "score": ColumnKind.NUMBER}
    assert require.expectations[0].measure is MeasureName.NULL_SHARE


def test_nothing_is_required_by_default() -> None:
    spec = PipelineSpec.model_validate({"source": {"use": "files"}, "sink": {"use": "parquet"}})
    assert spec.publish is None


@pytest.mark.parametrize(
    ("require", "sentence"),
    [
        ({"rows": {}}, "needs 'min' or 'max'"),
        ({"rows": {"min": 9, "max": 3}}, "'max' must be at least 'min', which is 9, not 3"),
        ({"deadLetters": "much"}, "must be a whole number or a percentage such as '1%'"),
        ({"columns": {"text": "words"}}, "'any', 'binary'"),
        ({"expectations": [SHARE | {"max": 2}]}, "a share lies between 0 and 1"),
        ({"expectations": [SHARE | {"stage": "measure"}]}, "'measure' is not a stage"),
        (
            {"expectations": [{"stage": "measure-fields", "measure": "mean", "min": 1}]},
            "'mean' needs a 'column'",
        ),
        ({"expectations": [SHARE | {"language": "en"}]}, "'nullShare' has no 'language'"),
    ],
)
def test_invalid_requirements_are_explained_in_a_sentence(
    require: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        read_spec(require)
    problems = problems_of(caught.value, PipelineSpec, "spec")
    assert sentence in " ".join(map(str, problems))
    assert all("spec.publish.require" in str(problem) for problem in problems)
