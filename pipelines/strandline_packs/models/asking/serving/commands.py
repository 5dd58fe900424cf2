"""Renders the command line that starts a model server.

This module does no I/O.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from strandline.data.files.globs import is_url

_HERE = "127.0.0.1"


class ServedEngine(StrEnum):
    """Program that serves a model."""

    LLAMA_CPP = "llama-cpp"
    VLLM = "vllm"
    COMMAND = "command"


class ServeParams(BaseModel):
    """A server that each worker of the stage starts for itself, on the worker's node."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    engine: ServedEngine = Field(
        description="`llama-cpp`, of the package `llama-cpp-python[server]`; `vllm`; or `command`, "
        "any other that speaks OpenAI's protocol."
    )
    model: str = Field(
        min_length=1,
        description="Path of the weights on the workers' nodes, the engine's name for them, or, "
        "with `digest`, the URL of a file that each node copies once.",
    )
    digest: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the file of a URL, in hexadecimal digits.",
    )
    args: tuple[str, ...] = Field(
        default=(), description="Additional arguments of the engine, such as `--n_ctx`."
    )
    command: tuple[str, ...] = Field(
        default=(),
        description="With `engine: command`, the command line; `{port}`, `{model}` and `{name}` "
        "are replaced.",
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="With `llama-cpp`, the Python interpreter that has the package; by default the "
        "workers' own.",
    )
    ready_within: float = Field(
        default=600.0, gt=0, description="Seconds from the start until the server must answer."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.engine is ServedEngine.COMMAND) != bool(self.command):
            msg = "`command` and `engine: command` must be set together"
            raise ValueError(msg)
        if self.command and not any("{port}" in word for word in self.command):
            msg = "`command` must contain `{port}`, the port on which the server listens"
            raise ValueError(msg)
        if is_url(self.model) != (self.digest is not None):
            msg = "`digest` must be set if `model` is a URL, and only then"
            raise ValueError(msg)
        return self

    @property
    def weights(self) -> str:
        """Return an identifier of the weights that does not depend on their location."""
        return self.digest or self.model


def render_command(serve: ServeParams, name: str, port: int) -> list[str]:
    """Return the command line that starts a server.

    Args:
        name: model name used in requests.
        port: port on which the server listens.
    """
    address = ["--host", _HERE, "--port", str(port)]
    if serve.engine is ServedEngine.VLLM:
        return ["vllm", "serve", serve.model, "--served-model-name", name, *address, *serve.args]
    if serve.engine is ServedEngine.LLAMA_CPP:
        python = serve.python or sys.executable
        words = [python, "-m", "llama_cpp.server", "--model", serve.model, "--model_alias", name]
        return [*words, *address, *serve.args]
    values = {"{port}": str(port), "{model}": serve.model, "{name}": name}
    return [_fill(word, values) for word in (*serve.command, *serve.args)]


def _fill(word: str, values: dict[str, str]) -> str:
    for mark, value in values.items():
        word = word.replace(mark, value)
    return word
