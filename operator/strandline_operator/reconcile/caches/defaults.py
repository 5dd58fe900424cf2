"""Defaults of the retry policy that a namespace gives in a ConfigMap.

Read once in a while, since all pipelines of a namespace share them. A broken one is said, and the
layer below holds; of one with a field that is not known, which a newer operator may know, the rest
holds. This room must not know how layers are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml
from pydantic import ValidationError

from strandline_api.documents.problems import problems_of
from strandline_api.documents.stored import omit_unknown
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal
from strandline_operator.reconcile.caches.ttl_cache import TtlCache

KEY = "retry"
KEEP_SECONDS = 15.0
_INVALID = 422

Found = tuple[RetryPolicy, tuple[Refusal, ...]]


def parse_defaults(config_map: Body) -> tuple[RetryPolicy, str]:
    """Return the policy in a ConfigMap, and what is to be said of it; one without it gives nothing.

    Raises:
        ValueError: it is no policy; the message is one sentence.
    """
    data = config_map.get("data")
    text = data.get(KEY, "") if isinstance(data, dict) else ""
    try:
        written = yaml.safe_load(text)
        document, unknown = omit_unknown({} if written is None else written, RetryPolicy)
        policy = RetryPolicy.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = problems_of(error, RetryPolicy, KEY)
        raise ValueError("; ".join(map(str, problems))) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"{KEY}: this is no YAML: {message}") from None
    return policy, _describe_slips(written) if unknown else ""


def _describe_slips(written: object) -> str:
    """Describe why the whole of it is no policy; nobody has checked it before."""
    try:
        RetryPolicy.model_validate(written, by_alias=True, by_name=False)
    except ValidationError as error:
        return "; ".join(map(str, problems_of(error, RetryPolicy, KEY))) + "; the rest holds"
    return ""


@dataclass(slots=True)
class NamespaceDefaults:
    """The defaults of namespaces, as they were read last."""

    name: str
    _kept: TtlCache[str, Found] = field(default_factory=lambda: TtlCache(KEEP_SECONDS))

    async def read(self, api: Api, namespace: str, now: float) -> Found:
        """Return the policy of a namespace, and what is wrong with it.

        Raises:
            ApiError: it could not be read, for a reason that may pass.
        """
        return await self._kept.read(namespace, now, lambda: self._ask(api, namespace))

    async def _ask(self, api: Api, namespace: str) -> Found:
        try:
            body = await api.get(Resource.CONFIG_MAP, namespace, self.name)
            policy, message = (RetryPolicy(), "") if body is None else parse_defaults(body)
            return policy, (self._refuse(_INVALID, message),) if message else ()
        except Forbidden as error:
            return RetryPolicy(), (self._refuse(error.status, error.message),)
        except ValueError as error:
            return RetryPolicy(), (self._refuse(_INVALID, str(error)),)

    def _refuse(self, status: int, message: str) -> Refusal:
        return Refusal(Resource.CONFIG_MAP, self.name, status, message)
