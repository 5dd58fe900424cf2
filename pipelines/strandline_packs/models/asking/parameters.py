"""Parameters of `ask-model`: the server and model, the prompt, and the form of the answers.

Validation takes place at planning time, so impossible requests are rejected there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    PrivateAttr,
    field_validator,
    model_validator,
)

from strandline.data.files.globs import is_url
from strandline.data.files.opening import digest_input
from strandline.plan.packages import list_missing
from strandline.plan.stages.stage import Stage
from strandline.storage.outputs.remote import resolve_location
from strandline_packs.models.asking.answers import CONVERSING, Endpoint
from strandline_packs.models.asking.questions.conversations import (
    digest_rollout,
    load_rollout,
)
from strandline_packs.models.asking.questions.lengths import TooLong
from strandline_packs.models.asking.questions.prompts import Template
from strandline_packs.models.asking.questions.schemas import AnswerSchema
from strandline_packs.models.asking.serving.commands import ServeParams
from strandline_packs.models.asking.spending.terms import SpendingTerms, SpentTotals, TokenPrices
from strandline_packs.models.asking.traffic.connection import (
    BatchParams,
    ConnectionPart,
    HeaderParams,
    KeyParams,
    ServerParams,
    TimeoutParams,
    check_headers,
    check_url,
)

# The first missing package determines the extra to install. aiohttp is also part of another extra,
# so it comes last.
PACKAGES = ("jinja2", "jsonschema", "aiohttp")
# Parameters that the stage sets, or whose answers the stage could not read.
_RESERVED = {
    "model": "`model`",
    "messages": "`prompt` and `system`",
    "prompt": "`prompt`",
    "input": "`prompt`",
    "response_format": "`output`",
    "stream": "nothing: answers are read whole",
    "n": "nothing: a row has one answer",
}


class SchemaFormat(StrEnum):
    """Notation of a schema in a request."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    UNSENT = "unsent"


class OutputParams(ConnectionPart):
    """Sets the required form of an answer."""

    schema_: dict[str, JsonValue] = Field(
        alias="schema",
        description="JSON schema of the answer, which must be an object. Each property that is a "
        "string, a number or a boolean becomes a column.",
    )
    send_as: SchemaFormat = Field(
        default=SchemaFormat.JSON_SCHEMA,
        description="Form of the schema in `response_format`: `json_schema` for OpenAI and vLLM, "
        "`json_object` for llama.cpp, or `unsent`, which `messages` always uses. Answers are "
        "validated in any case.",
    )
    repairs: int = Field(
        default=0,
        ge=0,
        le=5,
        description="Number of times that an invalid answer is returned to the model for "
        "correction.",
    )


class PriceParams(ConnectionPart):
    """Sets the prices of tokens, in any currency."""

    prompt_tokens: float = Field(default=0.0, ge=0, description="Price of a million prompt tokens.")
    completion_tokens: float = Field(
        default=0.0, ge=0, description="Price of a million answer tokens."
    )


class BudgetParams(ConnectionPart):
    """Sets spending limits over all attempts and runs of the pipeline."""

    requests: int | None = Field(
        default=None, ge=0, description="Maximum number of requests to send."
    )
    tokens: int | None = Field(
        default=None, ge=0, description="Maximum number of tokens of prompts and answers."
    )
    cost: float | None = Field(
        default=None, ge=0, description="Maximum cost, computed from `prices`."
    )


