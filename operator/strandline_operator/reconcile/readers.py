"""Where a pass reads what makes up a pipeline: one port, for a cache and for the server.

A pass asks in the order in which things are made, so that no reader shows a child without its
maker. This room must not know what a pass does with what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from strandline_api.names import select_namesakes, select_pipeline
from strandline_operator.cluster.access import Access
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import AttemptObject, PipelineView
from strandline_operator.reconcile.caches.cluster_cache import (
    NamespaceCache,
    Siblings,
    find_attempts,
    find_former,
    find_siblings,
)
from strandline_operator.reconcile.caches.own_kinds import read_attempt, read_pipeline


class Reader(Protocol):
    """Reads what makes up a pipeline.

    Its methods raise ApiError where something could not be read, for another reason than a missing
    right; that one is noted in `access`.
    """

    @property
    def access(self) -> Access:
        """The server, for kinds that no cache has."""

    @property
    def is_fresh(self) -> bool:
        """Freshness of the children: only from the server's own may a RayJob be made."""

    async def list_attempts(self, pipeline: Meta) -> list[AttemptObject]:
        """Return what carries a pipeline's uid and can be an attempt, in no order."""

    async def list_children(self, pipeline: Meta) -> Siblings:
        """Return the RayJobs, RayClusters and pods that carry a pipeline's uid."""

    async def list_former(self, pipeline: Meta) -> Siblings:
        """Return those that carry a pipeline's name and another uid."""

    async def find_pipeline(self, name: str) -> PipelineView | None:
        """Return a pipeline of the namespace; None where there is none."""

    async def list_pipelines(self) -> tuple[PipelineView, ...]:
        """Return all pipelines of the namespace, in no order."""


@dataclass(frozen=True, slots=True)
class ServerReader:
    """Reads everything from the server."""

    access: Access

    @property
    def is_fresh(self) -> bool:
        return True

    async def list_attempts(self, pipeline: Meta) -> list[AttemptObject]:
        bodies = await self.access.list_all(Resource.ATTEMPT, select_pipeline(pipeline.uid))
        return [attempt for attempt in map(read_attempt, bodies) if attempt is not None]

    async def list_children(self, pipeline: Meta) -> Siblings:
        return await self._list(select_pipeline(pipeline.uid))

    async def list_former(self, pipeline: Meta) -> Siblings:
        return await self._list(select_namesakes(pipeline.name, pipeline.uid))

    async def find_pipeline(self, name: str) -> PipelineView | None:
        body = await self.access.get(Resource.PIPELINE, name)
        return None if body is None else read_pipeline(body)

    async def list_pipelines(self) -> tuple[PipelineView, ...]:
        return tuple(map(read_pipeline, await self.access.list_all(Resource.PIPELINE, "")))

    async def _list(self, selector: str) -> Siblings:
        rayjobs = await self.access.list_all(Resource.RAYJOB, selector)
        clusters = await self.access.list_all(Resource.RAYCLUSTER, selector)
        pods = await self.access.list_all(Resource.POD, selector)
        return Siblings(
            tuple(map(RayJob.read, rayjobs)),
            tuple(map(RayClusterState.read, clusters)),
            tuple(map(Pod.read, pods)),
        )


@dataclass(frozen=True, slots=True)
class CacheReader:
    """Reads what watches have seen."""

    access: Access
    cache: NamespaceCache

    @property
    def is_fresh(self) -> bool:
        return False

    async def list_attempts(self, pipeline: Meta) -> list[AttemptObject]:
        return find_attempts(self.cache, pipeline)

    async def list_children(self, pipeline: Meta) -> Siblings:
        return find_siblings(self.cache, pipeline)

    async def list_former(self, pipeline: Meta) -> Siblings:
        return find_former(self.cache, pipeline)

    async def find_pipeline(self, name: str) -> PipelineView | None:
        return self.cache.find_pipeline(self.access.namespace, name)

    async def list_pipelines(self) -> tuple[PipelineView, ...]:
        return self.cache.list_pipelines(self.access.namespace)


class RecheckReader(CacheReader):
    """Reads children from the server, and the rest from what watches have seen."""

    @property
    def is_fresh(self) -> bool:
        return True

    async def list_children(self, pipeline: Meta) -> Siblings:
        return await ServerReader(self.access).list_children(pipeline)
