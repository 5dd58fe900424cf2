"""A scope's cache reaches the server's state, in whatever order its events arrive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fake_store import FakeStore
from operator_bodies import NAMESPACE
from strandline_operator.cluster.api import Body
from strandline_operator.cluster.watches.scope_cache import (
    EXPECTATION_SECONDS,
    Observation,
    ScopeCache,
)
from strandline_operator.model.plan import Resource

Value = tuple[str, str, str]
KIND = Resource.CONFIG_MAP
NAMES = ("a", "b", "c")


def read(body: Body, _: Value | None = None) -> Value:
    metadata = body["metadata"]
    return metadata["name"], metadata["uid"], str(body.get("data"))


def make_cache() -> ScopeCache[Value]:
    cache = ScopeCache(read, lambda value: (value[0], "all"))
    cache.is_connected = True
    return cache


@dataclass
class World:
    """A store and a cache that lags behind. `answers` has writes unknown to the cache."""

    store: FakeStore = field(default_factory=FakeStore)
    cache: ScopeCache[Value] = field(default_factory=make_cache)
    shown: int = 0
    answers: list[Body] = field(default_factory=list)
    told: list[Observation[Value]] = field(default_factory=list)

    def change(self, verb: str, name: str, text: str) -> None:
        """Change an object if the change is possible."""
        there = self.store.get(KIND, NAMESPACE, name) is not None
        if verb == "make" and not there:
            body = {"metadata": {"name": name}, "data": text}
            self.answers.append(self.store.create(KIND, NAMESPACE, body))
        elif verb == "edit" and there:
            self.answers.append(self.store.patch(KIND, NAMESPACE, name, {"data": text}))
        elif verb == "remove" and there:
            self.store.remove(KIND, NAMESPACE, name)

    def list_all(self) -> None:
        entries = [self.cache.read(body) for body in self.store.list(KIND)]
        self.told += self.cache.replace(entries, str(self.store.version))
        self.shown = len(self.store.history)

    def stream(self, events: int | None = None) -> None:
        """Deliver some of the pending events, or all if `events` is None."""
        for change in self.store.history[self.shown :][:events]:
            self.told += self.cache.apply(change.kind, change.body)
            self.shown += 1

    def answer(self, index: int) -> None:
        """Deliver the response to one of the operator's writes."""
        if self.answers:
            self.cache.put(self.answers.pop(index % len(self.answers)), 0.0)


def describe(cache: ScopeCache[Value]) -> set[Value]:
    by_name = {value for name in NAMES for value in cache.find(name)}
    assert by_name == set(cache.find("all"))
    assert len(cache) == len(by_name)
    return by_name


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["make", "edit", "remove"]), st.sampled_from(NAMES), st.text(max_size=1)
        ),
        st.tuples(st.sampled_from(["stream", "answer"]), st.integers(0, 3)),
        st.tuples(st.just("list")),
    ),
    max_size=30,
)


def play(world: World, steps: list[Any]) -> None:
    for verb, *rest in steps:
        if verb == "list":
            world.list_all()
        elif verb == "stream":
            world.stream(rest[0])
        elif verb == "answer":
            world.answer(rest[0])
        else:
            world.change(verb, *rest)


@given(STEPS, st.booleans())
def test_law_a_list_ends_in_the_same_state_as_the_stream(steps: list[Any], is_listed: bool) -> None:
    world = World()
    world.list_all()
    play(world, steps)
    if is_listed:
        world.list_all()
    else:
        world.stream()
    there = {read(body) for body in world.store.list(KIND)}
    assert describe(world.cache) == there
    # Late responses do not restore deleted objects.
    while world.answers:
        world.answer(0)
    assert describe(world.cache) == there


@given(STEPS)
def test_law_observations_add_up_to_the_current_state(steps: list[Any]) -> None:
    world = World()
    world.list_all()
    play(world, [step for step in steps if step[0] != "answer"])
    world.stream()
    last = {change.value[1]: change for change in world.told}
    alive = {change.value for change in last.values() if not change.is_gone}
    assert alive == describe(world.cache)


@given(STEPS, st.sampled_from(NAMES))
def test_law_a_write_is_read_back_until_a_newer_version_arrives(
    steps: list[Any], name: str
) -> None:
    world = World()
    world.list_all()
    play(world, steps)
    before = world.store.get(KIND, NAMESPACE, name)
    world.change("make" if before is None else "edit", name, "mine")
    world.cache.put(world.answers.pop(), 0.0)
    (mine,) = (value for value in describe(world.cache) if value[2] == "mine" and value[0] == name)
    # Older events that arrive after the write's response do not revert the write.
    world.stream(len(world.store.history) - world.shown - 1)
    assert mine in describe(world.cache)


