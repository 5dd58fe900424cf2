"""Defaults that a namespace gives in a ConfigMap: of the retry policy, `ray` and the output.

Read once in a while, since all pipelines of a namespace share them. A broken one is said, and the
layer below holds; of one with a field that is not known, which a newer operator may know, the rest
holds. This room must not know how layers are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import yaml
from pydantic import ValidationError

from strandline_api.api_model import ApiModel
from strandline_api.documents.problems import problems_of
from strandline_api.documents.stored import omit_unknown
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.spec.storage import OutputStorage
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

RETRY, RAY, OUTPUT = "retry", "ray", "output"
KEEP_SECONDS = 15.0
_INVALID = 422

Part = TypeVar("Part", bound=ApiModel)


class FoundDefaults(NamedTuple):
    """What a namespace gives, and what is wrong with it."""

    policy: RetryPolicy
    refusals: tuple[Refusal, ...] = ()
    spec: SpecDefaults = SpecDefaults()


def parse_part(config_map: Body, key: str, model: type[Part]) -> tuple[Part, str]:
    """Return what a key of a ConfigMap holds, and what is to be said of it.

    One without the key gives nothing.

    Raises:
        ValueError: it holds no such thing; the message is one sentence.
    """
    data = config_map.get("data")
    text = data.get(key, "") if isinstance(data, dict) else ""
    try:
        written = yaml.safe_load(text)
        document, unknown = omit_unknown({} if written is None else written, model)
        part = model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = problems_of(error, model, key)
        raise ValueError("; ".join(map(str, problems))) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{key}: this is no YAML: {message}") from None
    return part, _describe_slips(written, key, model) if unknown else ""


def _describe_slips(written: object, key: str, model: type[ApiModel]) -> str:
    """Describe why the whole of it is no such thing; nobody has checked it before."""
    try:
        model.model_validate(written, by_alias=True, by_name=False)
    except ValidationError as error:
        return "; ".join(map(str, problems_of(error, model, key))) + "; the rest holds"
    return ""


@dataclass(slots=True)
class NamespaceDefaults:
    """The defaults of namespaces, as they were read last."""

    name: str
    _kept: TtlCache[str, FoundDefaults] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))

    async def read(self, api: Api, namespace: str, now: float) -> FoundDefaults:
        """Return what a namespace gives, and what is wrong with it.

        Raises:
            ApiError: it could not be read, for a reason that may pass.
        """
        return await self._kept.read(namespace, now, lambda: self._ask(api, namespace))

    async def _ask(self, api: Api, namespace: str) -> FoundDefaults:
        try:
            body = await api.get(Resource.CONFIG_MAP, namespace, self.name)
        except Forbidden as error:
            return FoundDefaults(RetryPolicy(), (self._refuse(error.status, error.message),))
        if body is None:
            return FoundDefaults(RetryPolicy())
        refusals: list[Refusal] = []
        policy = self._read_part(body, RETRY, RetryPolicy, refusals)
        ray = self._read_part(body, RAY, RayDefaults, refusals)
        output = self._read_part(body, OUTPUT, OutputStorage, refusals)
        return FoundDefaults(policy, tuple(refusals), SpecDefaults(ray=ray, output=output))

    def _read_part(self, body: Body, key: str, model: type[Part], refusals: list[Refusal]) -> Part:
        """Return what a key holds; what is wrong with one leaves the others as they are."""
        try:
            part, message = parse_part(body, key, model)
        except ValueError as error:
            part, message = model(), str(error)
        if message:
            refusals.append(self._refuse(_INVALID, message))
        return part

    def _refuse(self, status: int, message: str) -> Refusal:
        return Refusal(Resource.CONFIG_MAP, self.name, status, message)
