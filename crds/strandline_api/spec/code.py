"""Defines where to get users' own code: modules named in `use` that the image does not have.

Code never changes during a run: a ConfigMap is copied for each attempt, an archive has a digest,
and a package has a version. This module must not depend on how code is fetched or mounted.
"""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from strandline_api.api_model import (
    ApiModel,
    Matching,
    ObjectName,
    distinct,
    validated_by,
)

_DIGEST_PATTERN = r"[0-9a-f]{64}"
# A URL of any scheme, or a path in the pods, such as a path on a mounted volume.
_PATH_PATTERN = r"([a-zA-Z][a-zA-Z0-9+.-]*:/)?/\S+"
_PATH_FORMAT = "a URL such as 'https://…' or 's3://…', or an absolute path"
# Require an exact version, because pods that start later could otherwise get another version. The
# name must start with a letter or digit, so that pip can't mistake it for an option.
_NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
_PACKAGE_PATTERN = (
    rf"{_NAME_PATTERN}(\[{_NAME_PATTERN}(,{_NAME_PATTERN})*\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*"
)
_PACKAGE_LIKE = "a name and its one version, such as 'langdetect==1.0.9'"
# Every path segment begins with a letter, a digit, or `_`, so `..` and absolute paths do not match.
_FOLDER_PATTERN = r"[A-Za-z0-9_][^/\\]*(/[A-Za-z0-9_][^/\\]*)*"
_FOLDER_LIKE = "a folder inside the archive, such as 'corpus-1.2/src'"
_MOST_PACKAGES = 64
NO_PACKAGES = "'index' and 'wheels' configure where 'packages' come from; list 'packages' too"

_PathOrUrl = Annotated[str, Matching(_PATH_PATTERN, _PATH_FORMAT, longest=2048)]
Package = Annotated[str, Matching(_PACKAGE_PATTERN, _PACKAGE_LIKE)]

# The environment variable with the path of users' code, and the names of its subfolders.
CODE_VARIABLE = "STRANDLINE_CODE"
FILES, FETCHED = "files", "fetched"
ARCHIVE, PACKAGES = "archive", "packages"


class CodeArchive(ApiModel):
    """An archive of Python files: .zip, .whl, .tar, or a compressed .tar."""

    url: _PathOrUrl = Field(
        description=(
            "URL of the archive, such as 'https://example.com/stages.zip' or "
            "'s3://bucket/stages.tar.gz', or a path in the pods. All protocols of fsspec are "
            "supported."
        )
    )
    sha256: Annotated[str, Matching(_DIGEST_PATTERN, "64 digits as `sha256sum` prints them")] = (
        Field(
            description=(
                "SHA-256 digest of the archive in 64 hexadecimal digits. An archive with another "
                "digest is rejected."
            )
        )
    )
    path: Annotated[str, Matching(_FOLDER_PATTERN, _FOLDER_LIKE)] | None = Field(
        default=None,
        description=(
            "Folder in the archive from which modules are imported, such as 'src'. The top folder"
            " when unset."
        ),
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
            "Name of a ConfigMap in the pipeline's namespace whose keys are Python files, such as"
            " 'mystages.py'. Each attempt gets its own copy."
        ),
    )
    archive: CodeArchive | None = Field(
        default=None, description="An archive of Python files, which each pod fetches once."
    )
    packages: Annotated[tuple[Package, ...], AfterValidator(distinct)] = Field(
        default=(),
        strict=False,
        max_length=_MOST_PACKAGES,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description=(
            "Python packages with exact versions, such as 'rapidfuzz==3.9.0'. Each pod installs "
            "them once, beside those of the image."
        ),
    )
    index: _PathOrUrl | None = Field(
        default=None,
        description=(
            "URL of the package index. When unset, pip's configuration in the pods applies."
        ),
    )
    wheels: _PathOrUrl | None = Field(
        default=None,
        description=(
            "Folder of wheels, as a path in the pods or a URL. When this is set and 'index' is "
            "not, no index is used."
        ),
    )

    @property
    def is_given(self) -> bool:
        """Return True if the spec adds any code."""
        return self.config_map is not None or self.is_fetched

    @property
    def is_fetched(self) -> bool:
        """Return True if a pod has to fetch some of the code."""
        return self.archive is not None or bool(self.packages)

    @model_validator(mode="after")
    def _check_packages(self) -> Self:
        if not self.packages and (self.index is not None or self.wheels is not None):
            raise ValueError(NO_PACKAGES)
        return self


def list_code_folders(code: Code) -> list[str]:
    """Return the folders to import modules from, in search order, relative to the code folder."""
    folders = [] if code.config_map is None else [FILES]
    if code.archive is not None:
        parts = [FETCHED, ARCHIVE, *([code.archive.path] if code.archive.path else [])]
        folders.append("/".join(parts))
    # Packages come last, so the user's files override installed modules with the same name.
    return [*folders, f"{FETCHED}/{PACKAGES}"] if code.packages else folders


def split_package(package: str) -> tuple[str, str]:
    """Split `Name[extra]==1.0` into name and version: `('Name', '1.0')`."""
    name, _, version = package.partition("==")
    return re.sub(r"\[.*\]", "", name), version