@given(STEPS, st.sampled_from(NAMES))
def test_law_an_older_list_does_not_revert_a_write(steps: list[Any], name: str) -> None:
    world = World()
    world.list_all()
    play(world, steps)
    listed, version = world.store.list(KIND), str(world.store.version)
    known = len(world.store.history)
    world.change("remove", name, "")
    world.change("make", name, "mine")
    world.cache.put(world.answers.pop(), 0.0)
    world.cache.replace([world.cache.read(body) for body in listed], version)
    (mine,) = (value for value in describe(world.cache) if value[2] == "mine" and value[0] == name)
    world.shown = known
    world.stream()
    assert {value for value in describe(world.cache) if value[0] == name} == {mine}


def test_an_unconfirmed_write_expires_after_a_while() -> None:
    world = World()
    world.list_all()
    world.change("make", "a", "mine")
    (answer,) = world.answers
    assert world.cache.put(answer, 100.0)
    assert not world.cache.put(answer, 101.0)
    assert world.cache.is_current(100.0 + EXPECTATION_SECONDS)
    assert not world.cache.is_current(102.0 + EXPECTATION_SECONDS)
    world.stream()
    assert world.cache.is_current(102.0 + EXPECTATION_SECONDS)


def test_a_write_dated_by_a_fast_clock_makes_the_cache_stale() -> None:
    world = World()
    world.list_all()
    world.change("make", "a", "mine")
    (answer,) = world.answers
    world.cache.put(answer, 3600.0)
    assert not world.cache.is_current(60.0)
    world.stream()
    assert world.cache.is_current(60.0)


def test_a_bookmark_confirms_a_write() -> None:
    world = World()
    world.list_all()
    world.change("make", "a", "mine")
    world.cache.put(world.answers[0], 100.0)
    bookmark = {"metadata": {"resourceVersion": str(world.store.version)}}
    assert world.cache.apply("BOOKMARK", bookmark) == []
    assert world.cache.version == str(world.store.version)
    assert world.cache.is_current(200.0)
    assert len(world.cache) == 1


def test_an_unlisted_or_unwatched_scope_is_not_current() -> None:
    cache = make_cache()
    assert not cache.is_current(0.0)
    assert not cache.put({"metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}}, 0.0)
    cache.replace([], "8")
    assert cache.is_current(0.0)
    cache.is_connected = False
    assert not cache.is_current(0.0)
    cache.is_connected, cache.version = True, ""
    assert not cache.is_current(0.0)


def test_non_numeric_versions_are_ordered_by_arrival() -> None:
    cache = make_cache()

    def make(version: str, text: str) -> Body:
        metadata = {"name": "a", "uid": "1", "resourceVersion": version}
        return {"metadata": metadata, "data": text}

    cache.replace([cache.read(make("x", "old"))], "opaque-1")
    assert not cache.put(make("y", "mine"), 0.0)
    assert [change.value[2] for change in cache.apply("MODIFIED", make("y", "mine"))] == ["mine"]
    assert cache.version == "y"
    assert [change.is_gone for change in cache.replace([], "opaque-2")] == [True]
    assert len(cache) == 0


def test_an_equal_object_with_another_version_is_no_change() -> None:
    cache = make_cache()
    body = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "5"}}
    cache.replace([cache.read(body)], "5")
    again = {"metadata": {**body["metadata"], "resourceVersion": "6"}}
    assert cache.apply("MODIFIED", again) == []
    older = {**body, "data": "older"}
    assert cache.apply("MODIFIED", older) == []
    assert cache.find("a") == (("a", "1", "None"),)


def test_each_version_is_parsed_once() -> None:
    parsed: list[str] = []

    def read_counted(body: Body, before: Value | None) -> Value:
        parsed.append(body["metadata"]["resourceVersion"])
        return read(body, before)

    cache = ScopeCache(read_counted, lambda value: (value[0], "all"))
    cache.replace([], "1")
    bodies = [
        {"metadata": {"name": "a", "uid": "u", "resourceVersion": version}, "data": version}
        for version in ("2", "3", "4")
    ]
    assert cache.put(bodies[1], 0.0)
    # The stream shows an earlier version, the written one, and a later one before its response.
    assert [len(cache.apply("MODIFIED", body)) for body in bodies] == [0, 0, 1]
    assert not cache.put(bodies[2], 0.0)
    assert parsed == ["3", "4"]


def test_a_cache_has_seen_its_version_and_earlier_versions() -> None:
    world = World()
    world.change("make", "a", "old")
    (old,) = world.answers
    world.change("edit", "a", "new")
    new = world.answers[1]
    assert not world.cache.has(old)
    world.list_all()
    assert world.cache.has(old)
    assert world.cache.has(new)
    world.change("edit", "a", "newer")
    assert not world.cache.has(world.answers[2])
    opaque = {"metadata": {**old["metadata"], "resourceVersion": "x"}}
    assert not world.cache.has(opaque)


def test_malformed_events_change_nothing() -> None:
    cache = make_cache()
    cache.replace([], "5")
    assert cache.apply("BOOKMARK", {}) == []
    assert cache.apply("BOOKMARK", {"metadata": None}) == []
    assert cache.version == "5"
