"""A body is parsed once, and parsed again only after a change."""

from __future__ import annotations

from typing import Any

from parsed_bodies import ParsedBodies


def test_a_body_is_parsed_again_only_after_an_edit() -> None:
    parsed, calls = ParsedBodies(), list[Any]()

    def parse(body: dict[str, Any]) -> Any:
        calls.append(body["a"])
        return body["a"]

    body: dict[str, Any] = {"a": 1}
    answers = [parsed.parse(body, parse) for _ in range(2)]
    for value in (True, 1.0, [1], 1):
        body["a"] = value
        answers.append(parsed.parse(body, parse))

    assert [repr(answer) for answer in answers] == ["1", "1", "True", "1.0", "[1]", "1"]
    assert [repr(call) for call in calls] == ["1", "True", "1.0", "[1]"]


def test_a_body_without_a_text_form_is_parsed_each_time() -> None:
    body: list[Any] = []
    for _ in range(100_000):
        body = [body]
    parsed, calls = ParsedBodies(), list[int]()

    for _ in range(2):
        parsed.parse(body, lambda deep: calls.append(len(deep)))

    assert calls == [1, 1]
    while body:  # unnest the body, because deallocation would recurse too deeply
        body = body.pop()
