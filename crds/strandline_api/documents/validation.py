"""Translates errors of pydantic models into problems of a document.

A problem has a path, a short sentence, and a likely suggestion. This module must not depend on any
particular document.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from strandline_api.documents.locations import SchemaLocation, find_location, joined
from strandline_api.documents.problems import Problem, did_you_mean, show

_EXPECTATIONS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dataclass_type": "an object",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "frozen_set_type": "a list",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "invalid-json-value": "text, a number, true or false, a list or an object",
    "iterable_type": "a list",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "set_type": "a list",
    "string_type": "text",
    "tuple_type": "a list",
}
_STATEMENTS = {
    "extra_forbidden": "unknown field",
    "invalid_key": "field names must be text",
    "missing": "required",
    "recursion_loop": "must not contain itself",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "unexpected_keyword_argument": "unknown field",
}
# YAML reads unquoted text like `yes`, `1.10`, and `2026-11-21` as these types.
_QUOTABLE = (bool, int, float, date, datetime)


def problems_of(error: ValidationError, model: type[BaseModel], at: str) -> tuple[Problem, ...]:
    """Translate a pydantic error for the author of a document.

    Args:
        error: the error from validating the model.
        model: the validated model.
        at: path of the model's object in the document, such as `spec.stages[2].with`; "" for
            the document itself.

    Returns:
        One problem for each place, in pydantic's order; never empty.
    """
    by_path: dict[str, list[Problem]] = {}
    for details in error.errors(include_url=False):
        problem = _problem_of(details, model, at)
        by_path.setdefault(problem.path, []).append(problem)
    return tuple(_united(problems) for problems in by_path.values())


def _problem_of(details: ErrorDetails, model: type[BaseModel], at: str) -> Problem:
    location, type_ = details["loc"], details["type"]
    if type_ in ("extra_forbidden", "unexpected_keyword_argument"):
        # The last part is the unknown field itself, which no model contains.
        return _unknown_field(find_location(model, at, location[:-1]), str(location[-1]))
    context = {name: _bare(value) for name, value in details.get("ctx", {}).items()}
    path = find_location(model, at, location).path
    path = f"{path}.{context['below']}".lstrip(".") if "below" in context else path
    return Problem(path, _message(details, context), _suggestion(details, context))


def _unknown_field(owner: SchemaLocation, name: str) -> Problem:
    return Problem(
        joined(owner.path, name), f"unknown field '{name}'", did_you_mean(name, owner.fields)
    )


def _message(details: ErrorDetails, context: Mapping[str, Any]) -> str:
    type_ = details["type"]
    if type_ in ("string_too_short", "too_short") and context["min_length"] == 1:
        return "must not be empty"
    if type_ in _STATEMENTS:
        return _STATEMENTS[type_].format_map(context)
    if type_ in ("value_error", "assertion_error"):
        return str(context["error"])
    if expectation := _expectation(details, context):
        return f"must be {expectation}, not {show(details['input'])}"
    return details["msg"][:1].lower() + details["msg"][1:]


def _expectation(details: ErrorDetails, context: Mapping[str, Any]) -> str:
    type_ = details["type"]
    if type_ in _EXPECTATIONS:
        return _EXPECTATIONS[type_].format_map(context)
    if type_ in ("literal_error", "enum"):
        return str(context["expected"])
    if type_ == "string_pattern_mismatch":
        return f"text that matches {context['pattern']}"
    # Nearly all other messages of pydantic start this way, and the rest is readable.
    spoken = re.fullmatch(r"Input should be (.+)", details["msg"], flags=re.DOTALL)
    return spoken[1] if spoken else ""


def _suggestion(details: ErrorDetails, context: Mapping[str, Any]) -> str:
    type_, given = details["type"], details["input"]
    if type_ in ("string_type", "invalid-json-value") and isinstance(given, _QUOTABLE):
        return "put it in quotes"
    if type_ in ("literal_error", "enum") and isinstance(given, str):
        # Pydantic lists allowed values as `'Fail', 'Restart' or 'Redo'`.
        known = re.findall(r"'([^']*)'", str(context["expected"]))
        suggestion = did_you_mean(given, known)
        return suggestion if suggestion.startswith("did") else ""
    return ""


def _united(problems: list[Problem]) -> Problem:
    """Join the problems that the branches of a union report for the same value."""
    first = problems[0]
    # Splits `must be text, not 5` into `text` and `, not 5`.
    parts = [re.fullmatch(r"must be (.+?)(, not .+)", each.message) for each in problems]
    branches = [part for part in parts if part is not None]
    if len(branches) != len(problems):
        return first
    wanted = dict.fromkeys(part[1] for part in branches)
    return Problem(first.path, f"must be {' or '.join(wanted)}{branches[0][2]}", first.suggestion)


def _bare(value: object) -> object:
    """Write a bound that is a whole number as an integer: 0, not 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
