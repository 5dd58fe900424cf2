"""Describes problems of a document in sentences for its author.

This module turns the errors of any pydantic model into a path, a short sentence, and a likely fix.
It must not depend on any particular document.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from strandline_api.documents.locations import SchemaLocation, find_location, joined
from strandline_api.notation.quantities import shorten

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
# Maximum number of known names to list in a message.
_FEW = 12
# Longer integers have more than 60 digits, and Python refuses to convert very long integers to
# text.
_LONG_BITS = 200
# YAML parses unquoted text like `yes`, `1.10`, and `2026-11-21` as these types.
_QUOTABLE = (bool, int, float, date, datetime)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a document: the path, the description, and a suggestion.

    Attributes:
        position: file and line, such as `pipeline.yaml:12`; empty if unknown.
    """

    path: str
    message: str
    suggestion: str = ""
    position: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Join the parts: `spec.stagess: unknown field 'stagess'; did you mean 'stages'?`."""
        text = f"{self.message}; {self.suggestion}" if self.suggestion else self.message
        return ": ".join(filter(None, (self.position, self.path, text)))


class SpecError(ValueError):
    """Raised if a document is not a valid pipeline or attempt.

    Attributes:
        problems: all problems, at least one.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Store the problems. The message has one line per problem."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def problems_of(error: ValidationError, model: type[BaseModel], at: str) -> tuple[Problem, ...]:
    """Translate a pydantic error for the author of a document.

    Args:
        error: the error from validating the model.
        model: the validated model.
        at: path of the model's object in the document, such as `spec.stages[2].with`; "" for the
            document itself.

    Returns:
        One problem per path, in pydantic's order; never empty.
    """
    by_path: dict[str, list[Problem]] = {}
    for details in error.errors(include_url=False):
        problem = _problem_of(details, model, at)
        by_path.setdefault(problem.path, []).append(problem)
    return tuple(_united(problems) for problems in by_path.values())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the closest known name. If no name is close, list all names, unless they are many."""
    names = list(known)
    # Ignore hyphens, underscores, and case: `min_words` and `min-words` mean `minWords`.
    folded = {_folded(name): name for name in names}
    close = get_close_matches(_folded(word), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    return f"known names: {', '.join(names)}" if 0 < len(names) <= _FEW else ""


def show(value: object) -> str:
    """Format a value from a document for a message, in YAML notation."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple | set):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _LONG_BITS:
        return "a very long number"
    if isinstance(value, date | datetime):
        return f"the date {value}"
    return shorten(value)


def _problem_of(details: ErrorDetails, model: type[BaseModel], at: str) -> Problem:
    location, type_ = details["loc"], details["type"]
    if type_ in ("extra_forbidden", "unexpected_keyword_argument"):
        # The last segment is the unknown field itself, so look up the location of its parent.
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
    # Nearly all other pydantic messages start this way. The others are readable unchanged.
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
    """Merge the problems that the branches of a union report for the same value."""
    first = problems[0]
    # Splits `must be text, not 5` into `text` and `, not 5`.
    parts = [re.fullmatch(r"must be (.+?)(, not .+)", each.message) for each in problems]
    branches = [part for part in parts if part is not None]
    if len(branches) != len(problems):
        return first
    wanted = dict.fromkeys(part[1] for part in branches)
    return Problem(first.path, f"must be {' or '.join(wanted)}{branches[0][2]}", first.suggestion)


def _bare(value: Any) -> Any:
    """Convert a float bound with an integer value to an integer: 0, not 0.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
