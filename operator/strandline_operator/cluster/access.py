"""Reads objects, and records missing permissions instead of failing.

An object that may not be read is never treated as missing: decisions receive the rejected reads
together with the objects. This module must not depend on what follows from a rejection.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import Forbidden, NotFound
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal

# Optional kinds, which a cluster may not serve.
_FOREIGN = frozenset({Resource.RAYJOB, Resource.RAYCLUSTER})


@dataclass(slots=True)
class Access:
    """Reads objects in one namespace, for one pass.

    Attributes:
        refused: reads that were rejected.
        unserved: kinds that the server does not serve.
    """

    api: Api
    namespace: str
    refused: list[Refusal] = field(default_factory=list)
    unserved: set[Resource] = field(default_factory=set)

    async def get(self, resource: Resource, name: str) -> Body | None:
        """Return an object, or None if it does not exist or may not be read.

        Raises:
            ApiError: if reading failed for a reason other than a missing permission.
        """
        try:
            return await self.api.get(resource, self.namespace, name)
        except Forbidden as error:
            self._note(resource, name, "get", error)
        return None

    async def list_all(self, resource: Resource, selector: str) -> list[Body]:
        """Return objects by labels, or an empty list if they are not readable or not served.

        Raises:
            ApiError: if reading failed for another reason.
        """
        try:
            return await self.api.list_all(resource, self.namespace, selector)
        except Forbidden as error:
            self._note(resource, "", "list", error)
        except NotFound:
            if resource not in _FOREIGN:
                raise
            self.unserved.add(resource)
        return []

    def _note(self, resource: Resource, name: str, verb: str, error: Forbidden) -> None:
        self.refused.append(Refusal(resource.value, name, error.status, error.message, verb))
