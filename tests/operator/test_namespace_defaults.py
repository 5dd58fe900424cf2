"""A namespace's retry defaults are read at intervals, and broken defaults are reported."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from fake_api import FakeApi
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.cluster.errors import Forbidden, NotFound, Unavailable
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.caches.namespaces.defaults import (
    KEEP_SECONDS,
    RETRY,
    FoundDefaults,
    NamespaceDefaults,
    parse_part,
)

NAME = "strandline-defaults"


def put(api: FakeApi, text: str = "", **more: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}}
    data = {"retry": text, **more}
    api.store.create(Resource.CONFIG_MAP, "team", {**body, "data": data})


def test_a_policy_has_the_given_fields() -> None:
    body = {"data": {"retry": "maxRetries: 7\ndelay: 5s\n"}}
    policy, said = parse_part(body, RETRY, RetryPolicy)
    assert said == ""
    assert (policy.max_retries, policy.delay_seconds) == (7, 5.0)
    assert policy.model_fields_set == {"max_retries", "delay"}


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": {}}, {"data": {"retry": ""}}])
def test_an_empty_config_map_has_no_defaults(body: dict[str, object]) -> None:
    policy, said = parse_part(body, RETRY, RetryPolicy)
    assert (policy.model_fields_set, said) == (set(), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("maxRetries: many", "retry.maxRetries: must be a whole number, not 'many'"),
        ("[1, 2]", "retry: must be an object, not a list"),
        ("a: [", "retry: this is not YAML: "),
        ("[" * 10_000, "retry: must be nested at most 32 levels deep"),
        (
            "a: &a [x, x]\nb: [*a, *a]",
            "retry: line 2: aliases are not supported; write the value out",
        ),
        ("a: " + "x" * 70_000, "retry: must have at most 65,536 bytes, not 70,003"),
        ("2026-13-45", "retry: this is not YAML: "),
    ],
)
def test_a_broken_config_map_is_reported_as_unusable(text: str, said: str) -> None:
    api = FakeApi()
    put(api, text)

    found = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))

    assert (found.policy.model_fields_set, found.refusals) == (set(), ())
    assert found.unusable.startswith(f"ConfigMap {NAME}: {said}")
    assert "\n" not in found.unusable
    # A broken ConfigMap exists, so after a deletion the operator waits for its return.
    assert found.digest


def put_again(api: FakeApi, **data: str) -> None:
    with suppress(NotFound):
        api.store.delete(Resource.CONFIG_MAP, "team", NAME)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
    api.store.create(Resource.CONFIG_MAP, "team", body)


def test_an_unreadable_config_map_is_reported_as_unusable() -> None:
    async def run() -> None:
        api, defaults = FakeApi(), NamespaceDefaults(NAME)
        assert (await defaults.read(api, "team", 0.0)).unusable == ""
        put_again(api, ray="queueName: 5")
        found = await defaults.read(api, "team", 100.0)
        assert (
            found.unusable
            == f"ConfigMap {NAME}: ray.queueName: must be text, not 5; put it in quotes"
        )
        put_again(api, ray="colour: red")  # a newer operator may support the field
        assert (await defaults.read(api, "team", 200.0)).unusable == ""

    asyncio.run(run())


def test_a_digest_identifies_defaults_and_is_empty_if_missing() -> None:
    async def run() -> None:
        api, defaults = FakeApi(), NamespaceDefaults(NAME)
        digests = []
        for number, queue in enumerate(("team-a", "team-a", "team-b")):
            put_again(api, ray=f"queueName: {queue}")
            found = await defaults.read(api, "team", 100.0 * number)
            assert found.spec.ray.queue_name == queue
            digests.append(found.digest)
        assert digests[0] == digests[1] != digests[2]
        api.store.delete(Resource.CONFIG_MAP, "team", NAME)
        assert await defaults.read(api, "team", 400.0) == FoundDefaults(RetryPolicy())
        put(api)
        assert (await defaults.read(api, "team", 500.0)).digest

    asyncio.run(run())


def test_only_some_of_many_errors_are_named() -> None:
    api = FakeApi()
    put(api, "".join(f"a{number}: 1\n" for number in range(500)))
    _, (problem,), *_ = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))
    assert problem.message.endswith("; and 496 more; the other defaults apply")
    assert len(problem.message) < 1024


def test_defaults_with_an_unknown_field_apply_otherwise() -> None:
    api = FakeApi()
    put(api, "maxRetrys: 1\ndelay: 5s\ndisruptions: {later: true, maxRetries: 9}")

    policy, (problem,), *_ = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))

    assert (policy.max_retries, policy.delay_seconds, policy.disruptions.max_retries) == (3, 5.0, 9)
    assert policy.model_fields_set == {"delay", "disruptions"}
    assert (problem.what, problem.name, problem.status) == ("configmaps", NAME, 422)
    assert problem.message == (
        "retry.disruptions.later: unknown field 'later'; known names: maxRetries; "
        "retry.maxRetrys: unknown field 'maxRetrys'; did you mean 'maxRetries'?; the other "
        "defaults apply"
    )


def test_missing_permissions_make_the_defaults_unusable() -> None:
    api = FakeApi()

    def refuse(_: object) -> None:
        raise Forbidden(403, "Forbidden", "you cannot get configmaps")

    api.before.append(refuse)
    found = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))
    assert found.unusable == (
        "the operator may not read ConfigMap strandline-defaults: you cannot get configmaps"
    )
    assert not found.digest


def test_a_namespaces_defaults_are_read_at_intervals() -> None:
    async def run() -> None:
        api, defaults = FakeApi(), NamespaceDefaults(NAME)
        assert (await defaults.read(api, "team", 100.0))[0].model_fields_set == set()
        put(api, "maxRetries: 7")
        assert (await defaults.read(api, "team", 100.0 + KEEP_SECONDS - 1))[0].max_retries == 3
        assert (await defaults.read(api, "other", 101.0))[0].max_retries == 3
        assert (await defaults.read(api, "team", 100.0 + KEEP_SECONDS))[0].max_retries == 7
        assert len(api.calls) == 3
        # A clock set back does not keep old defaults forever.
        await defaults.read(api, "team", 0.0)
        assert len(api.calls) == 4

    asyncio.run(run())


def test_transient_errors_are_not_cached() -> None:
    async def run() -> None:
        api, defaults = FakeApi(), NamespaceDefaults(NAME)

        def fail(_: object) -> None:
            api.before.clear()
            raise Unavailable(500, "", "try again")

        api.before.append(fail)
        put(api, "maxRetries: 7")
        with pytest.raises(Unavailable):
            await defaults.read(api, "team", 0.0)
        assert (await defaults.read(api, "team", 0.0))[0].max_retries == 7

    asyncio.run(run())


def test_image_queue_and_output_are_read_beside_the_policy() -> None:
    api = FakeApi()
    put(
        api,
        "maxRetries: 7",
        ray="{image: registry.example/team:1, queueName: team-a, podTemplate: {spec: {a: 1}}}",
        output="url: s3://team/clean",
    )
    found = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))
    assert found.refusals == ()
    assert found.policy.max_retries == 7
    assert (found.spec.ray.image, found.spec.ray.queue_name) == (
        "registry.example/team:1",
        "team-a",
    )
    assert found.spec.output.url == "s3://team/clean"


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("ray", "image: 3", "ray.image: must be text, not 3"),
        ("ray", "colour: red", "ray.colour: unknown field 'colour'"),
        (
            "ray",
            "podTemplate: {spec: {containers: [{name: ray-haed}, {image: x}]}}",
            "ray: podTemplate.spec.containers[0]",
        ),
        ("output", "{url: s3://a, claimName: b}", "output: give 'url' or 'claimName', not both"),
        ("output", "[", "output: this is not YAML"),
    ],
)
def test_an_error_in_one_key_does_not_affect_the_others(key: str, text: str, said: str) -> None:
    api = FakeApi()
    put(api, "maxRetries: 7", **{key: text})
    found = asyncio.run(NamespaceDefaults(NAME).read(api, "team", 0.0))
    message = found.unusable.removeprefix(f"ConfigMap {NAME}: ") or found.refusals[0].message
    assert message.startswith(said), message
    assert found.policy.max_retries == 7
    assert found.spec == SpecDefaults()
