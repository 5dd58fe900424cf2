"""The stage `redact-pii`: personal addresses and numbers in prose, replaced by what they were.

Redacting twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field

from strandline.plan.registry import register
from strandline.plan.stage import Stage
from strandline.stages.text.addresses import ACCOUNT, CARD, EMAIL, IPV4, IPV6, PHONE, RedactionRule
from strandline.stages.text.redaction import RedactingStage


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


@register("redact-pii")
class RedactPii(RedactingStage):
    """Replaces e-mail addresses, phone, card and account numbers and public IPs by their kind."""

    class Params(Stage.Params):
        """Where to look, and for what."""

        columns: tuple[str, ...] = Field(
            default=("text",), min_length=1, description="Columns of text to redact."
        )
        kinds: tuple[Personal, ...] = Field(
            default=tuple(Personal),
            min_length=1,
            description="`email`; `iban` and `card` with right check digits; `ip`, public only; "
            "`phone`.",
        )

    params: Params

    def list_kinds(self) -> Iterator[RedactionRule]:
        """Yield the chosen kinds; the surest come first whatever their order in `kinds`."""
        for kind in Personal:
            if kind in self.params.kinds:
                yield from _KINDS[kind]

    def list_columns(self) -> tuple[str, ...]:
        """Return the columns that the parameters name."""
        return self.params.columns
