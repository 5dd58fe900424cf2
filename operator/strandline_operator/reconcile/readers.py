"""Interface for reading a pipeline's objects, with implementations for caches and the server.

Objects are read in creation order, so that no reader returns an object without its creator. This
module must not depend on how the objects are used.
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
    """Reads a pipeline's objects.

    Methods raise ApiError if reading failed for a reason other than a missing permission, which
    `access` records.
    """

    @property
    def access(self) -> Access:
        """Access to the server, for kinds without a cache."""

    @property
    def is_fresh(self) -> bool:
        """Return True if children are read from the server, as creating a RayJob requires."""

    async def list_attempts(self, pipeline: Meta) -> list[AttemptObject]:
        """Return the valid attempts with a pipeline's uid, in any order."""

    async def list_children(self, pipeline: Meta) -> Siblings:
        """Return the RayJobs, RayClusters, and pods with a pipeline's uid."""

    async def list_former(self, pipeline: Meta) -> Siblings:
        """Return the objects with a pipeline's name but another uid."""

    async def find_pipeline(self, name: str) -> PipelineView | None:
        """Return a pipeline in the namespace, if the pipeline exists."""

    async def list_pipelines(self) -> tuple[PipelineView, ...]:
        """Return all pipelines in the namespace, in any order."""


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
    """Reads objects from the watch caches."""

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
    """Reads children from the server, and other objects from the watch caches."""

    @property
    def is_fresh(self) -> bool:
        return True

    async def list_children(self, pipeline: Meta) -> Siblings:
        return await ServerReader(self.access).list_children(pipeline)
