"""Executes a plan: first status writes, then actions in their order, then events.

Execution may be interrupted between any two requests and repeated. Status writes require the
version that was read, and names are deterministic. If an object exists and belongs to the operator,
it counts as created; a missing object counts as deleted. This module must not make decisions.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

from strandline_api.names import (
    API_VERSION,
    ATTEMPT,
    ATTEMPT_LABEL,
    FINALIZER,
    MANAGED_BY_LABEL,
    MANAGER,
    PIPELINE,
    PIPELINE_LABEL,
    name_attempt,
)
from strandline_api.notation.times import format_time
from strandline_api.texts import scrub
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import (
    ApiError,
    Conflict,
    Gone,
    NotFound,
    TooMany,
    Unavailable,
)
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import (
    Action,
    Create,
    Delete,
    EventDraft,
    Grow,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.view import Refusal, View

COMPONENT = "strandline-operator"
MAX_MESSAGE = 1024
_MAX_NAME = 253


def render_event(event: EventDraft, meta: Meta, turn: str, now: float) -> Body:
    """Render an event object.

    Args:
        meta: metadata of the object that the event is about.
        turn: value that distinguishes two transitions with the same message.
        now: time of the event, in seconds since the epoch.
    """
    kind = PIPELINE.name if event.attempt is None else ATTEMPT.name
    return render_event_about({"apiVersion": API_VERSION, "kind": kind}, event, meta, turn, now)


def render_event_about(kind: Body, event: EventDraft, meta: Meta, turn: str, now: float) -> Body:
    """Render an event about an object of another kind, given by `apiVersion` and `kind`."""
    message = scrub(event.message)
    identity = f"{meta.uid}\n{event.reason}\n{message}\n{turn}"
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    time = format_time(int(now))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta.name[: _MAX_NAME - len(digest) - 1].rstrip('-.')}.{digest}",
            "namespace": meta.namespace,
        },
        "involvedObject": {
            **kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "message": message[:MAX_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


_LOGGER = logging.getLogger(__name__)
_CONFLICT = 409
# Errors that resolve themselves.
_PASSING = (TooMany, Unavailable, Gone)


@dataclass(slots=True)
class PlanResult:
    """Result of executing a plan.

    Attributes:
        is_written: whether all statuses were written, so that the plan's reports are true.
        is_stale: whether execution stopped because an object had changed since it was read.
        refusals: requests that the server will reject until a user changes something.
        created: kinds of newly created objects.
        attempts: names of attempts whose status was written.
        answers: kinds and contents of objects after the operator's writes.
        error: temporary error that stopped the execution, or None.
    """

    is_written: bool = True
    is_stale: bool = False
    refusals: list[Refusal] = field(default_factory=list)
    created: list[Resource] = field(default_factory=list)
    attempts: set[str] = field(default_factory=set)
    answers: list[tuple[Resource, Body]] = field(default_factory=list)
    error: ApiError | None = None


async def enact(api: Api, view: View, plan: PassPlan, now: float) -> PlanResult:
    """Execute as much of a plan as the API server permits.

    Args:
        now: time of events, in seconds since the epoch.
    """
    hand = _Hand(api, view, plan, now)
    try:
        hand.done.is_written = await hand.write(plan)
    except _PASSING as error:
        # Some statuses were already written, and the caller must still report the ends in them.
        hand.done.is_written, hand.done.error = False, error
    if not hand.done.is_written:
        return hand.done
    try:
        for action in plan.actions:
            await hand.act(action)
    except Conflict as conflict:
        # Another writer was faster, which is not a failure: the next pass reads the result.
        hand.done.is_stale = True
        _LOGGER.info("%s", conflict, extra={"pipeline": hand.key})
    except _PASSING as error:
        hand.done.error = error
    # Create events even if actions failed, because the statuses are written and no later pass
    # reports the changes.
    for event in plan.events:
        await hand.post_event(event)
    return hand.done


class _Hand:
    def __init__(self, api: Api, view: View, plan: PassPlan, now: float) -> None:
        self.done = PlanResult()
        self._api = api
        self._now = now
        self._meta = view.pipeline.meta
        self._version = view.pipeline.meta.version
        self._attempts = {attempt.meta.name: attempt.meta for attempt in view.attempts}
        self._siblings = {
            (resource, owner.meta.name): owner.meta
            for resource, answers in (
                (Resource.RAYJOB, view.rayjobs),
                (Resource.RAYCLUSTER, view.rayclusters),
                (Resource.POD, view.pods),
            )
            for owner in answers
        }
        status = plan.pipeline or view.pipeline.status
        self._turn = f"{self._meta.generation}/{status.attempt}"
        self._audit = plan.audit
        self.key = f"{self._meta.namespace}/{self._meta.name}"

    async def write(self, plan: PassPlan) -> bool:
        """Write the statuses. Return True if all writes succeeded."""
        for name, attempt in plan.attempts.items():
            body = _render_status(ATTEMPT.name, self._attempts[name], attempt.to_json())
            answer = await self._write(Resource.ATTEMPT, name, body)
            if answer is None:
                return False
            self.done.attempts.add(name)
        if plan.pipeline is not None:
            body = _render_status(PIPELINE.name, self._meta, plan.pipeline.to_json())
            answer = await self._write(Resource.PIPELINE, self._meta.name, body)
            if answer is None:
                return False
            self._version = Meta.read(answer).version
        return True

    async def act(self, action: Action) -> None:
        """Execute an action. After a rejected request, no further objects are created."""
        if isinstance(action, Create):
            if not self.done.refusals:
                await self._create(action)
        elif isinstance(action, Delete):
            await self._delete(action)
        elif isinstance(action, Grow):
            await self._grow(action)
        else:
            await self._set_finalizer(action)

    async def post_event(self, event: EventDraft) -> None:
        """Create an event. If that fails, only log the failure."""
        meta = self._meta if event.attempt is None else self._attempts.get(event.attempt)
        if meta is None:
            return
        body = render_event(event, meta, self._turn, self._now)
        try:
            await self._api.create(Resource.EVENT, meta.namespace, body)
        except Conflict:
            return
        except ApiError as error:
            line = f"event {event.reason} was not created: {error}"
            _LOGGER.info("%s", line, extra={"pipeline": self.key, "attempt": event.attempt})

    async def _write(self, resource: Resource, name: str, body: Body) -> Body | None:
        try:
            answer = await self._api.replace_status(resource, self._meta.namespace, name, body)
        except (Conflict, NotFound):
            self.done.is_stale = True
        except _PASSING:
            raise
        except ApiError as error:
            self._refuse(resource, f"{name}/status", error.status, error.message)
        else:
            self.done.answers.append((resource, answer))
            return answer
        return None

    async def _create(self, action: Create) -> None:
        metadata = action.manifest["metadata"]
        name, resource = metadata["name"], action.resource
        if resource is Resource.ATTEMPT:
            # Log before the write: a line too many is better than a missing line.
            for line in self._audit:
                self._log(line, resource, metadata)
        try:
            answer = await self._api.create(
                resource, self._meta.namespace, action.manifest, is_strict=action.is_strict
            )
        except Conflict:
            if not action.is_unread:
                await self._recognise(action, name)
        except _PASSING:
            raise
        except ApiError as error:
            self._refuse(resource, name, error.status, error.message)
        else:
            self.done.created.append(resource)
            self.done.answers.append((resource, answer))
            self._log(f"created {resource} {name}", resource, metadata)

    async def _recognise(self, action: Create, name: str) -> None:
        """Accept an existing object that an earlier try created. Otherwise, record a conflict."""
        existing = await self._api.get(action.resource, self._meta.namespace, name)
        if existing is None or Meta.read(existing).is_deleting:
            message = f"{action.resource} {name} is being deleted"
            raise Conflict(_CONFLICT, "AlreadyExists", message)
        if not is_ours(action.manifest, existing):
            message = f"{name} exists and belongs to another owner"
            self._refuse(action.resource, name, _CONFLICT, message)
        elif action.is_exact and action.manifest.get("data") != existing.get("data"):
            # The driver must not run content that neither the user nor the operator has chosen.
            message = f"{name} exists with different content; delete it"
            self._refuse(action.resource, name, _CONFLICT, message)
        else:
            self.done.answers.append((action.resource, existing))

    async def _delete(self, action: Delete) -> None:
        namespace, name = self._meta.namespace, action.name
        try:
            await self._api.delete(action.resource, namespace, name, action.uid, action.grace)
        except (NotFound, Conflict):
            return
        except _PASSING:
            raise
        except ApiError as error:
            self._refuse(action.resource, name, error.status, error.message)
        else:
            sibling = self._siblings.get((action.resource, name))
            labels = sibling.labels if sibling else {}
            line = f"deleted {action.resource} {name}"
            self._log(line, action.resource, {"name": name, "labels": labels})

    async def _grow(self, action: Grow) -> None:
        requests = {"storage": action.size}
        # Include the uid, so that the patch fails if another claim has this name by now.
        patch = {"metadata": {"uid": action.uid}, "spec": {"resources": {"requests": requests}}}
        try:
            grown = await self._api.patch(Resource.CLAIM, self._meta.namespace, action.name, patch)
        except NotFound:
            return
        except (Conflict, *_PASSING):
            raise
        except ApiError as error:
            self._refuse(Resource.CLAIM, action.name, error.status, error.message)
        else:
            self.done.answers.append((Resource.CLAIM, grown))
            line = f"requested {action.size} for claim {action.name}"
            self._log(line, Resource.CLAIM, {"name": action.name})

    async def _set_finalizer(self, action: SetFinalizer) -> None:
        others = [finalizer for finalizer in self._meta.finalizers if finalizer != FINALIZER]
        finalizers = [*others, FINALIZER] if action.is_set else others
        # Include the version, so that a finalizer that was added concurrently is not lost.
        patch = {"metadata": {"resourceVersion": self._version, "finalizers": finalizers}}
        name = self._meta.name
        try:
            patched = await self._api.patch(Resource.PIPELINE, self._meta.namespace, name, patch)
        except NotFound:
            return
        except (Conflict, *_PASSING):
            raise
        except ApiError as error:
            self._refuse(Resource.PIPELINE, name, error.status, error.message)
        else:
            self.done.answers.append((Resource.PIPELINE, patched))

    def _refuse(self, resource: Resource, name: str, status: int, message: str) -> None:
        self.done.refusals.append(Refusal(resource.value, name, status, message))

    def _log(self, line: str, resource: Resource, metadata: Body) -> None:
        """Log a line with the names of the objects that it is about."""
        number = str((metadata.get("labels") or {}).get(ATTEMPT_LABEL, ""))
        about = {"pipeline": self.key}
        if number.isdigit():
            about["attempt"] = name_attempt(self._meta.name, int(number))
        if resource is Resource.RAYJOB:
            about["rayjob"] = metadata["name"]
        _LOGGER.info("%s", line, extra=about)


def is_ours(manifest: Body, existing: Body) -> bool:
    """Return True if an existing object is the one that a manifest would have created.

    If the object has an owner, the owner's uid identifies it. An object without an owner, such as a
    claim that outlives its pipeline, is identified by its labels, so a recreated pipeline reuses
    it.
    """
    ours, theirs = Meta.read(manifest), Meta.read(existing)
    if ours.owner:
        return theirs.owner == ours.owner
    if theirs.owner:
        return False
    names = (MANAGED_BY_LABEL, PIPELINE_LABEL)
    return theirs.labels.get(MANAGED_BY_LABEL) == MANAGER and all(
        theirs.labels.get(name) == ours.labels.get(name) for name in names
    )


def _render_status(kind: str, meta: Meta, status: Body) -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.version,
        },
        "status": status,
    }
