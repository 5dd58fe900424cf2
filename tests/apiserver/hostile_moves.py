"""Random requests of a tenant with `edit` permission in one namespace, with hostile objects.

Any request that the API server accepts is allowed. No request may affect other namespaces.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from kube_client import KubeClient, Refusal, spell_path
from kuberay_standin.shell.api import MERGE_PATCH
from operator_process import OperatorProcess
from recordings import Json

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
NAMES = ("a", "b", "c")
LARGE = 400_000  # characters; an API server accepts 1.5 million per object
MOST_SENT = 3_000_000
_SCALARS: tuple[Any, ...] = (
    None, True, -1, 0, 2**53, 1e308, "", "x", "\ud800", "ﬀ\u202e", "-----BEGIN PRIVATE KEY-----",
    "$(HOME)", "{{ .Values }}", "!!python/object:os.system", "1e999999",
)  # fmt: skip
_ANNOTATIONS = ("strandline.dev/retry", "strandline.dev/cancel", "strandline.dev/release", "x/y")


def make_pipeline(name: str, parameters: Json | None = None) -> Json:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {
            "source": {"use": "files", "with": parameters or {}},
            "sink": {"use": "jsonl"},
            "ray": {"workerGroups": [{"name": "cpu"}]},
        },
    }


def is_well(operator: OperatorProcess) -> bool:
    """Return True if the operator's health page reports success."""
    try:
        return operator.ask("healthz")[0] == 200
    except OSError:  # the operator does not listen yet
        return False


def is_dispatched(client: KubeClient, namespace: str) -> bool:
    """Return True if the operator has made an attempt in the namespace."""
    return bool(client.list("CurationAttempt", namespace))


class Tenant:
    """A tenant that writes into one namespace.

    Args:
        seed: seed of the random moves.
    """

    def __init__(self, client: KubeClient, namespace: str, seed: int) -> None:
        self._client = client
        self._namespace = namespace
        self._draw = random.Random(seed)
        self.taken = self.refused = 0

    def move(self) -> None:
        """Send one random request. The server may reject the request."""
        moves: list[Callable[[], None]] = [
            self._write_pipeline,
            self._write_pipeline,
            self._edit,
            self._annotate,
            self._write_defaults,
            self._write_code,
            self._write_job,
            self._delete,
        ]
        try:
            self._draw.choice(moves)()
            self.taken += 1
        except Refusal:
            self.refused += 1

    def _ask(self, method: str, path: str, body: Json, content: str = "application/json") -> None:
        # Most libraries cannot serialize such deep nesting.
        text = json.dumps(body).replace('"DEEP"', self._nest())
        if len(text) > MOST_SENT:
            raise Refusal(413, "RequestEntityTooLarge", "it would hang up on us")
        # A response may have a warning header for each field, more than Python's HTTP client
        # accepts.
        with suppress(RecursionError, HTTPException):
            self._client.ask(method, path, text.encode(), content=content, accept=METADATA)

    def _nest(self) -> str:
        levels, (begin, end) = (
            self._draw.choice((70, 1500, 4000, 9000)),
            self._draw.choice((('{"a":', "}"), ("[", "]"))),
        )
        return begin * levels + "1" + end * levels

    def _odd(self, depth: int = 3) -> Any:
        kind = self._draw.randrange(10)
        if kind in {0, 9}:
            return "DEEP"
        if kind == 1:
            return "y" * self._draw.choice((64, 5_000, LARGE))
        if kind == 2 and depth:
            return {f"k{at}": self._odd(depth - 1) for at in range(self._draw.choice((1, 40)))}
        if kind == 3 and depth:
            return [self._odd(depth - 1) for _ in range(self._draw.choice((1, 40)))]
        if kind == 4:
            return {f"k{at}": at for at in range(20_000)}
        return self._draw.choice(_SCALARS)

    def _write_pipeline(self) -> None:
        body = make_pipeline("")
        spec, ray = body["spec"], body["spec"]["ray"]
        for _ in range(self._draw.randrange(1, 3)):
            at = self._draw.randrange(7)
            if at == 0:
                spec["source"]["with"] = {"paths": self._odd()}
            elif at == 1:
                spec["sink"]["with"] = self._odd()
            elif at == 2:
                ray["podTemplate"] = {"spec": self._odd()}
            elif at == 3:
                ray["podTemplate"] = {
                    "spec": {"containers": [{"name": "ray-head", "env": self._odd()}]}
                }
            elif at == 4:
                spec["stages"] = [{"use": "x:Y", "with": {"v": self._odd()}} for _ in range(9)]
            elif at == 5:
                ray["authOptions"] = self._odd()
            else:
                spec[self._draw.choice(("retry", "deadlines", "schedule", "after"))] = self._odd()
        body["metadata"]["name"] = self._draw.choice(NAMES)
        self._ask("POST", spell_path("CurationPipeline", self._namespace), body)

    def _edit(self) -> None:
        field = self._draw.choice(("sink", "source", "suspend", "runId", "ray", "storage"))
        values = ({"use": "jsonl", "with": self._odd()}, True, False, "two", self._odd())
        self._patch({"spec": {field: self._draw.choice(values)}})

    def _annotate(self) -> None:
        odd = self._draw.choice(("1", "now", "x" * 200_000, "\u202e"))
        self._patch({"metadata": {"annotations": {self._draw.choice(_ANNOTATIONS): odd}}})

    def _patch(self, patch: Json) -> None:
        path = spell_path("CurationPipeline", self._namespace, self._draw.choice(NAMES))
        self._ask("PATCH", path, patch, MERGE_PATCH)

    def _write_defaults(self) -> None:
        key, text = self._draw.choice(("retry", "ray", "output", "odd")), json.dumps(self._odd(1))
        tricks = (text, "[" * 50_000, "a: &a [x]\nb: [*a, *a]", "\t", "maxRetries: 1", "a: b: c")
        self._put_config("strandline-defaults", {key: self._draw.choice(tricks)})

    def _write_code(self) -> None:
        self._put_config(
            "code", {f"m{at}.py": "x" * 9_000 for at in range(self._draw.randrange(60))}
        )

    def _put_config(self, name: str, data: Json) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        path = spell_path("ConfigMap", self._namespace, name)
        with suppress(Refusal):
            self._client.ask("DELETE", path)
        self._ask("POST", spell_path("ConfigMap", self._namespace), body)

    def _write_job(self) -> None:
        """Write a RayJob that imitates an attempt's RayJob."""
        labels = {
            "strandline.dev/pipeline": self._draw.choice(NAMES),
            "strandline.dev/attempt": self._draw.choice(("1", "999999999999", "x")),
            "app.kubernetes.io/managed-by": "strandline",
        }
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": f"{self._draw.choice(NAMES)}-1", "labels": labels},
            "spec": {"entrypoint": "x" * self._draw.choice((1, LARGE))},
        }
        self._ask("POST", spell_path("RayJob", self._namespace), body)

    def _delete(self) -> None:
        kind = self._draw.choice(("CurationPipeline", "RayJob"))
        name = self._draw.choice(NAMES) + ("-1" if kind == "RayJob" else "")
        self._client.ask("DELETE", spell_path(kind, self._namespace, name))
