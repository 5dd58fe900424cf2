"""Parses the PromQL of alerts and dashboards, and computes the labels of a query's result.

Unknown syntax is an error, so nothing goes unchecked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TOKEN = re.compile(
    r"\s*(?:(?P<duration>\d+(?:ms|[smhdwy]))|(?P<number>\d+(?:\.\d+)?)|(?P<text>\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){}\[\],=<>]))"
)
AGGREGATIONS = frozenset({"sum", "min", "max", "avg", "count"})
# Functions by the type of their last argument: a range of a counter, any range, or a vector.
OF_COUNTERS = frozenset({"rate", "irate", "increase"})
OF_RANGES = frozenset({"changes", "resets", "max_over_time", "min_over_time", "avg_over_time"})
OF_VECTORS = frozenset({"absent", "histogram_quantile", "clamp_min", "clamp_max", "scalar", "time"})
SETS = frozenset({"and", "or", "unless"})
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
COUNTER = re.compile(r".*_(total|bucket|count|sum)")


class PromqlError(ValueError):
    """A query with invalid syntax, or with unknown series or labels."""


class Matcher(NamedTuple):
    label: str
    sign: str
    value: str


@dataclass
class Reading:
    """A parsed query.

    Attributes:
        served: labels of every existing series, by name.
        selectors: series that the query selects, each with its matchers.
    """

    query: str
    served: Mapping[str, frozenset[str]]
    selectors: list[tuple[str, list[Matcher]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tokens = list(_split(self.query))
        self._at = 0
        self.labels = self._read_expression()
        if self._at != len(self._tokens):
            self._fail(f"unread: {self._peek()}")

    def _read_expression(self) -> frozenset[str]:
        left = self._read_unary()
        while self._peek() in SETS | COMPARISONS | set("+-*/%^"):
            operator = self._next()
            if self._peek() == "bool":
                self._next()
            is_matched = self._read_matching(left)
            right = self._read_unary()
            if operator == "or":
                left &= right
            elif operator not in SETS:
                # Without `on` or `ignoring`, two vectors match on all labels, so the labels must be
                # equal.
                if left and right and not is_matched and left != right:
                    self._fail(f"nothing joins {sorted(left)} with {sorted(right)}")
                left = left or right
        return left

    def _read_matching(self, left: frozenset[str]) -> bool:
        if self._peek() not in {"on", "ignoring"}:
            return False
        self._next()
        self._require(self._read_labels(), left)
        if self._peek() in {"group_left", "group_right"}:
            self._next()
            if self._peek() == "(":
                self._read_labels()
        return True

    def _read_unary(self) -> frozenset[str]:
        if self._peek() in {"-", "+"}:
            self._next()
        token = self._next()
        if token == "(":  # noqa: S105 - a bracket
            labels = self._read_expression()
            self._take(")")
            return self._read_offset(labels)
        if re.fullmatch(r"\d+(\.\d+)?", token):
            return frozenset()
        if token in AGGREGATIONS:
            return self._read_aggregation()
        if token in OF_COUNTERS | OF_RANGES | OF_VECTORS:
            return self._read_call(token)
        return self._read_selector(token, wants_range=False)

    def _read_aggregation(self) -> frozenset[str]:
        grouping = self._read_grouping()
        self._take("(")
        labels = self._read_expression()
        self._take(")")
        grouping = grouping or self._read_grouping()
        if grouping is None:
            return frozenset()
        word, named = grouping
        self._require(named, labels)
        return named if word == "by" else labels - named

    def _read_grouping(self) -> tuple[str, frozenset[str]] | None:
        if self._peek() not in {"by", "without"}:
            return None
        word = self._next()
        return word, self._read_labels()

    def _read_call(self, function: str) -> frozenset[str]:
        self._take("(")
        if function in OF_COUNTERS | OF_RANGES:
            name = self._next()
            if function in OF_COUNTERS and not COUNTER.fullmatch(name):
                self._fail(f"{function} of {name}, which is no counter")
            labels = self._read_selector(name, wants_range=True)
        else:
            labels = self._read_expression()
            while self._peek() == ",":
                self._next()
                labels = self._read_expression()
        self._take(")")
        if function == "histogram_quantile":
            self._require(frozenset({"le"}), labels)
            return labels - {"le"}
        return frozenset() if function in {"scalar", "absent"} else labels

    def _read_selector(self, name: str, *, wants_range: bool) -> frozenset[str]:
        if name not in self.served:
            self._fail(f"there is no series {name}")
        matchers = []
        if self._peek() == "{":
            self._next()
            while self._peek() != "}":
                label, sign, value = self._next(), self._next(), self._next()
                if sign not in {"=", "!=", "=~", "!~"} or value[0] != '"':
                    self._fail(f"{label}{sign}{value}")
                matchers.append(Matcher(label, sign, value[1:-1].replace("\\\\", "\\")))
                if self._peek() == ",":
                    self._next()
            self._take("}")
        labels = self.served[name]
        self._require(frozenset(matcher.label for matcher in matchers), labels)
        self.selectors.append((name, matchers))
        has_range = self._peek() == "["
        if has_range:
            self._next()
            self._next()
            self._take("]")
        if has_range != wants_range:
            self._fail(f"{name} with{'' if has_range else 'out'} a range")
        return self._read_offset(labels)

    def _read_offset(self, labels: frozenset[str]) -> frozenset[str]:
        if self._peek() == "offset":
            self._next()
            self._next()
        return labels

    def _read_labels(self) -> frozenset[str]:
        self._take("(")
        labels = []
        while self._peek() != ")":
            labels.append(self._next())
            if self._peek() == ",":
                self._next()
        self._take(")")
        return frozenset(labels)

    def _require(self, wanted: frozenset[str], there: frozenset[str]) -> None:
        if wanted - there:
            self._fail(f"no label {', '.join(sorted(wanted - there))} among {sorted(there)}")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            self._fail("it ends too early")
        self._at += 1
        return token

    def _take(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            self._fail(f"{found!r} where {wanted!r} should be")

    def _fail(self, what: str) -> None:
        msg = f"{what}, in {self.query}"
        raise PromqlError(msg)


def _split(query: str) -> Iterator[str]:
    at, end = 0, len(query.rstrip())
    while at < end:
        found = TOKEN.match(query, at)
        if found is None:
            msg = f"can't read {query[at:]!r}"
            raise PromqlError(msg)
        yield found.group().strip()
        at = found.end()
