"""An unresponsive webhook of the cluster is reported, and the request is retried in time."""

from __future__ import annotations

import asyncio

from fake_api import Call, FakeApi
from fake_store import FakeStore
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline
from played_operator import Operator
from strandline_operator.cluster.errors import make_error
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

WEBHOOK = 'Internal error occurred: failed calling webhook "mrayjob.kb.io": connection refused'


def test_an_unanswered_webhook_is_reported_and_retried() -> None:
    """Kueue's webhook has no server, and only the rejected RayJob shows this."""
    api = FakeApi(FakeStore(time=1_000_000.0))
    make_attempt(api.store, make_pipeline(api.store))
    is_away = True

    def refuse(call: Call) -> None:
        if is_away and call.verb == "create" and call.resource is Resource.RAYJOB:
            raise make_error(500, "InternalError", WEBHOOK)

    api.before.append(refuse)
    operator = Operator(api, Limits())
    for _ in range(5):
        api.store.time += 5
        for claim in api.store.list(Resource.CLAIM):
            api.store.put_status(
                Resource.CLAIM, NAMESPACE, claim["metadata"]["name"], {"phase": "Bound"}
            )
        passed = asyncio.run(operator.passes.run(KEY))
    (found,) = api.store.list(Resource.PIPELINE)
    told = {each["type"]: each for each in found["status"]["conditions"]}["Succeeded"]
    assert told["reason"] == "ObjectRefused"
    assert WEBHOOK in told["message"]
    assert passed.wake_at is not None
    is_away = False
    api.store.time = passed.wake_at
    asyncio.run(operator.passes.run(KEY))
    assert [body["metadata"]["name"] for body in api.store.list(Resource.RAYJOB)] == ["corpus-1"]
