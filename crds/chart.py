"""Generates the parts of the Helm chart that derive from the API models and the values schema.

The chart contains the CRDs as templates, because Helm never upgrades CRDs in a chart's `crds`
folder. This module must not depend on where the chart is, or on how its templates use a value.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

Node = dict[str, Any]

POLICY = "retryPolicy"
_IF = "{{- if .Values.crds.install }}\n"
_END = "{{- end }}\n"
# Helm keeps objects with this annotation when the release is uninstalled, and when an upgrade no
# longer contains them.
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"
_LABELS = '  labels:\n    {{- include "strandline.labels" . | nindent 4 }}\n'
_KUBERNETES = ("x-kubernetes-int-or-string", "x-kubernetes-list-type", "nullable")
_HEADER = "# Made by `make crds` from values.schema.json. Do not edit: change the schema.\n"
_INTRODUCTION = """\
<!-- Made by `make crds` from values.schema.json. Do not edit. -->

# strandline

Runs `CurationPipeline` objects: one attempt after another, each as a RayJob of KubeRay.
docs/install.md describes how to install, upgrade and remove the operator. Helm rejects values that
are not listed here, so it reports misspelt names.

"""


def render_template(definition: str) -> str:
    """Turn a CRD's YAML into a template of the chart.

    Raises:
        ValueError: if the YAML lacks the line after which the metadata is inserted.
    """
    before, name, after = definition.partition("\nmetadata:\n  name: ")
    if not name or "{{" in definition:
        raise ValueError("a definition must have one name, and no braces that Helm would read")
    title, _, rest = after.partition("\n")
    return f"{_IF}{before}{name}{title}\n{_LABELS}{_KEEP}{rest}{_END}"


def render_schema(text: str, definition: Node) -> str:
    """Insert the pipeline's retry policy into the values schema."""
    schema = json.loads(text)
    version = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    policy = _translate(version["properties"]["spec"]["properties"]["retry"])
    schema["definitions"] = {POLICY: policy}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def render_values(schema: Node) -> str:
    """Render `values.yaml`: all values with their defaults, each below its description."""
    return _HEADER + "\n".join(_list_values(schema, ""))


def render_readme(schema: Node) -> str:
    """Render the chart's README, which lists all values."""
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _list_rows(schema, ""))
    policy = schema["definitions"][POLICY]
    fields = "".join(f"| {' | '.join(row)} |\n" for row in _list_rows(policy, ""))
    return (
        f"{_INTRODUCTION}| value | type | default | meaning |\n| --- | --- | --- | --- |\n{rows}\n"
        "A retry policy has these fields; one that is left out is left to the next layer.\n\n"
        f"| field | type | default | meaning |\n| --- | --- | --- | --- |\n{fields}"
    )


def _translate(node: Mapping[str, Any]) -> Node:
    """Convert a Kubernetes structural schema to plain JSON Schema that rejects unknown fields."""
    plain = {key: value for key, value in node.items() if key not in _KUBERNETES}
    if node.get("nullable"):
        plain["anyOf"] = [*node["anyOf"], {"type": "null"}]
    if node.get("x-kubernetes-list-type") == "set":
        plain["uniqueItems"] = True
    if "items" in node:
        plain["items"] = _translate(node["items"])
    if "properties" in node:
        fields = node["properties"].items()
        plain["properties"] = {name: _translate(child) for name, child in fields}
        plain["additionalProperties"] = False
    return plain


def _list_values(node: Node, indent: str) -> Iterator[str]:
    for name, child in node["properties"].items():
        yield from (f"{indent}# {line}" for line in textwrap.wrap(child["description"], 90))
        if "properties" in child:
            yield f"{indent}{name}:"
            yield from _list_values(child, f"{indent}  ")
        else:
            text = yaml.safe_dump({name: child["default"]}, sort_keys=False, allow_unicode=True)
            yield textwrap.indent(text.rstrip("\n"), indent)
        if not indent:
            yield ""


def _list_rows(node: Node, path: str) -> Iterator[tuple[str, ...]]:
    for name, child in node["properties"].items():
        if "properties" in child:
            yield from _list_rows(child, f"{path}{name}.")
        else:
            default = json.dumps(child["default"]) if "default" in child else ""
            meaning = child["description"].replace("|", "/")
            shown = default and f"`{default}`"
            yield f"`{path}{name}`", _describe_type(child), shown, meaning


def _describe_type(node: Node) -> str:
    if "$ref" in node:
        return "retry policy"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "anyOf" in node:
        return " or ".join(choice["type"] for choice in node["anyOf"])
    if node["type"] == "array":
        return f"list of {_describe_type(node['items'])}"
    if isinstance(node["type"], list):
        return " or ".join(node["type"])
    inner = node.get("additionalProperties")
    return f"map to {_describe_type(inner)}" if inner else str(node["type"])
