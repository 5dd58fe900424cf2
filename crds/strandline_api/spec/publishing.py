"""Requirements that a run has to meet before readers see its results.

The set of requirements is fixed and typed, so the API server can validate it when a user applies
the pipeline. This module must not depend on how anything is measured, or on which stages exist.
"""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, WithJsonSchema, model_validator

from strandline_api.api_model import ApiModel, Label, validated_by
from strandline_api.notation.excerpts import shorten
from strandline_api.spec.policy import Tolerance

MAX_COLUMNS = 64
MAX_EXPECTATIONS = 64


class ColumnKind(StrEnum):
    """The type of a column, named after Arrow's type families."""

    ANY = "any"
    BINARY = "binary"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    TIME = "time"
    LIST = "list"
    STRUCT = "struct"


class MeasureName(StrEnum):
    """A number that a stage measures over the whole run."""

    NULL_SHARE = "nullShare"
    DUPLICATE_SHARE = "duplicateShare"
    DISTINCT = "distinct"
    LEAST = "least"
    GREATEST = "greatest"
    MEAN = "mean"
    LANGUAGE_SHARE = "languageShare"
    DOCUMENTS = "documents"
    TOKENS = "tokens"

    @property
    def is_of_column(self) -> bool:
        """Return True if the measure describes a column."""
        return self in _OF_COLUMNS

    @property
    def is_share(self) -> bool:
        """Return True if the measure is a share, with a value between 0 and 1."""
        return self in _SHARES


_OF_COLUMNS = frozenset(
    {
        MeasureName.NULL_SHARE,
        MeasureName.DUPLICATE_SHARE,
        MeasureName.DISTINCT,
        MeasureName.LEAST,
        MeasureName.GREATEST,
        MeasureName.MEAN,
    }
)
_SHARES = frozenset(
    {MeasureName.NULL_SHARE, MeasureName.DUPLICATE_SHARE, MeasureName.LANGUAGE_SHARE}
)
_ORDERED = (
    "!has(self.min) || !has(self.max) || self.max >= self.min",
    "'max' must be at least 'min'",
)
_BOUNDED = ("has(self.min) || has(self.max)", "needs 'min' or 'max', or both")

# In strict mode, pydantic accepts only enum members, but documents contain text.
_ColumnKind = Annotated[
    ColumnKind,
    Field(strict=False),
    WithJsonSchema({"type": "string", "enum": [kind.value for kind in ColumnKind]}),
]
_Measure = Annotated[
    MeasureName,
    Field(strict=False),
    WithJsonSchema({"type": "string", "enum": [measure.value for measure in MeasureName]}),
]
_Column = Annotated[str, Field(min_length=1, max_length=253)]


class RowBounds(ApiModel):
    """Bounds of the number of rows in the data set."""

    model_config = validated_by(_BOUNDED, _ORDERED)

    min: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Smallest number of rows."
    )
    max: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Largest number of rows."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_bounds(self.min, self.max)
        return self


class Expectation(ApiModel):
    """Bounds of a number that a stage of the pipeline measures."""

    model_config = validated_by(_BOUNDED, _ORDERED)

    stage: Label = Field(
        description=(
            "Name of the stage of the pipeline that measures: 'measure-fields' for columns, "
            "'count-languages' for 'languageShare', 'count-tokens' for 'documents' and 'tokens'."
        )
    )
    measure: _Measure = Field(
        description=(
            "Measure to bound. For a column: 'nullShare', 'duplicateShare' (estimated share of "
            "rows whose value occurs in another row), 'distinct', 'least', 'greatest' or 'mean'; "
            "for text, the last three apply to its length. For the corpus: 'languageShare', "
            "'documents' or 'tokens'."
        )
    )
    column: _Column | None = Field(default=None, description="The column, for measures of columns.")
    language: _Column | None = Field(
        default=None, description="The language, such as 'en', for 'languageShare'."
    )
    min: float | None = Field(default=None, description="Smallest value. Shares are 0 to 1.")
    max: float | None = Field(default=None, description="Largest value. Shares are 0 to 1.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_bounds(self.min, self.max)
        for name, value, is_needed in (
            ("column", self.column, self.measure.is_of_column),
            ("language", self.language, self.measure is MeasureName.LANGUAGE_SHARE),
        ):
            if is_needed != (value is not None):
                verb = "needs a" if is_needed else "has no"
                raise ValueError(f"'{self.measure}' {verb} '{name}'")
        for bound in (self.min, self.max):
            if self.measure.is_share and bound is not None and not 0 <= bound <= 1:
                raise ValueError(f"a share lies between 0 and 1, so its bound can't be {bound:g}")
        return self


class Requirements(ApiModel):
    """Requirements for publishing a run to readers. All fields are optional."""

    # The CRD stores no default, because a stored default would enable the check for all pipelines.
    verified: bool | None = Field(
        default=None,
        description=(
            "Whether ledger and files must agree, byte for byte, as in 'strandline verify'. This "
            "reads all files."
        ),
    )
    one_recipe: bool | None = Field(
        default=None,
        description=(
            "Whether all finished sources must come from the current version of the pipeline. With "
            "'onChange: Redo' or 'Continue', some may come from an older one."
        ),
    )
    dead_letters: Tolerance | None = Field(
        default=None,
        description=(
            "Largest number of dead letters, or percentage such as '0.1%'. Percentages refer to "
            "the rows written and the dead letters together."
        ),
    )
    quarantined: Tolerance | None = Field(
        default=None,
        description="Largest number or percentage of the listed sources that may be quarantined.",
    )
    rows: RowBounds | None = Field(
        default=None, description="Number of rows that all files together must have."
    )
    columns: dict[str, _ColumnKind] = Field(
        default_factory=dict,
        max_length=MAX_COLUMNS,
        description=(
            "Columns that every Parquet file must have, each with its kind of values: 'any', "
            "'binary', 'boolean', 'integer', 'number', 'string', 'time', 'list' or 'struct'."
        ),
    )
    expectations: tuple[Expectation, ...] = Field(
        default_factory=tuple,
        strict=False,
        max_length=MAX_EXPECTATIONS,
        description="Bounds of the measurements of stages over the whole run.",
    )


class Publishing(ApiModel):
    """When a run is published to readers, and where its files are delivered."""

    require: Requirements = Field(
        default_factory=Requirements,
        description=(
            "Requirements of a publication. If one is not met, 'latest' is unchanged, and the run "
            "fails with 'RequirementsNotMet'."
        ),
    )
    to: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None,
        description=(
            "Target that receives all files of a complete run that meets the requirements, as with "
            "'strandline push --to': a folder, a URL of a store, hf://datasets/ORG/NAME[@branch], "
            "delta:TABLE, iceberg:CATALOG/NAMESPACE.TABLE or lance:TABLE."
        ),
    )


def _check_bounds(least: float | None, most: float | None) -> None:
    if least is None and most is None:
        raise ValueError("needs 'min' or 'max', or both")
    if least is not None and most is not None and most < least:
        raise ValueError(f"'max' must be at least 'min', which is {least:g}, not {shorten(most)}")
