"""Environment variables and credentials of Ray's containers.

The fields are Kubernetes' own, so users can paste them from a Deployment. This module must not
depend on how pods are rendered.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from strandline_api.api_model import (
    ApiModel,
    Label,
    Matching,
    ObjectName,
    distinct,
    validated_by,
)
from strandline_api.notation.quantities import Quantity
from strandline_api.spec.pod_paths import VARIABLE_PREFIXES

# Patterns of variables and keys, as in Kubernetes' own validation.
_VARIABLE_PATTERN = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
_VARIABLE_LIKE = "letters, digits, '_', '-' and '.', such as 'AWS_REGION'"
_KEY_PATTERN = r"[-._a-zA-Z0-9]+"
_KEY_LIKE = "letters, digits, '_', '-' and '.', such as 'access-key'"

TAKEN_VARIABLE = (
    "variables that begin with 'STRANDLINE_' or 'RAY_' are reserved for the operator; give this "
    "one another name"
)
ONE_VALUE = "give 'value' or 'valueFrom', not both"
ONE_ORIGIN = (
    "'valueFrom' needs one of 'secretKeyRef', 'configMapKeyRef', 'fieldRef' and 'resourceFieldRef'"
)
ONE_OBJECT = "give one of 'secretRef' and 'configMapRef'"


def _free_prefix(text: str) -> str:
    if text.startswith(VARIABLE_PREFIXES):
        raise ValueError(TAKEN_VARIABLE)
    return text


def _is_free(field: str) -> str:
    return " && ".join(f"!self.{field}.startsWith('{prefix}')" for prefix in VARIABLE_PREFIXES)


# Fields that a rule checks individually, because CEL has no function to count present fields.
_ORIGINS = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
_ORIGIN_COUNT = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in _ORIGINS)

VariableName = Annotated[
    str,
    Matching(_VARIABLE_PATTERN, _VARIABLE_LIKE),
    AfterValidator(_free_prefix),
]
Key = Annotated[str, Matching(_KEY_PATTERN, _KEY_LIKE)]
_Short = Annotated[str, Field(min_length=1, max_length=253)]


class KeyReference(ApiModel):
    """A key of a Secret or ConfigMap in the pipeline's namespace."""

    name: ObjectName = Field(description="Name of the object.")
    key: Key = Field(description="Key in that object.")
    optional: bool = Field(
        default=False, description="Whether pods start if the object or key does not exist."
    )


class FieldReference(ApiModel):
    """A field of the pod itself."""

    field_path: _Short = Field(description="Path of the field, such as 'status.podIP'.")
    api_version: _Short = Field(
        default="v1", description="API version in which 'fieldPath' is written."
    )


class ResourceReference(ApiModel):
    """A request or limit of a container."""

    resource: _Short = Field(description="Name of the resource, such as 'limits.memory'.")
    container_name: Label | None = Field(
        default=None, description="Name of the container. Ray's own when unset."
    )
    divisor: Quantity | None = Field(
        default=None, description="Unit in which the value is given, such as '1Mi'. 1 when unset."
    )


class VariableOrigin(ApiModel):
    """The source of a variable's value."""

    model_config = validated_by((f"{_ORIGIN_COUNT} == 1", ONE_ORIGIN))

    secret_key_ref: KeyReference | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeyReference | None = Field(
        default=None, description="A key of a ConfigMap."
    )
    field_ref: FieldReference | None = Field(default=None, description="A field of the pod.")
    resource_field_ref: ResourceReference | None = Field(
        default=None, description="A request or limit of a container."
    )

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(ONE_ORIGIN)
        return self


class Variable(ApiModel):
    """An environment variable."""

    model_config = validated_by(
        (_is_free("name"), TAKEN_VARIABLE),
        ("!has(self.value) || !has(self.valueFrom)", ONE_VALUE),
    )

    name: VariableName = Field(description="Name of the variable.")
    value: Annotated[str, Field(max_length=2048)] | None = Field(
        default=None,
        description="Value of the variable. Empty when neither this nor 'valueFrom' is set.",
    )
    value_from: VariableOrigin | None = Field(
        default=None, description="Source of the value, such as a key of a Secret."
    )

    @model_validator(mode="after")
    def _check_one_value(self) -> Self:
        if self.value is not None and self.value_from is not None:
            raise ValueError(ONE_VALUE)
        return self


class VariablesReference(ApiModel):
    """A Secret or ConfigMap in the pipeline's namespace whose keys become variables."""

    name: ObjectName = Field(description="Name of the object.")
    optional: bool = Field(
        default=False, description="Whether pods start if the object or key does not exist."
    )


class VariableSource(ApiModel):
    """Variables from all keys of a Secret or ConfigMap."""

    model_config = validated_by(
        ("has(self.secretRef) != has(self.configMapRef)", ONE_OBJECT),
        (f"!has(self.prefix) || ({_is_free('prefix')})", TAKEN_VARIABLE),
    )

    prefix: Annotated[str, Field(max_length=253), AfterValidator(_free_prefix)] | None = Field(
        default=None,
        description="Prefix of each variable's name, such as 'S3_'. None when unset.",
    )
    secret_ref: VariablesReference | None = Field(default=None, description="The Secret.")
    config_map_ref: VariablesReference | None = Field(default=None, description="The ConfigMap.")

    @model_validator(mode="after")
    def _check_one_object(self) -> Self:
        if (self.secret_ref is None) == (self.config_map_ref is None):
            raise ValueError(ONE_OBJECT)
        return self


def _distinct_names(variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
    distinct(tuple(variable.name for variable in variables))
    return variables


Variables = Annotated[tuple[Variable, ...], AfterValidator(_distinct_names)]
