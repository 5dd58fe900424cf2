"""Builds the requests for the rows of a table. Rows with the same prompt share a request.

The module must not depend on whether a request was answered before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from strandline.data.tables.columns import ROW_KEYS, find_column, find_field
from strandline_packs.models.asking.answers import PromptError, RowFault
from strandline_packs.models.asking.parameters import AskParams
from strandline_packs.models.asking.protocols.index import find_protocol
from strandline_packs.models.asking.protocols.pictures import list_pictures
from strandline_packs.models.asking.protocols.port import RowQuestion
from strandline_packs.models.asking.questions.lengths import LengthLimit, TooLong
from strandline_packs.models.asking.questions.prompts import Template, digest_request, list_rows
from strandline_packs.models.asking.questions.schemas import AnswerSchema
from strandline_packs.models.asking.traffic.asker import ModelQuestion


class RowsRequest(NamedTuple):
    """A request, and the rows that need the answer: usually one row.

    Attributes:
        rows: indices of the rows.
        keys: keys of the rows, if the table has a column of keys.
    """

    question: ModelQuestion
    rows: list[int]
    keys: list[str]


@dataclass(slots=True)
class TableRequests:
    """The requests of a table.

    Attributes:
        requests: requests by digest.
        faults: faults of rows without a request, by row index.
        dropped: indices of rows whose prompt is too long.
        truncated: how many prompts were shortened.
    """

    requests: dict[bytes, RowsRequest] = field(default_factory=dict)
    faults: dict[int, RowFault] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    truncated: int = 0


class RequestBuilder:
    """Builds the requests of tables.

    Args:
        params: parameters of the stage, with a `prompt`.
        schema: schema of answers; None if any text is valid.
    """

    def __init__(self, params: AskParams, schema: AnswerSchema | None) -> None:
        assert params.prompt is not None  # conversations build their own prompts
        self._params = params
        self._protocol = find_protocol(params.endpoint)
        self._template = Template(params.prompt)
        self._parameters = {**params.parameters, **params.find_response_format()}
        self._check = None if schema is None else schema.find_fault
        self._rules = find_rules(params, None if params.output is None else params.output.schema_)
        self._limit = None
        if params.tokenizer is not None and params.max_prompt_tokens is not None:
            most = params.max_prompt_tokens
            self._limit = LengthLimit(params.tokenizer, most, params.system)

    def build(self, table: pa.Table) -> TableRequests:
        """Return the requests for the rows of a table.

        Raises:
            MissingColumnError: a column of the prompt is missing.
        """
        result, keys = TableRequests(), list_keys(table)
        for row, question in self._render(table, result.faults):
            try:
                prompt = self._fit(question.prompt, result)
                if prompt is None:
                    result.dropped.add(row)
                elif isinstance(prompt, RowFault):
                    result.faults[row] = prompt
                else:
                    request = self._add(question._replace(prompt=prompt), result)
                    request.rows.append(row)
                    request.keys.extend(keys[row : row + 1])
            except PromptError as error:
                result.faults[row] = RowFault("unfit", str(error))
        return result

    def _add(self, question: RowQuestion, result: TableRequests) -> RowsRequest:
        endpoint, model = self._params.endpoint, self._params.model
        body = self._protocol.build_body(endpoint, model, self._parameters, question)
        digest = digest_request(endpoint, body, self._rules)
        request = RowsRequest(ModelQuestion(body, self._check), [], [])
        return result.requests.setdefault(digest, request)

    def _render(
        self, table: pa.Table, faults: dict[int, RowFault]
    ) -> Iterator[tuple[int, RowQuestion]]:
        """Yield each row's number and question; record a fault for a row without a prompt."""
        columns = {name: find_column(table, name) for name in self._template.columns}
        pictures = [find_field(table, name).to_pylist() for name in self._params.images]
        for row, values in enumerate(list_rows(columns, table.num_rows)):
            try:
                if isinstance(values, PromptError):
                    raise values
                shown = [picture for each in pictures for picture in list_pictures(each[row])]
                prompt = self._template.render(values)
            except PromptError as error:
                faults[row] = RowFault("unfit", str(error))
            else:
                yield row, RowQuestion(prompt, self._params.system, shown)

    def _fit(self, prompt: str, result: TableRequests) -> str | RowFault | None:
        """Return a prompt within the limit, a fault, or None if the row is dropped."""
        if self._limit is None or (tokens := self._limit.measure(prompt)) <= self._limit.most:
            return prompt
        if self._params.too_long is TooLong.TRUNCATE:
            result.truncated += 1
            return self._limit.cut(prompt)
        if self._params.too_long is TooLong.DROP:
            return None
        msg = f"the prompt has {tokens} tokens; the limit is {self._limit.most}"
        return RowFault("too long", msg)


def list_keys(table: pa.Table) -> list[str]:
    """Return the keys of a table's rows as text, or an empty list if no column has keys."""
    name = next((each for each in ROW_KEYS if each in table.column_names), None)
    return [] if name is None else [str(each) for each in table[name].to_pylist()]


def find_rules(params: AskParams, schema: object) -> object:
    """Return the inputs of an answer besides the request: the schema and the served weights."""
    return schema if params.serve is None else [schema, params.serve.weights]
