"""Describes obstacles that need a change from outside, as a reason and a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from strandline_api.notation.times import format_time
from strandline_api.status.defaults import DEFAULTS_WAIT_SECONDS, DefaultsRecord
from strandline_api.status.pipeline_status import PipelineStatus
from strandline_api.status.reasons import Reason
from strandline_operator.decide.scene import Pass
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import UNANSWERED_WEBHOOK, Refusal, View

# Messages of the API server about a quota that is exhausted, requires a request or limit, or does
# not cover the object.
_QUOTA = ("exceeded quota", "failed quota", "insufficient quota")
FORBIDDEN, NOT_FOUND, TIMEOUT, TAKEN, TOO_MANY, SERVER_ERROR = 403, 404, 408, 409, 429, 500


class Block(NamedTuple):
    """An obstacle, with its reason and details."""

    reason: Reason
    detail: str = ""

    @property
    def message(self) -> str:
        """The message for a condition, including advice."""
        return self.reason.explain(self.detail)

    @property
    def sentence(self) -> str:
        """The message without advice."""
        return self.reason.describe(self.detail)


def read_refusals(refusals: Iterable[Refusal]) -> Block | None:
    """Return the first rejection by the API server, as an obstacle.

    Rejections of the claim and of the preflight Job have their own conditions.
    """
    for refusal in refusals:
        if refusal.what not in {Resource.CLAIM, Resource.JOB}:
            return Block(_find_reason(refusal), describe_refusal(refusal))
    return None


def find_unread(view: View) -> Block | None:
    """Report unreadable objects that are necessary to decide about attempts.

    The claim is not necessary.
    """
    unread = [refusal for refusal in view.unread if refusal.what != Resource.CLAIM]
    if not unread:
        return None
    # Several watches of a resource fail with the same message, so remove duplicates.
    outcome = "; ".join(dict.fromkeys(map(describe_refusal, unread)))
    return Block(
        Reason.PERMISSION_DENIED,
        f"{outcome}. The operator takes no action until it has the permission.",
    )


def find_unusable_defaults(facts: Pass) -> Block | None:
    """Report namespace defaults that are unreadable or have just disappeared.

    Without the defaults, an attempt would use another image or other nodes, or write to another
    location.
    """
    view = facts.view
    if view.defaults_problem:
        return Block(Reason.DEFAULTS_UNUSABLE, view.defaults_problem)
    record = find_defaults_record(view, view.pipeline.status)
    if view.defaults_digest or not record.is_awaited(facts.now):
        return None
    since = facts.now if record.missing_since is None else min(record.missing_since, facts.now)
    end = format_time(round(since + DEFAULTS_WAIT_SECONDS))[11:19]
    message = f"it is missing; unless it is restored, attempts are created without it from {end}"
    return Block(Reason.DEFAULTS_UNUSABLE, f"ConfigMap {view.defaults_name}: {message}")


def find_defaults_record(view: View, status: PipelineStatus) -> DefaultsRecord:
    """Return the record of the namespace's defaults, from this pipeline or another pipeline.

    A pipeline that was created while the defaults were missing has no record itself.
    """
    return status.defaults or view.defaults_before or DefaultsRecord()


def find_reserved_account(facts: Pass) -> Block | None:
    """Report that pods of the pipeline would use the operator's own service account.

    Otherwise, users who create pipelines in the operator's namespace would have the operator's
    permissions in all namespaces.
    """
    namespace, _, name = facts.limits.account.partition("/")
    # Only pods in the same namespace can use a service account.
    if not name or facts.view.pipeline.meta.namespace != namespace:
        return None
    ray = facts.spec.ray
    accounts = set(_list_accounts(ray.model_dump(mode="json", by_alias=True)))
    # Pods without a service account use the namespace's `default` account.
    accounts |= set() if ray.service_account_name else {"default"}
    return Block(Reason.ACCOUNT_RESERVED, name) if name in accounts else None


def _list_accounts(value: object) -> Iterator[str]:
    """Yield the service accounts named at any depth of a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in {"serviceAccountName", "serviceAccount"} and isinstance(inner, str):
                yield inner
            else:
                yield from _list_accounts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_accounts(inner)


def is_by_quota(message: str) -> bool:
    """Return True if the API server rejected an object because of a namespace quota."""
    return any(words in message for words in _QUOTA)


def describe_refusal(refusal: Refusal) -> str:
    """Describe a rejection with the server's message. For a failed read, add verb and kind."""
    if refusal.verb:
        return f"the operator's role lacks '{refusal.verb}' on {refusal.what}: {refusal.message}"
    return f"{refusal.what} {refusal.name}: {refusal.message}"


def _find_reason(refusal: Refusal) -> Reason:
    # An admission webhook does not respond. The message names the webhook, which its owners must
    # fix.
    if refusal.status >= SERVER_ERROR and UNANSWERED_WEBHOOK in refusal.message:
        return Reason.OBJECT_REFUSED
    # A busy or unreachable API server has not decided about the request.
    is_passing = refusal.status in {0, TIMEOUT, TOO_MANY}
    if is_passing or refusal.status >= SERVER_ERROR:
        return Reason.API_UNAVAILABLE
    # If the RayJob kind is not served, KubeRay is not installed.
    if refusal.status == NOT_FOUND and refusal.what == Resource.RAYJOB:
        return Reason.KUBERAY_MISSING
    # Another owner's object has this name, so retrying can't help.
    if refusal.status == TAKEN:
        return Reason.NAME_TAKEN
    return _find_denial(refusal) if refusal.status == FORBIDDEN else Reason.OBJECT_REFUSED


def _find_denial(refusal: Refusal) -> Reason:
    """Return the specific reason for a 403 response. Each reason is fixed by different people."""
    # A quota causes the same status as a missing permission, but needs another fix.
    if is_by_quota(refusal.message):
        return Reason.QUOTA_USED_UP
    if "being terminated" in refusal.message:
        return Reason.NAMESPACE_TERMINATING
    # Kubernetes uses "cannot" for missing permissions; admission plugins have other messages.
    is_right = bool(refusal.verb) or "cannot " in refusal.message
    return Reason.PERMISSION_DENIED if is_right else Reason.OBJECT_REFUSED
