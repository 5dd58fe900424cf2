"""The stage `redact-pii`: replaces personal addresses and numbers in prose by their kind.

Redacting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain
from typing import ClassVar, Self

from pydantic import Field, model_validator

from strandline.plan.stages.stage import Stage
from strandline_api.texts import RedactionRule
from strandline_packs.text.privacy.addresses import (
    ACCOUNT,
    CARD,
    EMAIL,
    IPV4,
    IPV6,
    PHONE,
    is_ip,
)
from strandline_packs.text.privacy.redaction import RedactingStage


class Personal(StrEnum):
    """A kind of personal data."""

    EMAIL = "email"
    IBAN = "iban"
    CARD = "card"
    IP = "ip"
    PHONE = "phone"


_KINDS: dict[Personal, tuple[RedactionRule, ...]] = {
    Personal.EMAIL: (EMAIL,),
    Personal.IBAN: (ACCOUNT,),
    Personal.CARD: (CARD,),
    Personal.IP: (IPV4, IPV6),
    Personal.PHONE: (PHONE,),
}


class RedactPii(RedactingStage):
    """Replaces e-mail addresses, phone, card, account numbers, and public IPs with their kind."""

    class Params(Stage.Params):
        """Configures the columns to search, and the kinds to replace."""

        columns: tuple[str, ...] = Field(
            default=("text",), min_length=1, description="Columns of text to redact."
        )
        kinds: tuple[Personal, ...] = Field(
            default=tuple(Personal),
            min_length=1,
            description="Kinds to redact: `email`; `iban` and `card` with valid check digits; "
            "`ip`, public only; `phone`.",
        )
        replacements: dict[Personal, tuple[str, ...]] = Field(
            default={},
            description="Replacements by kind, such as `{email: [email@example.com]}`; if there "
            "are several, the redacted text determines which one is used. By default "
            "`<EMAIL>`, `<IP>` and so on. Replacements are never redacted themselves.",
        )
        private_ips: bool = Field(
            default=False, description="Also redact addresses of private networks."
        )

        @model_validator(mode="after")
        def _check_replacements(self) -> Self:
            rules = create_rules(self)
            for text in chain.from_iterable(self.replacements.values()):
                found: list[str] = []
                # A replacement that itself matches a rule would grow with every pass.
                for rule in rules:
                    found += [each[0] for each in rule.regex.finditer(text) if rule.holds(each[0])]
                if found or not text:
                    fault = "would be redacted itself" if text else "must not be empty"
                    msg = f"the replacement {text!r} {fault}"
                    raise ValueError(msg)
            return self

    version = "2"
    params: Params
    added_params: ClassVar[frozenset[str]] = frozenset({"private_ips", "replacements"})

    def list_kinds(self) -> Iterator[RedactionRule]:
        """Return the chosen kinds, the most certain first, regardless of their order in `kinds`."""
        return iter(create_rules(self.params))

    def list_columns(self) -> tuple[str, ...]:
        """Return the columns that the parameters name."""
        return self.params.columns


def create_rules(params: RedactPii.Params) -> list[RedactionRule]:
    """Return the rules of the chosen kinds, the most certain first, without replacements."""
    written = frozenset(chain.from_iterable(params.replacements.values()))
    rules = []
    for kind in Personal:
        if kind in params.kinds:
            for rule in _KINDS[kind]:
                holds = is_ip if kind is Personal.IP and params.private_ips else rule.holds
                choices = params.replacements.get(kind, ())
                rules.append(rule._replace(holds=_except(holds, written), choices=choices))
    return rules


def _except(holds: Callable[[str], bool], written: frozenset[str]) -> Callable[[str], bool]:
    """Extend a check to reject the replacement values."""
    return lambda value: value not in written and holds(value)
