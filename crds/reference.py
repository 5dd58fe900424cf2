"""Writes the API reference and the tables of the failure catalog from the models.

The reference shows on one page what `kubectl explain` shows for one field at a time. This module
must not depend on the location of the pages.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.outcome.disruptions import Disruption
from strandline_api.outcome.evidence import PRECEDENCE
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.schema.openapi import nodes
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.reasons import ConditionType, Reason

Node = dict[str, Any]

_INTRODUCTION = """\
<!-- Made by `make crds` from the models in crds/strandline_api. Do not edit. -->

# API reference

`strandline.dev/v1alpha1`. `kubectl explain cpipe.spec.storage` prints the same text in a terminal.

Unset fields have their defaults. The API server writes defaults into the object, except inside
lists. An unset field of `retry` has the default of the namespace, or else of the operator.
"""
_DEFAULT = re.compile(r"^(.*) Defaults to (\S+)\.$")
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_LABELS = {
    "x-kubernetes-int-or-string": "integer or text",
    "x-kubernetes-preserve-unknown-fields": "free object",
    "format": "time",
}
_TYPES = {"string": "text", "boolean": "`true`, `false`"}
_PAID_BY = {
    Treatment.DISRUPTION: "`disruptions.maxRetries`",
    Treatment.RETRIED: "`maxRetries`",
    Treatment.WAITED: "no limit",
    Treatment.NEVER: "never",
}


def render_reference(kinds: Iterable[Node]) -> str:
    """Render the reference page with all fields of the given CRDs."""
    return "\n".join([_INTRODUCTION, *(line for kind in kinds for line in _describe_kind(kind))])


def render_failures(page: str) -> str:
    """Replace the tables of a page. Two comments that name a table mark its start and end.

    Raises:
        KeyError: if the page names an unknown table.
    """
    tables = {
        "exits": _table(("exit code", "what it means", "what to do"), _list_exits()),
        "causes": _table(("cause", "retries", "what it means", "what to do"), _list_causes()),
        "disruptions": _table(
            ("disruption", "cause", "what it says", "known by", "what to do"), _list_disruptions()
        ),
        "reasons": _table(("reason", "what it means", "what to do"), _list_reasons()),
        "conditions": _table(
            ("condition", "what it says"),
            ((f"`{condition_type}`", condition_type.meaning) for condition_type in ConditionType),
        ),
        "events": _table(
            ("event", "what has happened"),
            ((f"`{event_reason}`", event_reason.meaning) for event_reason in EventReason),
        ),
    }
    return _TABLE.sub(lambda found: f"{found[1]}{tables[found[2]]}\n{found[3]}", page)


def _list_exits() -> Iterator[tuple[str, ...]]:
    for code in ExitCode:
        yield f"{code:d}", code.meaning, code.advice


def _list_causes() -> Iterator[tuple[str, ...]]:
    for cause in sorted(Cause, key=PRECEDENCE.index):
        yield f"`{cause}`", _PAID_BY[cause.treatment], cause.meaning, cause.advice


def _list_disruptions() -> Iterator[tuple[str, ...]]:
    for kind in Disruption:
        yield f"`{kind}`", f"`{kind.cause}`", kind.describe("N", "…"), kind.marks, kind.advice


def _list_reasons() -> Iterator[tuple[str, ...]]:
    for reason in Reason:
        yield f"`{reason}`", reason.meaning, reason.advice or "–"


def _describe_kind(definition: Node) -> Iterator[str]:
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    schema, short = version["schema"]["openAPIV3Schema"], names["shortNames"][0]
    selectable = ", ".join(f"`{field['jsonPath'][1:]}`" for field in version["selectableFields"])
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    yield f"## {names['kind']}\n\n{schema['description']}\n"
    yield f"- `kubectl get {short}` shows {', '.join(columns)}; the last ones with `-o wide`."
    yield f"- `--field-selector` supports {selectable}."
    yield from _list_rules(schema, deep=False)
    yield ""
    for part in ("spec", "status"):
        yield from _describe_part(f"{short}.{part}", schema["properties"][part])


def _describe_part(path: str, node: Node) -> Iterator[str]:
    """Yield a table of an object's fields, and another table for each field that is an object."""
    yield f"### `{path}`\n\n{node['description']}\n"
    yield _table(("field", "type", "default", "meaning"), _list_fields(node, deep=False))
    yield from _list_rules(node, deep=False)
    yield ""
    for name, child in node["properties"].items():
        if "properties" in child or "properties" in child.get("items", {}):
            yield f"### `{path}.{name}`\n\n{child['description']}\n"
            yield _table(("field", "type", "default", "meaning"), _list_fields(child, deep=True))
            yield from _list_rules(child, deep=True)
            yield ""


def _list_fields(node: Node, *, deep: bool) -> Iterator[tuple[str, ...]]:
    owner = node.get("items", node)
    required = owner.get("required", ())
    for name, child in owner["properties"].items():
        text, default = _split_default(child["description"])
        yield f"`{name}`", _describe_type(child), "required" if name in required else default, text
        if deep and ("properties" in child or "properties" in child.get("items", {})):
            mark = "[]" if "items" in child else ""
            for inner, *rest in _list_fields(child, deep=True):
                yield f"`{name}{mark}.{inner.strip('`')}`", *rest


def _split_default(description: str) -> tuple[str, str]:
    found = _DEFAULT.match(description)
    return (found[1], f"`{found[2]}`") if found else (description, "")


def _describe_type(node: Node) -> str:
    if "items" in node:
        return f"list of {_describe_type(node['items'])}, at most {node['maxItems']}"
    if "additionalProperties" in node:
        return f"map to {_describe_type(node['additionalProperties'])}"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    label = next((label for key, label in _LABELS.items() if key in node), "")
    return label or f"{_TYPES.get(node['type'], node['type'])}{_describe_bounds(node)}"


def _describe_bounds(node: Node) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    if most is not None:
        return f" from {least} to {most}"
    return "" if least is None else f", at least {least}"


def _list_rules(node: Node, *, deep: bool) -> Iterator[str]:
    found = [child for path, child in nodes(node) if deep or not path]
    rules = [rule for child in found for rule in child.get("x-kubernetes-validations", ())]
    if rules:
        yield "\nThe API server enforces these rules:\n"
    for rule in rules:
        yield f"- {rule['message']}"


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
