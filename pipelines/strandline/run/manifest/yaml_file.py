"""Reads a manifest file: parses YAML, applies settings, and validates the API's model.

The runtime reads YAML only here and in `positions`. The model gives the fields their meaning, and
no stage is loaded here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from strandline.run.manifest.positions import NAME_MARK, locating, split_from_top, split_name
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import Problem, SpecError, show
from strandline_api.documents.stored import is_stored, omit_unknown
from strandline_api.objects.pipeline import CurationPipeline


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys. YAML's own loader would silently keep only the last."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the base class's signature
    ) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            # Merge keys (`<<`) may occur several times in a mapping.
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    problem = f"{key.value!r} is written twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class Reading(NamedTuple):
    """A pipeline as written in a file.

    Attributes:
        unknown: paths of ignored fields, such as `spec.colour`.
        is_stored: whether the file was read from an API server.
    """

    pipeline: CurationPipeline
    unknown: tuple[str, ...] = ()
    is_stored: bool = False


def read_pipeline(path: Path, settings: Sequence[str] = (), *, is_strict: bool = False) -> Reading:
    """Read a manifest file and validate it, without checking that its stages exist.

    An unknown field is an error, unless the pipeline comes from an API server: in that case, the
    field belongs to another version and is ignored. Unknown fields in settings are always errors,
    because users type settings by hand.

    Args:
        path: a YAML file that contains one `CurationPipeline`, or `FILE#NAME` for one of several.
        settings: `dotted.path=value`, applied in order before the validation; see `change`.
        is_strict: reject unknown fields even if the pipeline comes from an API server.

    Raises:
        SpecError: if the file, the settings, or the pipeline are wrong. Lists all problems.
    """
    with locating(path, settings):
        return _read_pipeline(path, settings, is_strict=is_strict)


def _read_pipeline(path: Path, settings: Sequence[str], *, is_strict: bool) -> Reading:
    document = _choose_document(path)
    was_stored = is_stored(document)
    unknown: tuple[str, ...] = ()
    if was_stored and not is_strict:
        document, unknown = omit_unknown(document, CurationPipeline)
    for setting in settings:
        document = change(document, setting)
    return Reading(parse_pipeline(document), unknown, was_stored)


def list_pipelines(path: Path) -> list[Path]:
    """Return a path for each pipeline of a file: `FILE#NAME`, or the file for a single pipeline.

    A file that can have only one document is not parsed, and may be invalid.

    Raises:
        SpecError: if the file is not YAML, or a document among several has no name.
    """
    file, name = split_name(path)
    text = _read_text(file)
    if name or ("---" not in text.removeprefix("---") and "..." not in text):
        return [path]
    documents = parse_documents(text, str(file))
    if len(documents) == 1:
        return [path]
    names = [_find_name(document) for document in documents]
    if not all(names):
        _refuse(f"{file}: document {names.index('') + 1} of {len(names)} has no metadata.name")
    twice = next((each for at, each in enumerate(names) if each in names[:at]), None)
    if twice is not None:
        _refuse(f"{file}: pipeline {twice!r} is listed twice")
    return [Path(f"{file}{NAME_MARK}{each}") for each in names]


def _choose_document(path: Path) -> Any:  # noqa: ANN401 - whatever the document holds
    """Return the document that `FILE#NAME` names, or the only document of a file."""
    file, name = split_name(path)
    documents = parse_documents(_read_text(file), str(file))
    names = [_find_name(document) for document in documents]
    if name:
        if name not in names:
            known = ", ".join(map(repr, filter(None, names)))
            _refuse(f"{file}: unknown pipeline {name!r}; its pipelines are: {known or 'none'}")
        return documents[names.index(name)]
    if len(documents) > 1:
        example = next(filter(None, names), "NAME")
        what = f"the file has {len(documents)} documents"
        _refuse(f"{file}: {what}; name one of its pipelines, as in {file}{NAME_MARK}{example}")
    return documents[0]


def _find_name(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def parse_documents(text: str, name: str) -> list[Any]:
    """Return the documents in a text, at least one.

    Args:
        text: YAML.
        name: name of the file, for messages.

    Raises:
        SpecError: if the text is not YAML, or empty.
    """
    try:
        # `_Loader` is a SafeLoader, so it creates only plain values.
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        _refuse(f"{name}: {_explain(error)}", error)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        what = f"the character {chr(int(error.character))!r} is not allowed in YAML"
        _refuse(f"{name}: line {line}, column {column}: {what}", error)
    except (yaml.YAMLError, ValueError) as error:
        _refuse(f"{name}: not valid YAML: {' '.join(str(error).split())}", error)
    except RecursionError as error:
        _refuse(f"{name}: the YAML is nested too deeply", error)
    filled = [document for document in documents if document is not None]
    if not filled:
        _refuse(f"{name}: the file is empty; it must contain one CurationPipeline")
    return filled


def change(document: Any, setting: str) -> Any:  # noqa: ANN401 - a parsed document
    """Return the document with one setting applied. The given document is not changed.

    Args:
        document: a document from `parse_documents`.
        setting: `path=value`. The path starts at the top with `spec`, `metadata`, `kind`, or
            `apiVersion`, and otherwise below `spec`. List entries are `stages.0` or `stages[0]`; a
            name with dots is `["a.b"]`. The value is parsed as YAML.

    Raises:
        SpecError: if the setting is malformed, or its path does not exist.
    """
    path, equals, text = setting.partition("=")
    parts = split_from_top(path)
    if not equals or not parts:
        _refuse(f"--set {setting!r} must be path=value, such as spec.sink.workers.max=2")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        _refuse(f"--set {setting!r}: the value is not valid YAML", error)
    return _put(document, parts, value, "")


def _read_text(path: Path) -> str:
    try:
        # Editors on Windows may write a byte order mark.
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        _refuse(f"{path}: the file does not exist", error)
    except IsADirectoryError as error:
        _refuse(f"{path}: this is a folder; pass the YAML file in it", error)
    except OSError as error:
        _refuse(f"{path}: can't be read: {error.strerror}", error)
    except UnicodeDecodeError as error:
        what = f"the byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8"
        _refuse(f"{path}: {what}; save the file as UTF-8", error)


def _explain(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    what = error.problem or error.context or "not valid YAML"
    if error.context and error.context_mark and error.problem:
        what += f" ({error.context} that begins in line {error.context_mark.line + 1})"
    return at + what


def _put(node: Any, parts: list[str], value: Any, at: str) -> Any:  # noqa: ANN401 - YAML
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if isinstance(node, list):
        if not part.isdecimal() or int(part) >= len(node):
            raise _refuse_path(at, part, f"the list has {len(node)} entries, counted from 0")
        index = int(part)
        inner = _put(node[index], rest, value, f"{at}[{index}]")
        return [*node[:index], inner, *node[index + 1 :]]
    if node is not None and not isinstance(node, dict):
        raise _refuse_path(at, part, f"the value there is {show(node)}")
    below = f"{at}.{part}" if at else part
    old = node or {}
    return {**old, part: _put(old.get(part), rest, value, below)}


def _refuse_path(at: str, part: str, why: str) -> SpecError:
    return SpecError((Problem(at, f"--set: unknown field {part!r}", why),))


def _refuse(message: str, cause: Exception | None = None) -> NoReturn:
    raise SpecError((Problem("", message),)) from cause