class AskParams(Stage.Params):
    """Configures the model, the request, and the spending limits."""

    url: Annotated[str, AfterValidator(check_url)] | None = Field(
        default=None,
        min_length=1,
        description="Address of a server that speaks the protocol of `endpoint`, such as "
        "`http://127.0.0.1:8000/v1`.",
    )
    servers: tuple[ServerParams, ...] = Field(
        default=(),
        description="Instead of `url`, several servers with the same model: `url`, `weight`, "
        "`fallback`, and `key` of each.",
    )
    serve: ServeParams | None = Field(
        default=None,
        description="Instead of `url`, a server that each worker starts: `engine`, `model`, "
        "`args`, and further settings.",
    )
    model: str = Field(min_length=1, description="Name of the model on the server.")
    endpoint: Endpoint = Field(
        default=Endpoint.CHAT,
        description="`chat`, `completions`, or `embeddings` of OpenAI's protocol, or `messages` of "
        "Anthropic's.",
    )
    prompt: str | None = Field(
        default=None,
        min_length=1,
        description="Template in Jinja2's notation over the columns of a row: `{{ text }}`.",
    )
    rollout: str | None = Field(
        default=None,
        min_length=1,
        description="Instead of `prompt`, a conversation: `module:function` names an `async def "
        "function(row, ask)`.",
    )
    system: str | None = Field(
        default=None,
        min_length=1,
        description="Instructions before the prompt; only with `chat` or `messages`.",
    )
    images: tuple[str, ...] = Field(
        default=(),
        description="Columns with the bytes of pictures, or lists of them, that go before the "
        "prompt; only with `chat` or `messages`.",
    )
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Further fields of the request, in the server's spelling, such as "
        "`temperature`, `max_tokens` or `seed`.",
    )
    output: OutputParams | None = Field(
        default=None,
        description="Form of the answer; by default any text. Only with `chat` or `messages`.",
    )
    into: str = Field(
        default="answer",
        min_length=1,
        description="Column of the answer. Others begin with its name: `answer_finish_reason`, "
        "`answer_prompt_tokens`, `answer_completion_tokens`, and `answer_` with each property.",
    )
    key: KeyParams | None = Field(
        default=None, description="Location of the key, as `{env: NAME}`; by default no key."
    )
    headers: Annotated[HeaderParams, AfterValidator(check_headers)] = Field(
        default_factory=dict,
        description="Further headers of each request: a text, or `{env: NAME}` for a secret.",
    )
    texts_per_request: int = Field(
        default=32,
        ge=1,
        le=2048,
        description="With `embeddings`, the maximum number of texts in a request. A server that "
        "accepts fewer gets fewer.",
    )
    vector_size: int | None = Field(
        default=None,
        ge=1,
        description="With `embeddings`, the number of values of each vector. The column then has "
        "lists of a fixed size, and other sizes fail the row.",
    )
    requests: str | None = Field(
        default=None,
        min_length=1,
        description="Folder or URL for the log of requests; paths are resolved when the run "
        "starts. By default `requests` in the pipeline's folder on the volume, or no log if "
        "workers can't reach the volume.",
    )
    concurrency: int = Field(
        default=32, ge=1, le=4096, description="Maximum number of concurrent requests of a worker."
    )
    tries: int = Field(
        default=5,
        ge=1,
        description="Maximum number of tries of a row while the server answers other requests.",
    )
    outage_limit: float = Field(
        alias="patience",
        default=600.0,
        gt=0,
        description="Seconds to wait for a server that answers no request, before the attempt "
        "ends.",
    )
    batch: BatchParams | None = Field(
        default=None,
        description="Sends the requests of a task as one batch, for half of the price at OpenAI "
        "and Anthropic, and waits for the answers: `pollSeconds`, `window`.",
    )
    requests_per_minute: float | None = Field(
        default=None,
        gt=0,
        description="Maximum number of requests per minute, of all workers together.",
    )
    tokens_per_minute: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Maximum number of tokens per minute, of prompts and answers, of all workers together."
        ),
    )
    budget: BudgetParams | None = Field(
        default=None,
        description="Limits of `requests`, `tokens` or `cost`. The run ends at the first limit and "
        "continues after the limit is raised.",
    )
    prices: PriceParams | None = Field(
        default=None,
        description="Prices of a million tokens: `promptTokens`, `completionTokens`.",
    )
    timeouts: TimeoutParams = Field(
        default_factory=TimeoutParams, description="Seconds to wait for an answer."
    )
    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="File or URL of the model's `tokenizer.json`, which counts a prompt's tokens.",
    )
    max_prompt_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of tokens of prompt and `system`; needs `tokenizer`.",
    )
    too_long: TooLong = Field(
        default=TooLong.FAIL,
        description="Treatment of a longer prompt before sending: `truncate`, `drop`, or `fail`, "
        "which fails the row.",
    )
    _digests: dict[str, str] = PrivateAttr(default_factory=dict)
    _columns: tuple[str, ...] = PrivateAttr(default=())

    @field_validator("requests")
    @classmethod
    def _resolve_requests(cls, value: str | None) -> str | None:
        """Resolve a path here, because workers have their own working directories."""
        return value if value is None or is_url(value) else resolve_location(value)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum((self.url is not None, bool(self.servers), self.serve is not None)) != 1:
            msg = "set either `url` or `serve`, or `servers`"
            raise ValueError(msg)
        if self.serve is not None:
            self._digests["serve"] = self.serve.weights
            for name in ("key", "headers"):
                if getattr(self, name):
                    msg = f"`{name}` requires `url`"
                    raise ValueError(msg)
        if self.servers and all(each.fallback for each in self.servers):
            msg = "`servers` needs at least one without `fallback`"
            raise ValueError(msg)
        for name in self.parameters:
            if name in _RESERVED:
                msg = f"`parameters` must not contain {name!r}, which is set by {_RESERVED[name]}"
                raise ValueError(msg)
        self._check_endpoint()
        self._check_rollout()
        self._check_batch()
        return self._check_rest()

    def _check_rest(self) -> Self:
        if (self.tokenizer is None) != (self.max_prompt_tokens is None):
            msg = "`tokenizer` and `maxPromptTokens` must be set together"
            raise ValueError(msg)
        if self.budget is not None and self.budget.cost is not None and self.prices is None:
            msg = "`budget.cost` requires `prices`"
            raise ValueError(msg)
        if self.tokenizer is not None:
            self._digests["tokenizer"] = digest_input(self.tokenizer)
        if not list_missing(PACKAGES):  # missing packages are reported elsewhere
            self._columns = () if self.prompt is None else Template(self.prompt).columns
            self.read_schema()
        return self

    def _check_rollout(self) -> None:
        if (self.prompt is None) == (self.rollout is None):
            msg = "set either `prompt` or `rollout`"
            raise ValueError(msg)
        if self.rollout is None:
            return
        if self.endpoint is not Endpoint.CHAT:
            msg = "`rollout` requires `endpoint: chat`"
            raise ValueError(msg)
        for name in ("system", "images", "tokenizer"):
            if getattr(self, name):
                msg = f"`{name}` requires `prompt`; with `rollout`, handle it in the function"
                raise ValueError(msg)
        self._digests["rollout"] = digest_rollout(load_rollout(self.rollout))

    def _check_batch(self) -> None:
        if self.batch is None:
            return
        excluded = {
            "serve": self.serve,
            "servers": self.servers,
            "rollout": self.rollout,
            "requestsPerMinute": self.requests_per_minute,
            "tokensPerMinute": self.tokens_per_minute,
            "output.repairs": self.output and self.output.repairs,
        }
        for name, value in excluded.items():
            if value:
                msg = f"`batch` does not go with `{name}`; remove one of the two"
                raise ValueError(msg)
        if self.requests is not None and is_url(self.requests):
            msg = "`batch` keeps a record of each batch, so `requests` must be a folder, not a URL"
            raise ValueError(msg)

    def _check_endpoint(self) -> None:
        if self.vector_size is not None and self.endpoint is not Endpoint.EMBEDDINGS:
            msg = "`vectorSize` requires `endpoint: embeddings`"
            raise ValueError(msg)
        if self.endpoint in CONVERSING:
            return
        for name in ("system", "images", "output"):
            if getattr(self, name):
                msg = f"`{name}` requires `endpoint: chat` or `endpoint: messages`"
                raise ValueError(msg)

    @property
    def server(self) -> str:
        """Name of the server in messages."""
        if self.serve is not None:
            return f"its own {self.serve.engine}"
        if self.url is not None:
            return f"the server {self.url}"
        return f"the servers {', '.join(each.url for each in self.servers)}"

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of files and functions that decide the output, by parameter."""
        return self._digests

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the prompt reads, including columns of pictures."""
        own = (*self._columns, *(name.split(".")[0] for name in self.images))
        return tuple(dict.fromkeys(own))

    @property
    def spending(self) -> SpendingTerms:
        """The rates, the budget and the prices."""
        budget, prices = self.budget or BudgetParams(), self.prices or PriceParams()
        return SpendingTerms(
            self.requests_per_minute,
            self.tokens_per_minute,
            budget.requests,
            budget.tokens,
            budget.cost,
            TokenPrices(prices.prompt_tokens, prices.completion_tokens),
        )

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the cost of tokens, or None if no prices are set."""
        if self.prices is None:
            return None
        return SpentTotals(0, prompt_tokens, completion_tokens).price(self.spending.prices)

    def read_schema(self) -> AnswerSchema | None:
        """Return the schema of answers, or None if any text is valid.

        Raises:
            ValueError: the schema is invalid.
        """
        return None if self.output is None else AnswerSchema(self.output.schema_, self.into)

    def find_response_format(self) -> dict[str, Any]:
        """Return the fields of a request's body that send the schema to the server."""
        is_unsent = self.endpoint is not Endpoint.CHAT
        if self.output is None or is_unsent or self.output.send_as is SchemaFormat.UNSENT:
            return {}
        schema = self.output.schema_
        if self.output.send_as is SchemaFormat.JSON_OBJECT:
            return {"response_format": {"type": "json_object", "schema": schema}}
        named = {"name": "answer", "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}

    def list_servers(self) -> tuple[ServerParams, ...]:
        """Return the servers of `url` or `servers`, with their keys; none if the stage serves."""
        given = self.servers or (() if self.url is None else (ServerParams(url=self.url),))
        return tuple(
            each if each.key is not None else each.model_copy(update={"key": self.key})
            for each in given
        )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the location of the tokenizer, and the URL of the log if the log is in a store."""
        if self.tokenizer is not None:
            yield "tokenizer", self.tokenizer
        if self.requests is not None and is_url(self.requests):
            yield "requests", self.requests
