"""How the server of an engine is started: parameters into the words of a command. Pure."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from strandline.data.files.globs import is_url

_HERE = "127.0.0.1"


class ServedEngine(StrEnum):
    """What serves a model."""

    LLAMA_CPP = "llama-cpp"
    VLLM = "vllm"
    COMMAND = "command"


class ServeParams(BaseModel):
    """A server that each worker of the stage starts for itself, where its resources are."""

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
        default=(), description="More words of the engine's command line, such as `--n_ctx`."
    )
    command: tuple[str, ...] = Field(
        default=(),
        description="With `engine: command`, its words, in which `{port}`, `{model}` and `{name}` "
        "are filled in.",
    )
    python: str | None = Field(
        default=None,
        min_length=1,
        description="With `llama-cpp`, the Python that has it; by default the workers' own.",
    )
    ready_within: float = Field(
        default=600.0, gt=0, description="Seconds in which it must answer after it was started."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.engine is ServedEngine.COMMAND) != bool(self.command):
            msg = "`command` goes with `engine: command`, and that with it"
            raise ValueError(msg)
        if self.command and not any("{port}" in word for word in self.command):
            msg = "`command` has no `{port}`, on which the server has to listen"
            raise ValueError(msg)
        if is_url(self.model) != (self.digest is not None):
            msg = "`digest` goes with a `model` that is a URL, and that with it"
            raise ValueError(msg)
        return self

    @property
    def weights(self) -> str:
        """Return what tells these weights from others, wherever they are."""
        return self.digest or self.model


def render_command(serve: ServeParams, name: str, port: int) -> list[str]:
    """Return the words that start a server.

    Args:
        name: of the model, by which it is asked for.
        port: on which it listens.
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
