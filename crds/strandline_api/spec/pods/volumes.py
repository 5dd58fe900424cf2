"""Volumes of Ray's containers, and their mounts.

The fields are Kubernetes' own. Volume types without a model in this module are copied to the pod
unchanged. This module must not depend on how pods are rendered.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from strandline_api.api_model import (
    ApiModel,
    Label,
    Matching,
    ObjectName,
    distinct,
    validated_by,
)
from strandline_api.spec.pod_paths import RESERVED_PATHS, SHARED_PATHS, VOLUME_NAMES

# Matches `/models` and `/a/b/`. Kubernetes rejects a colon in a mount path.
_PATH_PATTERN = r"(/[^/:]+)+/?"
_PATH_FORMAT = "an absolute path without ':', such as '/etc/credentials'"
_MAX_PATH = 1024

TAKEN_VOLUME = (
    f"the pods already have the volumes {', '.join(repr(name) for name in VOLUME_NAMES)}; give "
    "this volume another name"
)
TAKEN_PATH = (
    f"the pods already have {', '.join((*RESERVED_PATHS, *SHARED_PATHS))}; mount the volume "
    "elsewhere"
)
NO_VOLUME = "'volumeMounts' may name only volumes that are listed in 'volumes' next to it"


def _free_name(name: str) -> str:
    if name in VOLUME_NAMES:
        raise ValueError(TAKEN_VOLUME)
    return name


def _check_path(path: str) -> str:
    mount_path = path.rstrip("/")
    # The slash at the end keeps paths like `/etc/strandline-extra` allowed.
    if mount_path in SHARED_PATHS or f"{mount_path}/".startswith(
        tuple(f"{it}/" for it in RESERVED_PATHS)
    ):
        raise ValueError(TAKEN_PATH)
    return path


def _open(*rules: tuple[str, str]) -> ConfigDict:
    """Return the configuration of a Kubernetes object with typed and additional fields."""
    spoken = [{"rule": rule, "message": message} for rule, message in rules]

    def describe(schema: dict[str, Any]) -> None:
        # For `extra="allow"`, pydantic writes `additionalProperties: true`, but the API server
        # expects another key for free-form objects.
        schema.pop("additionalProperties", None)
        schema["x-kubernetes-preserve-unknown-fields"] = True
        if spoken:
            schema["x-kubernetes-validations"] = spoken

    return ConfigDict(extra="allow", json_schema_extra=describe)


_PATH_IS_FREE = " && ".join(
    (
        *(f"self.mountPath != '{it}' && self.mountPath != '{it}/'" for it in SHARED_PATHS),
        *(
            f"self.mountPath != '{it}' && !self.mountPath.startsWith('{it}/')"
            for it in RESERVED_PATHS
        ),
    )
)
MountPath = Annotated[
    str,
    Matching(_PATH_PATTERN, _PATH_FORMAT, longest=_MAX_PATH),
    AfterValidator(_check_path),
]
_Path = Annotated[str, Field(min_length=1, max_length=1024)]


class SecretVolume(ApiModel):
    """Files from the keys of a Secret."""

    model_config = _open()
    __pydantic_extra__: dict[str, JsonValue]

    secret_name: ObjectName = Field(description="Name of the Secret.")


class ConfigMapVolume(ApiModel):
    """Files from the keys of a ConfigMap."""

    model_config = _open()
    __pydantic_extra__: dict[str, JsonValue]

    name: ObjectName = Field(description="Name of the ConfigMap.")


class ClaimVolume(ApiModel):
    """A claim that every Ray pod can mount."""

    model_config = _open()
    __pydantic_extra__: dict[str, JsonValue]

    claim_name: ObjectName = Field(description="Name of the claim.")


class Volume(ApiModel):
    """A volume of any kind that Kubernetes supports."""

    model_config = _open((f"!(self.name in {list(VOLUME_NAMES)})", TAKEN_VOLUME))
    __pydantic_extra__: dict[str, JsonValue]

    name: Annotated[Label, AfterValidator(_free_name)] = Field(description="Name of the volume.")
    secret: SecretVolume | None = Field(
        default=None, description="Files from a Secret; Kubernetes' other fields may follow."
    )
    config_map: ConfigMapVolume | None = Field(
        default=None, description="Files from a ConfigMap; Kubernetes' other fields may follow."
    )
    persistent_volume_claim: ClaimVolume | None = Field(
        default=None, description="A claim; Kubernetes' other fields may follow."
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        kinds = sorted({*self.model_dump(by_alias=True, exclude_none=True)} - {"name"})
        if len(kinds) > 1:
            raise ValueError(f"a volume has one kind, not {' and '.join(kinds)}")
        return self


class VolumeMount(ApiModel):
    """The path at which Ray's containers mount a volume."""

    model_config = validated_by((_PATH_IS_FREE, TAKEN_PATH))

    name: Label = Field(description="Name of the volume, in 'volumes'.")
    mount_path: MountPath = Field(description="Absolute path in the container, such as '/models'.")
    read_only: bool = Field(default=False, description="Whether the volume is mounted read-only.")
    sub_path: _Path | None = Field(
        default=None,
        description=(
            "Folder or file in the volume to mount, such as 'v2'. The whole volume when unset."
        ),
    )
    sub_path_expr: _Path | None = Field(
        default=None,
        description="Like 'subPath', with environment variables such as '$(POD_NAME)'.",
    )
    mount_propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = Field(
        default=None,
        description=(
            "Whether mounts propagate from the node to the container or both ways. 'None' when "
            "unset."
        ),
    )
    recursive_read_only: Literal["Disabled", "IfPossible", "Enabled"] | None = Field(
        default=None,
        description="Whether mounts below this one are read-only too. 'Disabled' when unset.",
    )


def _distinct_names(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    distinct(tuple(volume.name for volume in volumes))
    return volumes


def _check_distinct_paths(mounts: tuple[VolumeMount, ...]) -> tuple[VolumeMount, ...]:
    distinct(tuple(mount.mount_path for mount in mounts))
    return mounts


Volumes = Annotated[tuple[Volume, ...], AfterValidator(_distinct_names)]
VolumeMounts = Annotated[tuple[VolumeMount, ...], AfterValidator(_check_distinct_paths)]
MOUNTS_HAVE_VOLUMES = (
    "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && "
    "self.volumes.exists(volume, volume.name == mount.name))"
)


def find_homeless(volumes: Iterable[Volume], mounts: Iterable[VolumeMount]) -> str | None:
    """Return the first volume that is mounted but not defined, or None if all are defined."""
    names = {volume.name for volume in volumes}
    return next((mount.name for mount in mounts if mount.name not in names), None)
