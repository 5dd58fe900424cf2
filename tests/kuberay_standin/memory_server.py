"""An API server in memory for the stand-in's shell: objects, refusals, and a list of calls."""

from __future__ import annotations

import copy
import itertools
import string

from kuberay_standin.objects import Json, get_name
from kuberay_standin.shell.api import RefusalError


class MemoryServer:
    """Objects by kind and name, and refusals by call.

    Attributes:
        refusals: HTTP status of each refused call, such as `create Pod`.
        sentence: message of each refusal.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.refusals: dict[str, int] = {}
        self.sentence = "no"
        self.calls: list[str] = []
        self._letters = itertools.product(string.ascii_lowercase, repeat=5)

    def draw(self) -> str:
        """Return five letters for a new name."""
        return "".join(next(self._letters))

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        """Return the stored objects themselves, so that a test detects changes by the shell."""
        self._call("list")
        name, _, value = labels.partition("=")
        return [
            body
            for (listed, _), body in self.objects.items()
            if listed == kind
            and (not labels or body["metadata"].get("labels", {}).get(name) == value)
        ]

    def create(self, body: Json) -> None:
        self._call(f"create {body['kind']}")
        made = copy.deepcopy(body)
        if "generateName" in made["metadata"]:
            made["metadata"]["name"] = made["metadata"].pop("generateName") + self.draw()
        place = (made["kind"], get_name(made))
        assert place not in self.objects, f"{place} is there already"
        made["metadata"]["uid"] = f"uid-of-{get_name(made)}"
        self.objects[place] = made

    def put_status(self, body: Json, status: Json) -> None:
        self._call(f"put {body['kind']}")
        self.find(body["kind"], get_name(body))["status"] = status

    def hold(self, body: Json, finalizers: tuple[str, ...]) -> None:
        self._call("hold")
        self.find(body["kind"], get_name(body))["metadata"]["finalizers"] = list(finalizers)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._call(f"delete {kind}")
        del self.objects[kind, name]

    def find(self, kind: str, name: str) -> Json:
        return self.objects[kind, name]

    def _call(self, call: str) -> None:
        self.calls.append(call)
        if call in self.refusals:
            raise RefusalError(self.refusals[call], self.sentence)
