"""Spot nodes and pod templates in a spec, and the check that a template makes a valid pod.

Without the check, Kubernetes would reject the pod minutes later, and again in every attempt. This
module must not depend on how templates are merged, or on the node labels of a cloud.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import SUBDOMAIN_PATTERN, ApiModel, Matching, validated_by
from strandline_api.notation.quantities import PositiveDuration, parse_duration
from strandline_api.spec.pod_paths import CONTAINERS

NO_NODES: Final = "'spot' needs a 'preset' (gke, eks, karpenter or aks) or a 'nodeSelector'"
NO_CONDITION: Final = "'fallback' needs 'afterDisruptions' or 'afterNoRoom'"
NO_KEY: Final = "a toleration without 'key' applies to all taints and needs 'operator: Exists'"
NO_VALUE: Final = "'value' must be empty if 'operator' is Exists"
NO_SECONDS: Final = "'tolerationSeconds' needs 'effect: NoExecute'"
# Patterns of label keys and values, as in Kubernetes' own validation.
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY_LIKE = "letters, digits, '-', '_' and '.', such as 'pool' or 'example.com/pool'"
_KEY = Matching(f"({SUBDOMAIN_PATTERN}/)?{_NAME}", _KEY_LIKE, longest=316)
_LabelKey = Annotated[str, _KEY]
_LabelValue = Annotated[
    str, Matching(f"({_NAME})?", "letters, digits, '-', '_' and '.'", longest=63)
]


def _check_keys(labels: dict[str, str]) -> dict[str, str]:
    for key in labels:
        _KEY.check(key)
    return labels


# The CRD stores no defaults for these fields, so a pipeline without 'spot' has none of them.
NodeSelector = Annotated[dict[str, _LabelValue], Field(max_length=32), AfterValidator(_check_keys)]

_ANY = "(has(self.operator) && self.operator == 'Exists')"


class Toleration(ApiModel):
    """A taint that pods tolerate, as in a Kubernetes pod."""

    model_config = validated_by(
        (f"has(self.key) || {_ANY}", NO_KEY),
        (f"!{_ANY} || !has(self.value) || self.value == ''", NO_VALUE),
        (
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            NO_SECONDS,
        ),
    )

    key: _LabelKey | None = Field(
        default=None, description="Key of the taint. All taints when unset, with 'Exists'."
    )
    operator: Literal["Exists", "Equal", "Lt", "Gt"] | None = Field(
        default=None, description="How 'value' is compared. 'Equal' when unset."
    )
    value: _LabelValue | None = Field(default=None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint. All effects when unset."
    )
    toleration_seconds: int | None = Field(
        default=None,
        description="Seconds for which a 'NoExecute' taint is tolerated. No limit when unset.",
    )

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.key is None and self.operator != "Exists":
            raise PydanticCustomError("no_key", NO_KEY)
        if self.operator == "Exists" and self.value:
            raise PydanticCustomError("no_value", NO_VALUE)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise PydanticCustomError("no_seconds", NO_SECONDS)
        return self


Tolerations = Annotated[tuple[Toleration, ...], Field(strict=False, max_length=32)]


class SpotFallback(ApiModel):
    """When pods move to other nodes for the rest of a run, and to which nodes."""

    model_config = validated_by(
        ("has(self.afterDisruptions) || has(self.afterNoRoom)", NO_CONDITION)
    )

    after_disruptions: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=(
            "Number of attempts of a run that may end because such a pod was taken away, such as "
            "2, before on-demand nodes are used. A head that loses its node before the driver runs "
            "counts too. No limit when unset."
        ),
    )
    after_no_room: PositiveDuration | None = Field(
        default=None,
        description=(
            "Time for which no spot node may have room for such a pod, such as '20m', before "
            "on-demand nodes are used. The attempt is then recreated, which does not count as a "
            "retry. No limit when unset."
        ),
    )
    node_selector: NodeSelector = Field(
        default_factory=dict,
        description="Labels of the nodes, added to the preset's labels of on-demand nodes.",
    )
    tolerations: Tolerations = Field(
        default_factory=tuple, description="Taints of these nodes that pods tolerate."
    )

    @property
    def after_no_room_seconds(self) -> float | None:
        """Seconds without capacity before the fallback, or None to ignore missing capacity."""
        return None if self.after_no_room is None else parse_duration(self.after_no_room)

    @model_validator(mode="after")
    def _check_condition(self) -> Self:
        if self.after_disruptions is None and self.after_no_room is None:
            raise PydanticCustomError("no_condition", NO_CONDITION)
        return self


class Spot(ApiModel):
    """Pods that run on nodes that a cloud may take back at any time."""

    model_config = validated_by(
        ("has(self.preset) || (has(self.nodeSelector) && size(self.nodeSelector) > 0)", NO_NODES)
    )

    preset: Literal["gke", "eks", "karpenter", "aks"] | None = Field(
        default=None,
        description=(
            "Provider of the spot nodes, whose labels and tolerations are filled in: 'gke', 'eks' "
            "(managed node groups), 'karpenter' or 'aks'."
        ),
    )
    node_selector: NodeSelector = Field(
        default_factory=dict, description="Labels of the spot nodes, added to those of the preset."
    )
    tolerations: Tolerations = Field(
        default_factory=tuple, description="Taints of the spot nodes that pods tolerate."
    )
    fallback: SpotFallback | None = Field(
        default=None,
        description=(
            "When the next attempts use on-demand nodes instead. The next run starts on spot nodes "
            "again. Always spot nodes when unset."
        ),
    )

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        if self.preset is None and not self.node_selector:
            raise PydanticCustomError("no_nodes", NO_NODES)
        return self


class Misfit(NamedTuple):
    """An invalid part of a template: its path below the template, and a message with advice."""

    path: str
    message: str


def find_misfit(template: Mapping[str, Any], fitting: Sequence[str]) -> Misfit | None:
    """Find the first invalid part of a pod template.

    Args:
        template: the template that is merged over the generated pod.
        fitting: names of the generated containers that the template may change. A container with
            another name is an additional container and needs an image.

    Returns:
        The invalid part, or None if the template is valid.
    """
    return next(_list_misfits(template, fitting), None)


def _list_misfits(template: Mapping[str, Any], fitting: Sequence[str]) -> Iterator[Misfit]:
    for part in ("metadata", "spec"):
        if part in template and not isinstance(template[part], Mapping):
            yield Misfit(part, "must be an object")
            return
    spec = template.get("spec", {})
    yield from _list_odd(template.get("metadata", {}), _OF_METADATA, "metadata")
    yield from _list_odd(spec, _OF_PODS, "spec")
    names = ", ".join(f"'{name}'" for name in fitting)
    for path, container in _list_containers(spec, "containers"):
        yield from _judge(path, container, fitting, f"allowed names: {names}")
    for path, container in _list_containers(spec, "initContainers"):
        yield from _judge(path, container, (), "no init container can be changed")


# Fields that are merged with the operator's values, with the type that the merge requires: text, an
# object, an object of text values, or a list of objects in which some fields are text.
_TEXT, _OBJECT, _TEXTS = "text", "an object", "an object whose values are text"
_Kind = str | tuple[str, ...]
_OF_METADATA: Mapping[str, _Kind] = {"labels": _TEXTS, "annotations": _TEXTS}
_OF_PODS: Mapping[str, _Kind] = {
    "affinity": _OBJECT,
    "nodeSelector": _TEXTS,
    "securityContext": _OBJECT,
    "serviceAccountName": _TEXT,
    "priorityClassName": _TEXT,
    "imagePullSecrets": (),
    "tolerations": (),
    "topologySpreadConstraints": (),
    "volumes": ("name",),
}
_OF_CONTAINERS: Mapping[str, _Kind] = {
    "image": _TEXT,
    "env": ("name",),
    "envFrom": (),
    "volumeMounts": ("name", "mountPath"),
    "ports": (),
    "resources": _OBJECT,
    "securityContext": _OBJECT,
    "lifecycle": _OBJECT,
    "livenessProbe": _OBJECT,
    "readinessProbe": _OBJECT,
    "startupProbe": _OBJECT,
}


def _list_odd(part: Mapping[str, Any], kinds: Mapping[str, _Kind], path: str) -> Iterator[Misfit]:
    for name, kind in kinds.items():
        value, at = part.get(name), f"{path}.{name}"
        if value is None:
            continue
        if isinstance(kind, tuple):
            yield from _judge_list(value, kind, at)
        elif kind == _TEXT:
            if not isinstance(value, str):
                yield Misfit(at, "must be text")
        elif not isinstance(value, Mapping) or (kind == _TEXTS and not _has_texts(value)):
            yield Misfit(at, f"must be {kind}")


def _has_texts(value: Mapping[str, Any]) -> bool:
    return all(isinstance(each, str) for each in value.values())


def _judge_list(value: object, keys: Sequence[str], path: str) -> Iterator[Misfit]:
    if not isinstance(value, list | tuple):
        yield Misfit(path, "must be a list")
        return
    for at, entry in enumerate(value):
        known = entry if isinstance(entry, Mapping) else {}
        missing = [key for key in keys if not isinstance(known.get(key), str)]
        if not isinstance(entry, Mapping):
            yield Misfit(f"{path}[{at}]", "must be an object")
        elif missing:
            yield Misfit(f"{path}[{at}]", f"needs a '{missing[0]}', which must be text")


def _list_containers(spec: Mapping[str, Any], kind: str) -> Iterator[tuple[str, object]]:
    listed = spec.get(kind)
    # Accept an empty list, because some tools always write the field.
    if isinstance(listed, list | tuple):
        yield from ((f"spec.{kind}[{at}]", container) for at, container in enumerate(listed))
    elif listed is not None:
        yield f"spec.{kind}", listed


def _judge(path: str, container: object, fitting: Sequence[str], known: str) -> Iterator[Misfit]:
    if not isinstance(container, Mapping):
        yield Misfit(path, "must be a container, with a 'name'")
        return
    yield from _list_odd(container, _OF_CONTAINERS, path)
    name = container.get("name")
    if not isinstance(name, str) or not name:
        yield Misfit(path, f"a container needs a 'name'; {known}")
    elif name not in fitting and (name in CONTAINERS or not container.get("image")):
        advice = "" if name in CONTAINERS else "; a container of your own needs an 'image'"
        yield Misfit(path, f"no container to change is named '{name}'; {known}{advice}")
