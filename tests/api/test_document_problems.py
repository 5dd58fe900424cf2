"""Each error of an invalid document has a path, one plain sentence, and maybe a suggestion."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline_documents import SMALLEST, with_change, without
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import Problem, SpecError, did_you_mean
from strandline_api.documents.validation import problems_of

JARGON = ("Input should", "validation error", "pydantic", "Extra inputs", "Value error", "_type")


def said_about(document: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_pipeline(document)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (None, "the document is empty; it must be a CurationPipeline"),
        ([], "the document must be a CurationPipeline object, not a list"),
        ("text", "the document must be a CurationPipeline object, not 'text'"),
        (
            without("apiVersion"),
            "apiVersion: required; write 'apiVersion: strandline.dev/v1alpha1'",
        ),
        (without("kind"), "kind: required; write 'kind: CurationPipeline'"),
        (with_change("kind", "RayJob"), "kind: must be 'CurationPipeline', not 'RayJob'"),
        (
            with_change("kind", "CurationPipline"),
            (
                "kind: must be 'CurationPipeline', not 'CurationPipline'; "
                "did you mean 'CurationPipeline'?"
            ),
        ),
        (
            with_change("apiVersion", "v1"),
            "apiVersion: must be 'strandline.dev/v1alpha1', not 'v1'",
        ),
        (
            with_change("apiVersion", "strandline.dev/v2"),
            (
                "apiVersion: must be 'strandline.dev/v1alpha1', not 'strandline.dev/v2'; this "
                "program supports no other version"
            ),
        ),
        (without("metadata"), "metadata: required"),
        (without("metadata.name"), "metadata.name: required"),
        (without("spec"), "spec: required"),
        (without("spec.source"), "spec.source: required"),
        (without("spec.sink"), "spec.sink: required"),
        (without("spec.source.use"), "spec.source.use: required"),
    ],
)
def test_an_invalid_document_is_explained(document: object, expected: str) -> None:
    assert said_about(document) == [expected]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("stagess", [], "spec.stagess: unknown field 'stagess'; did you mean 'stages'?"),
        (
            "stages.1.batch_size",
            2,
            "spec.stages[1].batch_size: unknown field 'batch_size'; did you mean 'batchSize'?",
        ),
        (
            "source.batchSize",
            2,
            (
                "spec.source.batchSize: unknown field 'batchSize'; "
                "known names: use, name, with, resources, workers, runtimeEnv"
            ),
        ),
        (
            "retry.maxRetrys",
            2,
            "spec.retry.maxRetrys: unknown field 'maxRetrys'; did you mean 'maxRetries'?",
        ),
        ("zzz", 1, "spec.zzz: unknown field 'zzz'"),
        (
            "stages.0.batchSize",
            "abc",
            "spec.stages[0].batchSize: must be a whole number, not 'abc'",
        ),
        ("stages.0.batchSize", 2.5, "spec.stages[0].batchSize: must be a whole number, not 2.5"),
        ("stages.0.batchSize", True, "spec.stages[0].batchSize: must be a whole number, not true"),
        ("stages.0.batchSize", 0, "spec.stages[0].batchSize: must be at least 1, not 0"),
        ("stages.0.group", 0, "spec.stages[0].group: must be at least 1, not 0"),
        ("stages", {"a": 1}, "spec.stages: must be a list, not an object"),
        ("stages", [{"use": "a"}] * 257, "spec.stages: must have at most 256 entries"),
        ("stages.0", 3, "spec.stages[0]: must be an object, not 3"),
        ("stages.0", "min-words", "spec.stages[0]: must be an object, not 'min-words'"),
        (
            "source.use",
            "Read Files",
            (
                "spec.source.use: must be a registered name such as 'read-files', "
                "or 'package.module:Class', not 'Read Files'"
            ),
        ),
        ("source.use", "a" * 254, "spec.source.use: must have at most 253 characters, not 254"),
        ("source.use", 3, "spec.source.use: must be text, not 3; put it in quotes"),
        (
            "source.name",
            "Big Name",
            (
                "spec.source.name: must be lowercase letters, digits and '-', such as 'my-name', "
                "not 'Big Name'"
            ),
        ),
        (
            "sink.name",
            "min-words",
            (
                "spec.sink.name: 'min-words' is already the name of stages[0]; give this item "
                "another 'name'"
            ),
        ),
        ("source.with", [], "spec.source.with: must be an object, not a list"),
        (
            "source.with.since",
            date(2020, 1, 1),
            (
                "spec.source.with.since: must be text, a number, true or false, a list "
                "or an object, not the date 2020-01-01; put it in quotes"
            ),
        ),
        (
            "source.with.deep",
            {"list": [1, float("nan")]},
            "spec.source.with.deep.list[1]: must be a finite number, not nan",
        ),
        ("source.with", {3: 4}, "spec.source.with[3]: must be text, not 3; put it in quotes"),
        ("source.resources.cpu", "500m", "spec.source.resources.cpu: must be a number, not '500m'"),
        ("source.resources.cpu", -1, "spec.source.resources.cpu: must be at least 0, not -1"),
        (
            "source.resources.memory",
            "2GB",
            (
                "spec.source.resources.memory: must be an amount such as '512Mi' or '2Gi', "
                "not '2GB'; write '2G'"
            ),
        ),
        (
            "source.resources.custom",
            {"example.com/nvdec": -1},
            'spec.source.resources.custom["example.com/nvdec"]: must be at least 0, not -1',
        ),
        (
            "source.workers",
            4,
            "spec.source.workers: must be an object; write 'min: 4, max: 4'",
        ),
        (
            "source.workers",
            {"min": 3, "max": 2},
            "spec.source.workers: 'max' must be at least 'min', which is 3, not 2",
        ),
        (
            "onChange",
            "restart",
            (
                "spec.onChange: must be 'Fail', 'Restart', 'Continue' or 'Redo', not 'restart'; "
                "did you mean 'Restart'?"
            ),
        ),
        ("suspend", "yes", "spec.suspend: must be true or false, not 'yes'"),
        ("runId", 2, "spec.runId: must be text, not 2; put it in quotes"),
        (
            "checkpoint.interval",
            0,
            "spec.checkpoint.interval: must be more than zero",
        ),
        ("checkpoint.keepLast", 0, "spec.checkpoint.keepLast: must be at least 1, not 0"),
        (
            "retry.delay",
            0.5,
            "spec.retry.delay: must be a duration such as '30s', '10m' or '1h30m', not 0.5",
        ),
        ("retry.jitterRatio", 2, "spec.retry.jitterRatio: must be at most 1, not 2"),
        (
            "retry.eligibleCauses",
            ["UserCancelled"],
            "spec.retry.eligibleCauses[0]: 'UserCancelled' is never retried; remove it from the "
            "list",
        ),
        (
            "retry.eligibleCauses",
            ["Tired"],
            (
                "spec.retry.eligibleCauses[0]: must be a cause that can be retried, "
                "such as 'OOMKilled', not 'Tired'"
            ),
        ),
        (
            "retry.eligibleCauses",
            ["Killed", "Killed"],
            "spec.retry.eligibleCauses: must not contain 'Killed' twice",
        ),
        (
            "quarantine.tolerate",
            "101%",
            (
                "spec.quarantine.tolerate: must be a whole number or a percentage such as '1%', "
                "not '101%'"
            ),
        ),
        ("quarantine.tolerate", -1, "spec.quarantine.tolerate: must not be negative"),
        (
            "storage.ledger",
            {"claimName": "a", "size": "1Gi"},
            (
                "spec.storage.ledger: give 'claimName' for a claim that exists, "
                "or 'size' and 'storageClassName' for a new one, not both"
            ),
        ),
        (
            "storage.output",
            {"claimName": "a", "url": "s3://b"},
            "spec.storage.output: give 'url' or 'claimName', not both",
        ),
        (
            "ray.workerGroups",
            [{"name": "a", "minReplicas": 3, "maxReplicas": 2}],
            (
                "spec.ray.workerGroups[0]: 'maxReplicas' must be at least 'minReplicas', "
                "which is 3, not 2"
            ),
        ),
        (
            "ray.workerGroups",
            [{"name": "head"}],
            (
                "spec.ray.workerGroups[0].name: a worker group can't be called 'head': "
                "that is the head pod's name"
            ),
        ),
        (
            "ray.workerGroups",
            [{"name": "a"}, {"name": "a"}],
            "spec.ray.workerGroups: must not contain 'a' twice",
        ),
        ("ray.image", "", "spec.ray.image: must not be empty"),
    ],
)
def test_an_error_in_the_spec_is_explained(path: str, value: object, expected: str) -> None:
    assert said_about(with_change(f"spec.{path}", value)) == [expected]


def test_all_problems_are_reported_at_once() -> None:
    document = with_change("spec.stages.0", {"batchSize": 0, "nam": "x"})
    del document["spec"]["sink"]
    assert said_about(document) == [
        "spec.stages[0].use: required",
        "spec.stages[0].batchSize: must be at least 1, not 0",
        "spec.stages[0].nam: unknown field 'nam'; did you mean 'name'?",
        "spec.sink: required",
    ]


def test_a_non_string_field_name_is_explained() -> None:
    document: dict[object, object] = {7: 1}
    document |= dict(SMALLEST.items())
    assert said_about(document) == ["[7]: field names must be text"]


def test_a_recursive_document_is_explained() -> None:
    ring: dict[str, Any] = {}
    ring["again"] = ring
    assert said_about(with_change("spec.source.with", ring)) == [
        "spec.source.with.again.again: must not contain itself"
    ]


class Mode(StrEnum):
    STRICT = "strict"
    LOOSE = "loose"


class Circle(BaseModel):
    shape: Literal["circle"]
    radius: float


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")

    shape: Literal["square"]
    side: int


class Parameters(BaseModel):
    """Parameters of a user's stage, with complex types."""

    model_config = ConfigDict(extra="forbid")

    min_words: int = Field(default=1, alias="minWords", gt=0)
    limit: int | list[int] | None = None
    mode: Mode = Mode.STRICT
    shape: Annotated[Circle | Square, Field(discriminator="shape")] | None = None
    pair: tuple[int, float] = (1, 1.0)
    day: date | None = None
    weights: dict[str, float | bool] = {}
    code: str = Field(default="ab", pattern="^[a-z]+$", min_length=2)
    even: int = Field(default=2, multiple_of=2)


