"""A real API server accepts the CRDs, documents their fields, and rejects invalid objects."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from api_server import OURS, ROOT, list_ours
from guide import BLOCK
from kube_client import KubeClient, Refusal, spell_path
from recordings import Json
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.schema.crd import UNSEEN
from waiting import wait_until

DEFINITIONS = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in list_ours()]
NAMES = [definition["spec"]["names"]["kind"] for definition in DEFINITIONS]
EXAMPLES = sorted((ROOT / "pipelines" / "examples").glob("*.yaml"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = [
    pytest.param(body, id=f"{page.stem}-{at}")
    for page in PAGES
    for at, block in enumerate(BLOCK.finditer(page.read_text("utf-8")))
    if block["language"] == "yaml"
    for body in yaml.safe_load_all(block["body"])
    if isinstance(body, dict) and body.get("kind") == "CurationPipeline"
]
SCHEMAS = "openapi/v3/apis/strandline.dev/v1alpha1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
# Values for a status that fills every printed column.
SAMPLES = {"string": "word", "integer": 7, "number": 7, "boolean": True}

each_definition = pytest.mark.parametrize("definition", DEFINITIONS, ids=NAMES)

Edit = Callable[[Json], object]


def make_pipeline(name: str = "corpus") -> Json:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {
            "source": {"use": "files"},
            "stages": [{"use": "read-files"}],
            "sink": {"use": "parquet"},
        },
    }


def make_attempt(name: str = "corpus-2") -> Json:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationAttempt",
        "metadata": {"name": name},
        "spec": {
            "pipeline": "corpus",
            "pipelineUid": "0",
            "run": "first",
            "number": 2,
            "trigger": "Run",
        },
    }


MAKERS = {"CurationPipeline": make_pipeline, "CurationAttempt": make_attempt}


def put(*path: str | int, to: Any) -> Edit:
    """Return an edit that sets a value at a path of an object, and creates missing parents."""

    def edit(body: Json) -> None:
        target: Any = body
        for key in path[:-1]:
            target = target[key] if isinstance(key, int) else target.setdefault(key, {})
        target[path[-1]] = to

    return edit


# For each rule of the schemas, an edit of a new or an existing object that the rule must reject.
WORKERS = {"min": 3, "max": 2}
EXPECTATION = {"stage": "count-tokens", "measure": "tokens"}
SECRET = {"name": "keys", "key": "id"}
ANY_VALUE = {"key": "pool", "operator": "Exists", "value": "spot"}
FOR_A_WHILE = {"key": "pool", "effect": "NoSchedule", "tolerationSeconds": 5}
NEW: dict[str, tuple[str, Edit]] = {
    "an attempt ends in its number": (
        "the name must end in",
        put("metadata", "name", to="corpus-3"),
    ),
    "previous before number": ("'previous' must be less", put("spec", "previous", to=2)),
    "a pipeline after itself": (
        "a pipeline can't come after itself",
        put("spec", "after", to=[{"name": "corpus"}]),
    ),
    "workers of the source": ("'max' must be", put("spec", "source", "workers", to=WORKERS)),
    "workers of a stage": ("'max' must be", put("spec", "stages", 0, "workers", to=WORKERS)),
    "workers of the sink": ("'max' must be", put("spec", "sink", "workers", to=WORKERS)),
    "a claim or a new one": (
        "give 'claimName' for a claim that exists",
        put("spec", "storage", "ledger", to={"claimName": "mine", "size": "1Gi"}),
    ),
    "url or claim": (
        "give 'url' or 'claimName'",
        put("spec", "storage", "output", to={"url": "s3://a/b", "claimName": "mine"}),
    ),
    "replicas of a group": (
        "'maxReplicas' must be at least",
        put("spec", "ray", "workerGroups", to=[{"name": "a", "minReplicas": 3, "maxReplicas": 2}]),
    ),
    "a group with the head's name": (
        "a worker group can't be called 'head'",
        put("spec", "ray", "workerGroups", to=[{"name": "head"}]),
    ),
    "a variable of ours": (
        "variables that begin with 'STRANDLINE_' or 'RAY_'",
        put("spec", "ray", "env", to=[{"name": "RAY_ADDRESS", "value": "x"}]),
    ),
    "a prefix of ours": (
        "variables that begin with 'STRANDLINE_' or 'RAY_'",
        put("spec", "ray", "envFrom", to=[{"prefix": "RAY_", "secretRef": {"name": "keys"}}]),
    ),
    "a toleration of no taint": (
        "a toleration without 'key' applies to all taints",
        put("spec", "ray", "head", "spot", to={"preset": "gke", "tolerations": [{}]}),
    ),
    "a toleration of any value with one": (
        "'value' must be empty if 'operator' is Exists",
        put("spec", "ray", "head", "spot", to={"preset": "gke", "tolerations": [ANY_VALUE]}),
    ),
    "a toleration for a time of what lets stay": (
        "'tolerationSeconds' needs 'effect: NoExecute'",
        put("spec", "ray", "head", "spot", to={"preset": "gke", "tolerations": [FOR_A_WHILE]}),
    ),
    "rows without a bound": (
        "needs 'min' or 'max', or both",
        put("spec", "publish", "require", "rows", to={}),
    ),
    "rows out of order": (
        "'max' must be at least 'min'",
        put("spec", "publish", "require", "rows", to={"min": 2, "max": 1}),
    ),
    "an expectation without a bound": (
        "needs 'min' or 'max', or both",
        put("spec", "publish", "require", "expectations", to=[EXPECTATION]),
    ),
    "an expectation out of order": (
        "'max' must be at least 'min'",
        put("spec", "publish", "require", "expectations", to=[EXPECTATION | {"min": 2, "max": 1}]),
    ),
    "one value": (
        "give 'value' or 'valueFrom'",
        put(
            *("spec", "ray", "env"),
            to=[{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": SECRET}}],
        ),
    ),
    "one origin of a value": (
        "'valueFrom' needs one of",
        put(
            *("spec", "ray", "env"),
            to=[
                {"name": "A", "valueFrom": {"secretKeyRef": SECRET, "configMapKeyRef": SECRET}},
            ],
        ),
    ),
    "one object of variables": (
        "give one of 'secretRef'",
        put("spec", "ray", "envFrom", to=[{"prefix": "A"}]),
    ),
    "a volume of ours": (
        "the pods already have the volumes 'ledger'",
        put("spec", "ray", "volumes", to=[{"name": "temporary", "emptyDir": {}}]),
    ),
    "a place of ours": (
        "the pods already have /var/lib/strandline,",
        put(
            *("spec", "ray"),
            to={
                "volumes": [{"name": "keys", "secret": {"secretName": "keys"}}],
                "volumeMounts": [{"name": "keys", "mountPath": "/etc/strandline/keys"}],
            },
        ),
    ),
    "a mount of nothing": (
        "'volumeMounts' may name only",
        put("spec", "ray", "volumeMounts", to=[{"name": "keys", "mountPath": "/keys"}]),
    ),
    "spot nodes of no kind": (
        "'spot' needs a 'preset'",
        put("spec", "ray", "head", to={"spot": {"nodeSelector": {}}}),
    ),
    "a fallback at no time": (
        "'fallback' needs 'afterDisruptions'",
        put(
            "spec",
            "ray",
            "workerGroups",
            to=[{"name": "a", "spot": {"preset": "gke", "fallback": {}}}],
        ),
    ),
    "wheels of no package": (
        "'index' and 'wheels' configure where",
        put("spec", "code", to={"wheels": "s3://corpus/wheels"}),
    ),
}
CHANGED: dict[str, tuple[str, Edit]] = {
    "an attempt": ("an attempt cannot be changed", put("spec", "run", to="second")),
    "the ledger's place": (
        "the ledger cannot be moved",
        put("spec", "storage", "ledger", "claimName", to="another"),
    ),
}


def make_for(sentence: str) -> Json:
    """Make an object of the kind whose schema has the rule with this message."""
    kind = next(kind for kind, rule in list_rules() if rule["message"].startswith(sentence))
    return MAKERS[kind]()


def list_rules() -> Iterator[tuple[str, Json]]:
    for definition in DEFINITIONS:
        for version in definition["spec"]["versions"]:
            for schema in walk(version["schema"]["openAPIV3Schema"]):
                for rule in schema.get("x-kubernetes-validations", ()):
                    yield definition["spec"]["names"]["kind"], rule


def walk(schema: Json) -> Iterator[Json]:
    yield schema
    below = [*schema.get("properties", {}).values(), schema.get("items")]
    for part in (*below, schema.get("additionalProperties")):
        if isinstance(part, dict):
            yield from walk(part)


def list_silent(schema: Json, path: str) -> Iterator[str]:
    """Yield the fields of a schema without a description."""
    for name, part in schema.get("properties", {}).items():
        if not part.get("description"):
            yield f"{path}.{name}"
        yield from list_silent(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from list_silent(schema[key], f"{path}[]")


def refusal_of(call: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value


@each_definition
def test_the_server_accepts_the_definition_without_warnings(
    definition: Json, client: KubeClient
) -> None:
    found = client.get("CustomResourceDefinition", definition["metadata"]["name"])
    assert found is not None
    conditions = {it["type"]: (it["status"], it["message"]) for it in found["status"]["conditions"]}
    assert conditions.pop("Established")[0] == "True"
    assert conditions.pop("NamesAccepted")[0] == "True"
    assert conditions == {}
    assert found["spec"]["versions"] == definition["spec"]["versions"]


@each_definition
def test_every_field_is_explained_by_the_server(definition: Json, client: KubeClient) -> None:
    kind = definition["spec"]["names"]["kind"]
    wait_until(lambda: bool(find_schemas(client, kind)))  # served a little later than the kind
    (schema,) = find_schemas(client, kind)
    assert schema["description"]
    for part in ("spec", "status"):
        assert schema["properties"][part]["description"]
        assert list(list_silent(schema["properties"][part], f".{part}")) == []


def find_schemas(client: KubeClient, kind: str) -> list[Json]:
    try:
        schemas = client.ask("GET", SCHEMAS)["components"]["schemas"]
    except Refusal:
        return []
    return [it for name, it in schemas.items() if name.endswith(f".{kind}")]


@each_definition
def test_the_server_lists_the_kind_by_its_short_name_and_category(
    definition: Json, client: KubeClient
) -> None:
    served = client.ask("GET", "apis/strandline.dev/v1alpha1")["resources"]
    names = definition["spec"]["names"]
    (resource,) = [it for it in served if it["name"] == names["plural"]]
    assert resource["shortNames"] == names["shortNames"]
    assert resource["categories"] == ["curation"]
    assert f"{names['plural']}/status" in {it["name"] for it in served}


def test_every_rule_has_an_edit_that_violates_it() -> None:
    sentences = {sentence for sentence, _ in (NEW | CHANGED).values()}
    untried = [rule for _, rule in list_rules() if not rule["message"].startswith(tuple(sentences))]
    assert untried == []


@pytest.mark.parametrize("case", NEW)
def test_a_rule_refuses_a_new_object(case: str, client: KubeClient, namespace: str) -> None:
    sentence, edit = NEW[case]
    body = make_for(sentence)
    client.create(copy.deepcopy(body), namespace, dryRun="All")
    edit(body)
    refusal = refusal_of(lambda: client.create(body, namespace, dryRun="All"))
    assert (refusal.status, refusal.reason) == (422, "Invalid")
    assert sentence in refusal.message


@pytest.mark.parametrize("case", CHANGED)
def test_a_rule_refuses_a_change(case: str, client: KubeClient, namespace: str) -> None:
    sentence, edit = CHANGED[case]
    made = client.create(make_for(sentence), namespace)
    edit(made)
    path = spell_path(made["kind"], namespace, made["metadata"]["name"])
    refusal = refusal_of(lambda: client.ask("PUT", path, made))
    assert refusal.status == 422
    assert sentence in refusal.message


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_accepted(path: Any, client: KubeClient, namespace: str) -> None:
    for document in re.split("^---$", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        body = yaml.safe_load(document)
        name, query = body["metadata"]["name"], {"dryRun": "All", "fieldValidation": "Strict"}
        made = client.apply(document.encode(), body["kind"], name, namespace, **query)
        assert made["metadata"]["uid"]


@pytest.mark.parametrize("body", SHOWN)
def test_a_documented_pipeline_is_accepted(body: Json, client: KubeClient, namespace: str) -> None:
    here = body | {"metadata": body["metadata"] | {"namespace": namespace}}
    made = client.create(here, namespace, dryRun="All", fieldValidation="Strict")
    assert made["metadata"]["uid"]


def test_examples_and_definitions_exist() -> None:
    assert len(EXAMPLES) >= 2
    assert len(SHOWN) >= 6
    assert NAMES == ["CurationAttempt", "CurationPipeline"]
    assert {path.parent for path in list_ours()} == {OURS}


@each_definition
def test_an_unknown_field_is_rejected_with_strict_validation(
    definition: Json, client: KubeClient, namespace: str
) -> None:
    body = MAKERS[definition["spec"]["names"]["kind"]]()
    body["spec"]["colour"] = "blue"
    refusal = refusal_of(lambda: client.create(body, namespace, dryRun="All"))
    assert 'unknown field "spec.colour"' in refusal.message


def test_the_servers_defaults_equal_the_models_defaults(client: KubeClient, namespace: str) -> None:
    sent = make_pipeline()
    made = client.create(copy.deepcopy(sent), namespace)
    assert made["spec"] != sent["spec"]
    read, meant = (CurationPipeline.model_validate(body) for body in (made, sent))
    assert read.spec == meant.spec


@each_definition
def test_a_status_is_written_only_through_its_subresource(
    definition: Json, client: KubeClient, namespace: str
) -> None:
    kind = definition["spec"]["names"]["kind"]
    body = {**MAKERS[kind](), "status": {"phase": "Running"}}
    made = client.create(body, namespace)
    assert made.get("status", UNSEEN) == UNSEEN
    name = made["metadata"]["name"]
    written = client.put_status(kind, name, {"phase": "Running"}, namespace)
    assert written["status"]["phase"] == "Running"
    assert written["metadata"]["generation"] == made["metadata"]["generation"]


@each_definition
def test_every_column_shows_its_value(definition: Json, client: KubeClient, namespace: str) -> None:
    kind = definition["spec"]["names"]["kind"]
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    body = MAKERS[kind]()
    for column in columns:
        path = column["jsonPath"].strip(".").split(".")
        if path[0] != "metadata":
            put(*path, to=make_sample(schema, path))(body)
    if kind == "CurationAttempt":
        body["spec"] |= {"number": 2, "previous": 1}
    made = client.create({**body, "status": {}}, namespace)
    client.put_status(kind, made["metadata"]["name"], body["status"], namespace)
    table = client.ask("GET", spell_path(kind, namespace), accept=TABLE)
    assert [it["name"] for it in table["columnDefinitions"]] == [
        "Name",
        *(column["name"] for column in columns),
    ]
    assert all(cell not in {None, "", "<unknown>"} for cell in table["rows"][0]["cells"])


def make_sample(schema: Json, path: list[str]) -> Any:
    """Make a value that is valid for the field at a path of a schema."""
    for key in path:
        schema = schema["properties"][key]
    if "enum" in schema:
        return schema["enum"][-1]
    if schema.get("format") == "date-time":
        return "2026-11-21T12:00:00Z"
    return SAMPLES[schema["type"]]


@each_definition
def test_objects_are_selected_by_every_selectable_field(
    definition: Json, client: KubeClient, namespace: str
) -> None:
    kind = definition["spec"]["names"]["kind"]
    made = client.create(MAKERS[kind](), namespace)
    for field in definition["spec"]["versions"][0]["selectableFields"]:
        key = field["jsonPath"].strip(".")
        shown = show(made, key.split("."))
        found = client.list(kind, namespace, fieldSelector=f"{key}={shown}")
        assert [it["metadata"]["name"] for it in found] == [made["metadata"]["name"]], key
        assert client.list(kind, namespace, fieldSelector=f"{key}=other") == [], key


def show(body: Json, path: list[str]) -> str:
    """Format a value as a field selector does, or return an empty string if it is missing."""
    value: Any = body
    for key in path:
        value = value.get(key, {})
    if value == {}:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
