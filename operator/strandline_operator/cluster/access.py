"""Reads that go on where the operator lacks a right, and note which one it was.

What was refused is never taken for absent: a decision has the refusals beside what was read. This
room must not know what follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import Forbidden, NotFound
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal

# Kinds that a cluster may do without.
_FOREIGN = frozenset({Resource.RAYJOB, Resource.RAYCLUSTER})


@dataclass(slots=True)
class Access:
    """Reads in one namespace, for one pass.

    Attributes:
        refused: what may not be read.
        unserved: kinds that the server does not know.
    """

    api: Api
    namespace: str
    refused: list[Refusal] = field(default_factory=list)
    unserved: set[Resource] = field(default_factory=set)

    async def get(self, resource: Resource, name: str) -> Body | None:
        """Return an object; None where there is none, or where it may not be read.

        Raises:
            ApiError: it could not be read, for another reason than a missing right.
        """
        try:
            return await self.api.get(resource, self.namespace, name)
        except Forbidden as error:
            self._note(resource, name, "get", error)
        return None

    async def list_all(self, resource: Resource, selector: str) -> list[Body]:
        """Return objects with some labels; none where they may not be read or have no kind there.

        Raises:
            ApiError: they could not be read, for another reason.
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
