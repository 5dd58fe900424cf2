"""Finds pipelines that need a pass because another pipeline has changed.

A pipeline that waits for another pipeline gets a pass as soon as a run of the other pipeline ends
or starts. Objects are read without validation. This module must not depend on the resulting
decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from strandline_api.spec.predecessors import find_references
from strandline_api.status.reasons import ConditionType
from strandline_operator.cluster.api import Body
from strandline_operator.model.objects import Meta, read_mapping
from strandline_operator.reconcile.scheduling.schedule import Key

State = tuple[object, ...]


@dataclass(slots=True)
class Dependents:
    """Pipelines by predecessor, as read from events."""

    _states: dict[Key, State] = field(default_factory=dict)
    _before: dict[Key, frozenset[Key]] = field(default_factory=dict)
    _after: dict[Key, set[Key]] = field(default_factory=dict)

    def note(self, key: Key, body: Body) -> tuple[Key, ...]:
        """Record a pipeline. Return the pipelines that this change may affect."""
        state, former = _read_state(body), self._states.get(key)
        # A deleted pipeline waits for no other pipeline, so forget it.
        if Meta.read(body).is_deleting:
            self._states.pop(key, None)
            self._keep(key, frozenset())
        elif former == state:
            return ()
        else:
            if former is None or former[0] != state[0]:
                self._keep(key, frozenset(_list(key, body)))
            self._states[key] = state
        return tuple(sorted(self._after.get(key, ())))

    def _keep(self, key: Key, before: frozenset[Key]) -> None:
        for other in self._before.pop(key, frozenset()) - before:
            waiting = self._after[other]
            waiting.discard(key)
            if not waiting:
                del self._after[other]
        if before:
            self._before[key] = before
        for other in before:
            self._after.setdefault(other, set()).add(key)


def _read_state(body: Body) -> State:
    """Return a pipeline's references, and the rest of its state that matters to other pipelines."""
    meta, status = Meta.read(body), read_mapping(body.get("status"))
    conditions = status.get("conditions")
    conditions = conditions if isinstance(conditions, list) else []
    truth = [
        each.get("status")
        for each in conditions
        if isinstance(each, Mapping) and each.get("type") == ConditionType.SUCCEEDED
    ]
    identity = (meta.uid, meta.generation)
    parts = (("schedule", "nextTime"), ("handled", "retry"), ("handled", "repair"))
    inner = [read_mapping(status.get(part)).get(name) for part, name in parts]
    names = ("run", "observedGeneration")
    return identity, *(status.get(name) for name in names), *inner, *truth


def _list(key: Key, body: Body) -> Iterator[Key]:
    """Yield the names of pipelines in `after` and in inputs."""
    spec = read_mapping(body.get("spec"))
    after = spec.get("after")
    names = [read_mapping(each).get("name") for each in after] if isinstance(after, list) else []
    references = [
        reference.pipeline
        for field_name in ("source", "stages", "sink")
        for _, reference in find_references(spec.get(field_name), field_name)
    ]
    for name in (*names, *references):
        if isinstance(name, str):
            yield Key(key.namespace, name)
