"""Code of the user's own: where the modules come from that `use` names, beside the image.

What is brought never changes under a run: a ConfigMap is copied when an attempt is made, an archive
has a digest, a package has a version. This room must not know how anything is fetched or mounted.
"""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from strandline_api.api_model import (
    ApiModel,
    ObjectName,
    distinct,
    matching,
    text_schema,
    validated_by,
)

_DIGEST_PATTERN = r"[0-9a-f]{64}"
# A URL of any scheme, or a path in the pods, such as one of a volume that is mounted there.
_PLACE_PATTERN = r"([a-zA-Z][a-zA-Z0-9+.-]*:/)?/\S+"
_PLACE_LIKE = "a URL such as 'https://…' or 's3://…', or an absolute path"
# One version and no other, or pods that start later could get another one. It begins with a letter
# or digit, so pip can't take it for an option.
_NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_PACKAGE_PATTERN = (
    rf"{_NAME_PATTERN}(\[{_NAME_PATTERN}(,{_NAME_PATTERN})*\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*"
)
_PACKAGE_LIKE = "a name and its one version, such as 'langdetect==1.0.9'"
_FOLDER_PATTERN = r"[A-Za-z0-9_][^/\\]*(/[A-Za-z0-9_][^/\\]*)*"
_FOLDER_LIKE = "a folder inside of the archive, such as 'corpus-1.2/src'"
_MOST_PACKAGES = 64
NO_PACKAGES = "'index' and 'wheels' say where 'packages' come from; name some"

_Place = Annotated[
    str,
    AfterValidator(matching(_PLACE_PATTERN, _PLACE_LIKE, longest=2048)),
    WithJsonSchema(text_schema(_PLACE_PATTERN, longest=2048)),
]
Package = Annotated[
    str,
    AfterValidator(matching(_PACKAGE_PATTERN, _PACKAGE_LIKE)),
    WithJsonSchema(text_schema(_PACKAGE_PATTERN)),
]

# The folder with what was brought, which the runtime looks for by the variable, and what is where.
CODE_VARIABLE = "STRANDLINE_CODE"
FILES, FETCHED = "files", "fetched"
ARCHIVE, PACKAGES = "archive", "packages"


class CodeArchive(ApiModel):
    """An archive of Python files: .zip, .whl, .tar, or a compressed .tar."""

    url: _Place = Field(
        description="Where it is: https, or any URL of fsspec such as s3://, or a path in the pods."
    )
    sha256: Annotated[
        str,
        AfterValidator(matching(_DIGEST_PATTERN, "64 digits as `sha256sum` prints them")),
        WithJsonSchema(text_schema(_DIGEST_PATTERN)),
    ] = Field(description="Its digest; nothing of an archive with another one is unpacked.")
    path: (
        Annotated[
            str,
            AfterValidator(matching(_FOLDER_PATTERN, _FOLDER_LIKE)),
            WithJsonSchema(text_schema(_FOLDER_PATTERN)),
        ]
        | None
    ) = Field(
        default=None,
        description="Folder in it from which modules are imported. Its top when unset.",
    )


class Code(ApiModel):
    """Modules and packages that the image does not have."""

    model_config = validated_by(
        (
            (
                "(has(self.packages) && size(self.packages) > 0) || "
                "(!has(self.index) && !has(self.wheels))"
            ),
            NO_PACKAGES,
        )
    )

    config_map: ObjectName | None = Field(
        default=None,
        description=(
            "ConfigMap in the pipeline's namespace whose keys are Python files, such as "
            "'mystages.py'. Each attempt has a copy of its own."
        ),
    )
    archive: CodeArchive | None = Field(
        default=None, description="An archive of Python files, fetched once a pod."
    )
    packages: Annotated[tuple[Package, ...], AfterValidator(distinct)] = Field(
        default=(),
        strict=False,
        max_length=_MOST_PACKAGES,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="Packages with their versions, installed once a pod beside those of the image.",
    )
    index: _Place | None = Field(
        default=None,
        description="Index of packages. As pip is configured in the pods when unset.",
    )
    wheels: _Place | None = Field(
        default=None,
        description=(
            "Folder of wheels: a path in the pods or a URL. With it and no 'index', no index is "
            "asked."
        ),
    )

    @property
    def is_given(self) -> bool:
        """Whether anything is brought at all."""
        return self.config_map is not None or self.is_fetched

    @property
    def is_fetched(self) -> bool:
        """Whether a pod has something to fetch before its code is whole."""
        return self.archive is not None or bool(self.packages)

    @model_validator(mode="after")
    def _check_packages(self) -> Self:
        if not self.packages and (self.index is not None or self.wheels is not None):
            raise ValueError(NO_PACKAGES)
        return self


def list_code_folders(code: Code) -> list[str]:
    """List the folders that modules are imported from, in this order, below the code's folder."""
    folders = [] if code.config_map is None else [FILES]
    if code.archive is not None:
        place = [FETCHED, ARCHIVE, *([code.archive.path] if code.archive.path else [])]
        folders.append("/".join(place))
    return [*folders, f"{FETCHED}/{PACKAGES}"] if code.packages else folders


def split_package(package: str) -> tuple[str, str]:
    """Split `Name[extra]==1.0` into name and version: `('Name', '1.0')`."""
    name, _, version = package.partition("==")
    return re.sub(r"\[.*\]", "", name), version
