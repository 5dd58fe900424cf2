"""Caches the defaults in a namespace's ConfigMap: retry policy, `ray`, and output.

All pipelines of a namespace share the cached ConfigMap. Each version is parsed once, in a thread,
because a tenant may write anything into it. Unreadable defaults are reported, because without them,
an attempt would use another image or write to another location. Unknown fields, which a newer
operator may support, are reported, and the other fields still apply. This module must not depend on
how layers are merged, or on how long to wait for a missing ConfigMap.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from strandline_api.api_model import ApiModel
from strandline_api.documents.problems import Problem
from strandline_api.documents.stored import omit_unknown
from strandline_api.documents.validation import problems_of
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.spec.storage import OutputStorage
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.documents import read_plain_yaml
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

RETRY, RAY, OUTPUT = "retry", "ray", "output"
KEEP_SECONDS = 15.0
_INVALID = 422
_SHOWN = 4  # maximum number of problems to report per key

Part = TypeVar("Part", bound=ApiModel)


class FoundDefaults(NamedTuple):
    """Defaults of a namespace, and their problems.

    Attributes:
        refusals: problems that leave the remaining values usable.
        unusable: why the values are unknown; empty if they are known.
        digest: digest of the ConfigMap's data; empty if it is missing, or may not be read.
    """

    policy: RetryPolicy
    refusals: tuple[Refusal, ...] = ()
    spec: SpecDefaults = SpecDefaults()
    unusable: str = ""
    digest: str = ""


def parse_part(config_map: Body, key: str, model: type[Part]) -> tuple[Part, str]:
    """Return the value of a ConfigMap's key, and its problems as text.

    The value is empty if the key is missing.

    Raises:
        ValueError: if the value is invalid. The message is one sentence.
    """
    data = config_map.get("data")
    text = data.get(key, "") if isinstance(data, dict) else ""
    try:
        plain = read_plain_yaml(text)
        document, unknown = omit_unknown({} if plain is None else plain, model)
        part = model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ValueError(_join(problems_of(error, model, key))) from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return part, _describe_slips(plain, key, model) if unknown else ""


def _describe_slips(document: object, key: str, model: type[ApiModel]) -> str:
    """Describe the unknown fields of a document that is otherwise valid."""
    try:
        model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        return f"{_join(problems_of(error, model, key))}; the other defaults apply"
    return ""


def _join(problems: Sequence[Problem]) -> str:
    text = "; ".join(map(str, problems[:_SHOWN]))
    return text if len(problems) <= _SHOWN else f"{text}; and {len(problems) - _SHOWN:,} more"


def _digest_data(body: Body) -> str:
    """Return a digest of the keys that the operator uses."""
    data = body.get("data")
    keys = {key: data.get(key) for key in (RETRY, RAY, OUTPUT)} if isinstance(data, dict) else {}
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _Version:
    """Parsed defaults of a namespace, for one version of the ConfigMap.

    Attributes:
        version: resource version of the parsed ConfigMap.
    """

    version: str
    defaults: FoundDefaults


@dataclass(slots=True)
class NamespaceDefaults:
    """Cached defaults of namespaces."""

    name: str
    _entries: TtlCache[str, FoundDefaults] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))
    _versions: dict[str, _Version] = field(default_factory=dict)

    async def read(self, api: Api, namespace: str, now: float) -> FoundDefaults:
        """Return a namespace's defaults, and their problems.

        Raises:
            ApiError: if reading failed, possibly temporarily.
        """
        return await self._entries.read(namespace, now, lambda: self._ask(api, namespace))

    async def _ask(self, api: Api, namespace: str) -> FoundDefaults:
        try:
            body = await api.get(Resource.CONFIG_MAP, namespace, self.name)
        except Forbidden as error:
            # The ConfigMap may exist, so no attempt may be created without the defaults.
            message = f"the operator may not read ConfigMap {self.name}: {error.message}"
            return FoundDefaults(RetryPolicy(), unusable=message)
        if body is None:
            self._versions.pop(namespace, None)
            return FoundDefaults(RetryPolicy())
        version = str((body.get("metadata") or {}).get("resourceVersion", ""))
        former = self._versions.get(namespace)
        if former is None or not version or former.version != version:
            parsed_defaults = await asyncio.to_thread(self._parse, body)
            former = self._versions[namespace] = _Version(version, parsed_defaults)
        return former.defaults

    def _parse(self, body: Body) -> FoundDefaults:
        refusals: list[Refusal] = []
        unusable: list[str] = []
        policy = self._read_part(body, RETRY, RetryPolicy, refusals, unusable)
        ray = self._read_part(body, RAY, RayDefaults, refusals, unusable)
        output = self._read_part(body, OUTPUT, OutputStorage, refusals, unusable)
        spec = SpecDefaults(ray=ray, output=output)
        message = f"ConfigMap {self.name}: {'; '.join(unusable)}" if unusable else ""
        return FoundDefaults(policy, tuple(refusals), spec, message, _digest_data(body))

    def _read_part(
        self,
        body: Body,
        key: str,
        model: type[Part],
        refusals: list[Refusal],
        unusable: list[str],
    ) -> Part:
        """Return the value of a key. Problems of one key do not affect other keys."""
        try:
            part, message = parse_part(body, key, model)
        except ValueError as error:
            unusable.append(str(error))
            return model()
        if message:
            refusals.append(self._refuse(_INVALID, message))
        return part

    def _refuse(self, status: int, message: str) -> Refusal:
        return Refusal(Resource.CONFIG_MAP, self.name, status, message)