@pytest.mark.parametrize(
    ("given_parameters", "expected"),
    [
        ({"minWords": 0}, ".minWords: must be more than 0, not 0"),
        ({"minWord": 3}, ".minWord: unknown field 'minWord'; did you mean 'minWords'?"),
        ({"min_words": 3}, ".min_words: unknown field 'min_words'; did you mean 'minWords'?"),
        ({"limit": "x"}, ".limit: must be a whole number or a list, not 'x'"),
        (
            {"mode": "strikt"},
            ".mode: must be 'strict' or 'loose', not 'strikt'; did you mean 'strict'?",
        ),
        (
            {"shape": {"shape": "square", "side": "x"}},
            ".shape.side: must be a whole number, not 'x'",
        ),
        (
            {"shape": {"shape": "square", "side": 1, "sides": 1}},
            ".shape.sides: unknown field 'sides'; did you mean 'side'?",
        ),
        ({"pair": [1, "x"]}, ".pair[1]: must be a number, not 'x'"),
        (
            {"weights": {"a b": "x"}},
            ".weights[\"a b\"]: must be a number or true or false, not 'x'",
        ),
        ({"code": "A1"}, ".code: must be text that matches ^[a-z]+$, not 'A1'"),
        ({"code": "a"}, ".code: must have at least 2 characters"),
        ({"even": 3}, ".even: must be a multiple of 2, not 3"),
        ({"minWords": None}, ".minWords: must be a whole number, not null"),
        ({"minWords": "x" * 99}, f".minWords: must be a whole number, not '{'x' * 57}...'"),
    ],
)
def test_errors_in_stage_parameters_are_explained(
    given_parameters: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Parameters.model_validate(given_parameters)
    problems = problems_of(caught.value, Parameters, "spec.stages[2].with")
    assert [str(problem) for problem in problems] == [f"spec.stages[2].with{expected}"]


def test_a_union_of_lists_names_the_entry() -> None:
    with pytest.raises(ValidationError) as caught:
        Parameters.model_validate({"limit": [1, "x"]})
    paths = {problem.path for problem in problems_of(caught.value, Parameters, "with")}
    assert "with.limit[1]" in paths


def problems_with(parameters: dict[str, Any]) -> tuple[Problem, ...] | None:
    try:
        Parameters.model_validate(parameters)
    except ValidationError as error:
        return problems_of(error, Parameters, "with")
    return None


def problems_in(document: object) -> tuple[Problem, ...]:
    try:
        parse_pipeline(document)
    except SpecError as error:
        return error.problems
    return ()


@given(
    st.dictionaries(
        st.sampled_from(["minWords", "limit", "mode", "shape", "pair", "day", "code", "zzz"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
            max_leaves=5,
        ),
    )
)
def test_any_bad_parameters_are_explained_in_plain_words(parameters: dict[str, Any]) -> None:
    problems = problems_with(parameters)
    assert problems is None or problems
    assert len({problem.path for problem in problems or ()}) == len(problems or ())
    for problem in problems or ():
        assert problem.path.startswith("with.")
        assert not any(word in problem.message for word in JARGON)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=3))
def test_any_value_is_read_or_explained(value: object) -> None:
    for path in ("spec", "metadata", "spec.source", "spec.retry", "spec.ray.head", "spec.storage"):
        problems = problems_in(with_change(path, value))
        assert all(problem.path.startswith(path) for problem in problems)
        assert not any(word in str(problem) for word in JARGON for problem in problems)


def test_a_problem_reads_as_one_line() -> None:
    assert str(Problem("a.b", "required")) == "a.b: required"
    assert str(Problem("a.b", "wrong", "do it so")) == "a.b: wrong; do it so"
    assert str(Problem("", "empty")) == "empty"


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("min-word", ["min-words", "max-words"], "did you mean 'min-words'?"),
        ("MinWords", ["min-words"], "did you mean 'min-words'?"),
        ("qqq", ["a", "b"], "known names: a, b"),
        ("qqq", [], ""),
        ("qqq", [str(number) for number in range(13)], ""),
    ],
)
def test_suggestions_are_similar_names(word: str, known: list[str], expected: str) -> None:
    assert did_you_mean(word, known) == expected
